// Reductions, softmax and matrix products beside their values: types, ties, empty input, errors.
#include <doctest/doctest.h>

#include <cmath>

#include "tests/support/check.h"

#include <tandem/core/ops/factories.h>
#include <tandem/core/ops/linalg.h>
#include <tandem/core/ops/pointwise.h>
#include <tandem/core/ops/reduce.h>
#include <tandem/core/ops/softmax.h>
#include <tandem/core/ops/views.h>

using namespace tandem;
using namespace tandem::test;

TEST_CASE("max: equal elements share the gradient evenly, along the reduced dimensions") {
  Tensor x = tensor({3.0, 1.0, 3.0, 2.0, 2.0, 2.0}).view({2, 3}).detach().requires_grad_();
  max(x, {1}).backward(tensor({1.0, 6.0}));
  CHECK(close(x.grad(), tensor_of({0.5, 0, 0.5, 2, 2, 2}, {2, 3})));
  x.zero_grad();
  min(x).backward();
  CHECK(close(x.grad(), tensor_of({0, 1, 0, 0, 0, 0}, {2, 3})));
}

TEST_CASE("max: more equal float16 elements than float16 can count share one gradient") {
  const Tensor x = ones({70000}, {.dtype = float16}).requires_grad_();
  max(x).backward();
  // The count, above 65504, would be infinite in float16. 1 / 70000 is subnormal there: half a step
  // is 2^-25.
  CHECK(close(x.grad(), std::vector<double>(70000, 1.0 / 70000), {0, 3.0e-8}));
}

TEST_CASE("mean: float16 neither overflows nor stops growing on the way") {
  const Tensor x = full({100000}, 3.0, {.dtype = float16});
  CHECK(x.mean().item<double>() == 3.0);
  CHECK(x.mean().dtype() == float16);
  CHECK(throws<UsageError>([] { tensor({1, 2}).mean(); }, {"[mean]", "int64", "to(float32)"}));
  CHECK(std::isnan(zeros({0}).mean().item<double>()));
  CHECK(zeros({0, 3}).mean({1}).shape() == Shape{0});
}

TEST_CASE("reductions: dimensions are checked, empty extrema refused") {
  const Tensor x = zeros({2, 0});
  CHECK(x.sum().item<double>() == 0);
  CHECK(x.sum({0}).shape() == Shape{0});
  CHECK(close(x.sum({1}), {0, 0}));
  CHECK(max(x, {0}).shape() == Shape{0});
  CHECK(throws<UsageError>([&] { max(x); }, {"[max]", "(2, 0)"}));
  CHECK(throws<UsageError>([&] { argmax(x, 1); }, {"[argmax]", "(2, 0)"}));
  CHECK(throws<UsageError>([&] { argmin(x); }, {"[argmin]"}));
  CHECK(throws<UsageError>([&] { sum(x, {2}); }, {"[sum] dimension 2", "-2 to 1"}));
  CHECK(throws<UsageError>([&] { sum(x, {0, -2}); }, {"[sum] dimension -2", "twice"}));
  CHECK(tensor(3.0).sum({0}).item<double>() == 3);
  CHECK(tensor(3.0).sum({-1}, true).shape() == Shape{});
  CHECK(sum(tensor({true, true, false})).item<std::int64_t>() == 2);
  CHECK(throws<UsageError>([] { max(tensor({true})); }, {"[max]", "bool"}));
}

TEST_CASE("softmax: 0-dim tensors and wrong dimensions") {
  CHECK(softmax(tensor(3.0), 0).item<double>() == 1);
  CHECK(log_softmax(tensor(3.0), -1).item<double>() == 0);
  CHECK(throws<UsageError>([] { softmax(tensor(3.0), 1); }, {"[softmax] dimension 1"}));
  CHECK(throws<UsageError>([] { log_softmax(zeros({2}), 1); }, {"[log_softmax] dimension 1"}));
}

