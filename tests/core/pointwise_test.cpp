// Pointwise ops beside their values: how types promote, shapes broadcast, and what is refused.
// Values and gradients of every op are checked by the op table.
#include <doctest/doctest.h>

#include <functional>
#include <limits>

#include "tests/support/check.h"

#include <tandem/core/autograd.h>
#include <tandem/core/ops/factories.h>
#include <tandem/core/ops/linalg.h>
#include <tandem/core/ops/pointwise.h>
#include <tandem/core/ops/reduce.h>
#include <tandem/core/ops/softmax.h>
#include <tandem/core/thread_state.h>

using namespace tandem;
using namespace tandem::test;

TEST_CASE("promotion: PyTorch's result types of tensors and numbers") {
  // rows: bool int64 float16 bfloat16 float32 float64, with dimensions; from torch.result_type
  const DType b = boolean, i = int64, h = float16, g = bfloat16, f = float32, d = float64;
  const DType types[] = {b, i, h, g, f, d};
  const DType both[6][6] = {{b, i, h, g, f, d}, {i, i, h, g, f, d}, {h, h, h, f, f, d},
                            {g, g, f, g, f, d}, {f, f, f, f, f, d}, {d, d, d, d, d, d}};
  // the right one without dimensions
  const DType point[6][6] = {{b, i, h, g, f, d}, {i, i, h, g, f, d}, {h, h, h, h, h, h},
                             {g, g, g, g, g, g}, {f, f, f, f, f, f}, {d, d, d, d, d, d}};
  const int computed = has_float64() ? 6 : 5;
  for (int r = 0; r < computed; ++r) {
    const Tensor x = ones({2}, {.dtype = types[r]});
    for (int c = 0; c < computed; ++c) {
      INFO(types[r], " and ", types[c]);
      const Tensor y = ones({2}, {.dtype = types[c]}), p = ones({}, {.dtype = types[c]});
      CHECK((x + y).dtype() == both[r][c]);
      CHECK((x * p).dtype() == point[r][c]);
      CHECK((p * x).dtype() == point[r][c]);
      CHECK((x < y).dtype() == boolean);
      CHECK(where(tensor(true), x, y).dtype() == both[r][c]);
    }
    CHECK((x + 1.5).dtype() == (is_floating(types[r]) ? types[r] : f));
    CHECK((x + 1).dtype() == (types[r] == b ? i : types[r]));
    CHECK((x + true).dtype() == types[r]);
  }
}

TEST_CASE("promotion: division and functions of real numbers turn integers into float32") {
  const Tensor x = tensor({1, 4});
  CHECK((x / 2).dtype() == float32);
  CHECK(close(x / 2, {0.5, 2}));
  CHECK((1 / x).dtype() == float32);
  CHECK((x / x).dtype() == float32);
  CHECK(close(sqrt(x), {1, 2}));
  CHECK(close(exp(tensor({false, true})), {1, 2.718281828}));
  CHECK(softmax(x, 0).dtype() == float32);
  CHECK((x * 2).dtype() == int64);
  CHECK(doubles(5 - x) == std::vector<double>{4, 1});
  CHECK(clamp(x, 2, 3).dtype() == int64);
  CHECK(clamp(x, 1.5, 3).dtype() == float32);
}

TEST_CASE("promotion: integers above 2^53 keep all bits") {
  const std::int64_t big = (std::int64_t(1) << 60) + 1;
  const Tensor x = tensor({1, 2});
  CHECK((x + big).to_vector<std::int64_t>() == std::vector<std::int64_t>{big + 1, big + 2});
  CHECK((big - x).to_vector<std::int64_t>() == std::vector<std::int64_t>{big - 1, big - 2});
  CHECK((x * big)[0].item<std::int64_t>() == big);
  CHECK(!(tensor(big) == big - 1).item<bool>());
}

