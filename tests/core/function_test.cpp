// User-defined ops: what forward and backward see, saved tensors, errors.
#include <doctest/doctest.h>

#include <any>

#include "tests/support/check.h"

#include <tandem/core/function.h>
#include <tandem/core/ops/factories.h>
#include <tandem/core/ops/pointwise.h>
#include <tandem/core/ops/reduce.h>

using namespace tandem;
using namespace tandem::test;

namespace {

struct Square : Function<Square> {
  static Tensor forward(FunctionContext* ctx, const Tensor& x) {
    CHECK(!is_grad_enabled());
    ctx->save_for_backward({x});
    return x * x;
  }
  static std::vector<Tensor> backward(FunctionContext* ctx, const std::vector<Tensor>& dy) {
    CHECK(!is_grad_enabled());
    const Tensor x = ctx->saved()[0];
    CHECK(!x.requires_grad());
    return {dy[0] * 2 * x};
  }
};

// (a^p, a b), with a number between the tensors
struct Two : Function<Two> {
  static std::vector<Tensor> forward(FunctionContext* ctx, const Tensor& a, double p,
                                     const Tensor& b) {
    ctx->values["p"] = p;
    ctx->save_for_backward({a, Tensor(), b});
    return {pow(a, p), a * b};
  }
  static std::vector<Tensor> backward(FunctionContext* ctx, const std::vector<Tensor>& dy) {
    const std::vector<Tensor> saved = ctx->saved();
    CHECK(!saved[1].defined());
    const double p = std::any_cast<double>(ctx->values["p"]);
    const Tensor &a = saved[0], &b = saved[2];
    Tensor db;
    if (ctx->needs_input_grad(2)) db = dy[1] * a;
    return {dy[0] * p * pow(a, p - 1) + dy[1] * b, Tensor(), db};
  }
};

struct Argmax : Function<Argmax> {  // values and their positions
  static std::vector<Tensor> forward(FunctionContext*, const Tensor& x) {
    return {x * 1.0, argmax(x)};
  }
  static std::vector<Tensor> backward(FunctionContext*, const std::vector<Tensor>& dy) {
    return {dy[0]};
  }
};

template <int kCase>
struct Wrong : Function<Wrong<kCase>> {
  static Tensor forward(FunctionContext*, const Tensor& x, int) { return x * 1.0; }
  static std::vector<Tensor> backward(FunctionContext*, const std::vector<Tensor>& dy) {
    if (kCase == 0) return {dy[0]};
    if (kCase == 1) return {dy[0].sum(), Tensor()};
    return {dy[0], dy[0]};
  }
};

}  // namespace

TEST_CASE("function: backward gets the gradient and what was saved") {
  const Tensor x = tensor({1.0, -2.0, 3.0}, {.requires_grad = true});
  const Tensor y = Square::apply(x);
  CHECK(close(y, {1, 4, 9}));
  CHECK(std::string(y.impl()->node->name) == "Square");
  y.sum().backward();
  CHECK(close(x.grad(), {2, -4, 6}));
}

TEST_CASE("function: between other ops, twice with retain_graph") {
  const Tensor x = tensor({3.0}, {.requires_grad = true});
  const Tensor y = (Square::apply(x * 2.0) + x).sum();  // 4 x^2 + x
  y.backward(true);
  y.backward();
  CHECK(close(x.grad(), {50}));
  CHECK(throws<StaleGraphError>([&] { y.backward(); }, {"freed"}));
}

TEST_CASE("function: several inputs and outputs, numbers, unused outputs count as zeros") {
  Tensor a = tensor({2.0}, {.requires_grad = true});
  const Tensor b = tensor({5.0}, {.requires_grad = true});
  const std::vector<Tensor> y = Two::apply(a, 3.0, b);
  CHECK(close(y[0], {8}));
  CHECK(close(y[1], {10}));
  (y[0] + y[1]).backward();
  CHECK(close(a.grad(), {12 + 5}));
  CHECK(close(b.grad(), {2}));
  a.zero_grad();
  const Tensor constant = tensor({5.0});
  Two::apply(a, 3.0, constant)[0].backward();
  CHECK(close(a.grad(), {12}));
}

TEST_CASE("function: outputs that are not floats carry no history") {
  const Tensor x = tensor({1.0, 7.0, 2.0}, {.requires_grad = true});
  const std::vector<Tensor> y = Argmax::apply(x);
  CHECK(y[0].requires_grad());
  CHECK(!y[1].requires_grad());
  CHECK(y[1].item<int>() == 1);
}

TEST_CASE("function: nothing is recorded without a need") {
  CHECK(!Square::apply(tensor({1.0})).requires_grad());
  const Tensor x = tensor({1.0}, {.requires_grad = true});
  const NoGrad no_grad;
  CHECK(!Square::apply(x).requires_grad());
}

TEST_CASE("function: a saved tensor that was written is noticed") {
  Tensor x = tensor({1.0}, {.requires_grad = true});
  const Tensor y = Square::apply(x);
  {
    const NoGrad no_grad;
    x.fill_(5);
  }
  CHECK(throws<StaleGraphError>([&] { y.backward(); }, {"Square", "changed since forward"}));
}

TEST_CASE("function: wrong gradients are refused with the name of the op") {
  const Tensor x = tensor({1.0, 2.0}, {.requires_grad = true}), ones2 = tensor({1.0, 1.0});
  CHECK(throws<UsageError>([&] { Wrong<0>::apply(x, 1).backward(ones2); },
                           {"Wrong<0>", "1 gradients", "2 arguments"}));
  CHECK(throws<UsageError>([&] { Wrong<1>::apply(x, 1).backward(ones2); },
                           {"Wrong<1>", "argument 0", "()", "(2,)"}));
  CHECK(throws<UsageError>([&] { Wrong<2>::apply(x, 1).backward(ones2); },
                           {"Wrong<2>", "argument 1", "not a tensor"}));
  CHECK(!x.grad().defined());
}

TEST_CASE("function: the graph holds no tensor, so it goes with its last output") {
  const std::int64_t before = bytes_in_use(dev(0));
  {
    const Tensor x = ones({1000}, {.requires_grad = true});
    Tensor y = Square::apply(x);
    y = Square::apply(y);
  }
  CHECK(bytes_in_use(dev(0)) == before);
}