TEST_CASE("matmul: shapes as numpy's, refused with both shapes") {
  auto shape = [](const Shape& a, const Shape& b) { return matmul(zeros(a), zeros(b)).shape(); };
  CHECK(shape({3}, {3}) == Shape{});
  CHECK(shape({3}, {3, 4}) == Shape{4});
  CHECK(shape({2, 3}, {3}) == Shape{2});
  CHECK(shape({3}, {5, 3, 4}) == Shape{5, 4});
  CHECK(shape({5, 2, 3}, {3}) == Shape{5, 2});
  CHECK(shape({5, 1, 2, 3}, {7, 3, 4}) == Shape{5, 7, 2, 4});
  CHECK(shape({2, 3}, {6, 3, 4}) == Shape{6, 2, 4});
  CHECK(shape({0, 2, 3}, {3, 4}) == Shape{0, 2, 4});
  CHECK(shape({2, 0}, {0, 3}) == Shape{2, 3});
  CHECK(close(matmul(ones({2, 0}), ones({0, 2})), {0, 0, 0, 0}));
  auto refuses = [](const Shape& a, const Shape& b, std::initializer_list<const char*> parts) {
    return throws<UsageError>([&] { matmul(zeros(a), zeros(b)); }, parts);
  };
  CHECK(refuses({2, 3}, {4, 5}, {"[matmul] inner sizes differ: (2, 3) and (4, 5)"}));
  CHECK(refuses({3}, {4}, {"[matmul] inner sizes differ: (3,) and (4,)"}));
  CHECK(refuses({2, 2, 3}, {4, 3, 5}, {"[matmul]", "(2,)", "(4,)"}));
  CHECK(refuses({}, {2}, {"[matmul]", "()", "mul"}));
  CHECK(throws<UsageError>(
      [] {
        matmul(zeros({1, 1}), zeros({1, 1}, {.dtype = float64}));
      },
      {"[matmul]", "float32", "float64", "to(dtype)"}));
  CHECK(close(matmul(tensor({1, 2}), tensor({3, 4})), {11}));  // integers too
}

TEST_CASE("matmul: gradients of broadcast batches are summed back") {
  const Tensor a = ones({3, 1, 2, 2}, {.requires_grad = true});
  const Tensor b = ones({4, 2, 5}, {.requires_grad = true});
  matmul(a, b).sum().backward();
  CHECK(close(a.grad(), tensor_of(std::vector<double>(12, 4 * 5), {3, 1, 2, 2})));
  CHECK(close(b.grad(), tensor_of(std::vector<double>(40, 3 * 2), {4, 2, 5})));
}

TEST_CASE("linear: takes any leading dimensions and refuses what does not fit") {
  const Tensor w = ones({4, 3}), bias = ones({4});
  CHECK(linear(zeros({3}), w).shape() == Shape{4});
  CHECK(linear(zeros({2, 5, 3}), w, bias).shape() == Shape{2, 5, 4});
  CHECK(linear(zeros({0, 3}), w, bias).shape() == Shape{0, 4});
  CHECK(throws<UsageError>([&] { linear(zeros({2, 4}), w); }, {"[linear]", "(2, 4)", "(4, 3)"}));
  CHECK(throws<UsageError>([&] { linear(tensor(1.0), w); }, {"[linear]"}));
  CHECK(throws<UsageError>([&] { linear(zeros({2, 3}), bias); }, {"[linear] the weight"}));
  CHECK(throws<UsageError>([&] { linear(zeros({2, 3}), w, ones({3})); }, {"[linear] the bias"}));
  CHECK(throws<UsageError>(
      [&] {
        linear(zeros({2, 3}, {.dtype = float64}), w);
      },
      {"[linear]", "float64", "float32"}));
}

TEST_CASE("linear: y = x w^T + b and its three gradients, against sums written out") {
  const Shape xs{2, 3, 5}, ws{4, 5};
  const Tensor x = random_tensor(xs, 1).requires_grad_(), w = random_tensor(ws, 2).requires_grad_(),
               b = random_tensor({4}, 3).requires_grad_(), dy = random_tensor({2, 3, 4}, 4);
  const Tensor y = linear(x, w, b);
  y.backward(dy);
  const auto vx = doubles(x), vw = doubles(w), vb = doubles(b), vd = doubles(dy);
  std::vector<double> ey(24), ex(30), ew(20), eb(4);
  for (std::size_t r = 0; r < 6; ++r) {
    for (std::size_t o = 0; o < 4; ++o) {
      ey[r * 4 + o] = vb[o];
      eb[o] += vd[r * 4 + o];
      for (std::size_t i = 0; i < 5; ++i) {
        ey[r * 4 + o] += vx[r * 5 + i] * vw[o * 5 + i];
        ex[r * 5 + i] += vd[r * 4 + o] * vw[o * 5 + i];
        ew[o * 5 + i] += vd[r * 4 + o] * vx[r * 5 + i];
      }
    }
  }
  CHECK(close(y, tensor_of(ey, {2, 3, 4}, float64)));
  CHECK(close(x.grad(), tensor_of(ex, xs, float64)));
  CHECK(close(w.grad(), tensor_of(ew, ws, float64)));
  CHECK(close(b.grad(), tensor_of(eb, {4}, float64)));
}