TEST_CASE("promotion: gradients go back in the type of each input") {
  const std::pair<DType, DType> types[] = {{bfloat16, float32}, {float32, float64}};
  for (const auto& [narrow, wide] : types) {
    if (wide == float64 && !has_float64()) continue;
    const Tensor a = tensor({1.0, 2.0}, {.dtype = narrow, .requires_grad = true});
    const Tensor b = tensor({3.0, 4.0}, {.dtype = wide, .requires_grad = true});
    const Tensor n = tensor({5, 6});
    (a * b * n).sum().backward();
    CHECK(a.grad().dtype() == narrow);
    CHECK(close(a.grad(), {15, 24}));
    CHECK(b.grad().dtype() == wide);
    CHECK(close(b.grad(), {5, 12}));
  }
}

TEST_CASE("bool tensors: + is or, * is and; other arithmetic is refused") {
  const Tensor a = tensor({true, true, false}), b = tensor({true, false, false});
  CHECK((a + b).to_vector<bool>() == std::vector<bool>{true, true, false});
  CHECK((a * b).to_vector<bool>() == std::vector<bool>{true, false, false});
  CHECK((a == b).to_vector<bool>() == std::vector<bool>{true, false, true});
  CHECK(throws<UsageError>([&] { a - b; }, {"[sub]", "bool"}));
  CHECK(throws<UsageError>([&] { neg(a); }, {"[neg]", "bool"}));
  CHECK(throws<UsageError>([&] { logical_and(a, tensor({1, 2, 3})); }, {"[logical_and]"}));
  CHECK(throws<UsageError>([&] { logical_not(tensor({1})); }, {"[logical_not]", "int64"}));
}

TEST_CASE("storage types: refused by arithmetic, with the way out") {
  for (DType dtype : {int32, uint8}) {
    const Tensor x = ones({2}, {.dtype = dtype}), y = ones({2});
    for (auto op : std::initializer_list<std::function<void()>>{
             [&] { x + y; }, [&] { y* x; }, [&] { x / 2; }, [&] { x + 1; }, [&] { exp(x); },
             [&] { neg(x); }, [&] { x == y; }, [&] { x < 1; }, [&] { sum(x); },
             [&] { where(tensor(true), x, y); }, [&] { clamp(x, 0, 1); }, [&] { softmax(x, 0); },
             [&] { argmax(x); }}) {
      CHECK(throws<UsageError>(op, {name(dtype), "storage type", "to("}));
    }
    CHECK(close(x.to(float32) + y, {2, 2}));
  }
}

TEST_CASE("broadcasting: the gradient has the shape of the input") {
  const Tensor a = ones({3, 1}, {.requires_grad = true}), b = ones({4}, {.requires_grad = true}),
               c = tensor(2.0, {.requires_grad = true});
  const Tensor y = a * b * c;
  CHECK(y.shape() == Shape{3, 4});
  y.sum().backward();
  CHECK(close(a.grad(), tensor_of({8, 8, 8}, {3, 1})));
  CHECK(close(b.grad(), tensor_of({6, 6, 6, 6}, {4})));
  CHECK(close(c.grad(), tensor_of({12}, {})));
  CHECK((zeros({0, 3}) + zeros({3})).shape() == Shape{0, 3});
  CHECK((zeros({0}) + zeros({1})).shape() == Shape{0});
  CHECK(throws<UsageError>([] { zeros({2, 3}) + zeros({2}); }, {"[add]", "(2, 3)", "(2,)"}));
  CHECK(throws<UsageError>([] { zeros({0}) + zeros({2}); }, {"[add]"}));
}

TEST_CASE("two devices: the op, both devices and the way out are named") {
  const Tensor a = ones({2}), b = ones({2}, {.device = dev(1)}), n = b.to(int64);
  const std::initializer_list<const char*> parts{dev_name(0), dev_name(1), "to(device)"};
  CHECK(throws<UsageError>([&] { a + b; }, parts));
  CHECK(throws<UsageError>([&] { a + n; }, parts));
  CHECK(throws<UsageError>([&] { a < b; }, parts));
  CHECK(throws<UsageError>([&] { where(a > 0, a, b); }, parts));
  CHECK(throws<UsageError>([&] { matmul(a, b); }, parts));
  CHECK(throws<UsageError>([&] { linear(a, ones({3, 2}), ones({3}, {.device = dev(1)})); }, parts));
  CHECK(throws<UsageError>([&] { a.clone().add_(b); }, parts));
}

TEST_CASE("undefined tensors: the op and the argument are named") {
  const Tensor x = ones({2, 2}), none;
  CHECK(throws<UsageError>([&] { add(x, none); }, {"[add] argument b is undefined"}));
  CHECK(throws<UsageError>([&] { mul(none, x); }, {"[mul] argument a is undefined"}));
  CHECK(throws<UsageError>([&] { none * 2; }, {"[mul] argument x is undefined"}));
  CHECK(throws<UsageError>([&] { exp(none); }, {"[exp] argument x is undefined"}));
  CHECK(throws<UsageError>([&] { eq(none, 1); }, {"[eq] argument a is undefined"}));
  CHECK(throws<UsageError>([&] { where(none, x, x); }, {"[where] argument condition"}));
  CHECK(throws<UsageError>([&] { sum(none); }, {"[sum] argument x is undefined"}));
  CHECK(throws<UsageError>([&] { matmul(x, none); }, {"[matmul] argument b is undefined"}));
  CHECK(throws<UsageError>([&] { linear(x, none); }, {"[linear] argument weight is undefined"}));
  CHECK(throws<UsageError>([&] { none.to(dev(1)); }, {"[to] argument x is undefined"}));
  CHECK(throws<UsageError>([&] { none.view({1}); }, {"[view] argument x is undefined"}));
}

TEST_CASE("saving: an op keeps only what its backward reads") {
  // A write to what was not saved does no harm; a write to what was is noticed.
  auto after = [](auto op, auto write) {
    Tensor a = ones({2}, {.requires_grad = true}), b = ones({2});
    Tensor hidden_a = a * 1.0, y = op(hidden_a, b);
    {
      const NoGrad no_grad;
      write(hidden_a, b);
    }
    y.sum().backward();
    return a.grad();
  };
  auto write_a = [](Tensor& a, Tensor&) { a.fill_(7); };
  auto write_b = [](Tensor&, Tensor& b) { b.fill_(7); };
  using T = const Tensor&;
  CHECK(close(after([](T a, T b) { return a * b; }, write_a), {1, 1}));
  CHECK(close(after([](T a, T b) { return a / b; }, write_a), {1, 1}));
  CHECK(close(after([](T a, T b) { return a - b; }, write_b), {1, 1}));
  CHECK(close(after([](T a, T) { return a * 3.0; }, write_a), {3, 3}));
  CHECK(close(after([](T a, T) { return a / 2; }, write_a), {0.5, 0.5}));
  CHECK(close(after([](T a, T) { return exp(a); }, write_a), {2.718281828, 2.718281828}));
  CHECK(close(after([](T a, T) { return a.sum() * 1.0; }, write_a), {1, 1}));
  auto stale = [&](auto op, auto write) {
    return throws<StaleGraphError>([&] { after(op, write); }, {"changed since forward"});
  };
  CHECK(stale([](T a, T b) { return a * b; }, write_b));
  CHECK(stale([](T a, T b) { return a / b; }, write_b));
  CHECK(stale([](T a, T) { return log(a); }, write_a));
  CHECK(stale([](T a, T) { return 1 / a; }, write_a));
  CHECK(stale([](T a, T b) { return maximum(a, b); }, write_a));
}

TEST_CASE("recording: a node that saved nothing is walked twice, one that saved is not") {
  const Tensor x = ones({2}, {.requires_grad = true});
  const Tensor y = (x + 1.0).sum(), z = (x * x).sum();
  y.backward();
  y.backward();
  CHECK(close(x.grad(), {2, 2}));
  z.backward();
  CHECK(throws<StaleGraphError>([&] { z.backward(); }, {"retain_graph"}));
  const NoGrad no_grad;
  CHECK(!(x * x).requires_grad());
  CHECK(!(x * x).impl()->node);
}

TEST_CASE("where: the gradient of the branch not taken is 0, even where the branch is NaN") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor x = tensor({1.0, 4.0}, {.requires_grad = true});
  const Tensor bad = tensor({nan, nan}, {.requires_grad = true});
  where(tensor({true, true}), x, bad).sum().backward();
  CHECK(close(x.grad(), {1, 1}));
  CHECK(close(bad.grad(), {0, 0}));
  CHECK(throws<UsageError>([&] { where(x, x, x); }, {"[where]", "float32", "bool"}));
}
