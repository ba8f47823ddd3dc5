// Losses against PyTorch's numbers, float64 formulas and finite differences.
#include <doctest/doctest.h>

#include <cmath>
#include <span>

#include <tandem/core/autograd.h>
#include <tandem/core/ops/factories.h>
#include <tandem/core/ops/reduce.h>
#include <tandem/core/ops/softmax.h>
#include <tandem/nn/loss.h>

#include "tests/nn/golden_nn.h"
#include "tests/nn/pattern.h"
#include "tests/support/check.h"

using namespace tandem;
using namespace tandem::test;
using nn::Reduction;

namespace {

std::vector<double> list(std::span<const double> values) {
  return {values.begin(), values.end()};
}

Tensor golden_logits() {
  return tensor_of({1, -2, 0.5, 3, 100, 0, -100, 50, 0.25, 0.25, 0.25, 0.25}, {3, 4})
      .requires_grad_();
}

const std::vector<std::int64_t> kTargets{2, 0, 3};

Tensor targets(Device device = dev(0)) {
  return from_vector(kTargets, {.device = device});
}

}  // namespace

TEST_CASE("cross_entropy: mean, sum and none have PyTorch's values and gradients") {
  Tensor mean_logits = golden_logits(), sum_logits = golden_logits(), logits = golden_logits();
  const Tensor mean_loss = nn::cross_entropy(mean_logits, targets());
  const Tensor sum_loss = nn::cross_entropy(sum_logits, targets(), {.reduction = Reduction::sum});
  const Tensor each = nn::cross_entropy(logits, targets(), {.reduction = Reduction::none});
  CHECK(mean_loss.dim() == 0);
  CHECK(sum_loss.dim() == 0);
  CHECK(each.shape() == Shape{3});
  CHECK(close(mean_loss, list(kCrossEntropyMean)));
  CHECK(close(sum_loss, list(kCrossEntropySum)));
  CHECK(close(each, list(kCrossEntropyNone)));
  mean_loss.backward();
  sum_loss.backward();
  each.backward(tensor_of({1, -2, 0.5}, {3}));
  CHECK(close(mean_logits.grad(), list(kCrossEntropyGradMean)));
  CHECK(close(sum_logits.grad(), list(kCrossEntropyGradSum)));
  CHECK(close(logits.grad(), list(kCrossEntropyGradNone)));
}

TEST_CASE("cross_entropy: the gradient equals finite differences in float64" *
          doctest::skip(!has_float64())) {
  Tensor x = random_tensor({5, 7}, 1, float64, dev(0), -3, 3).requires_grad_();
  const Tensor t = from_vector(std::vector<std::int64_t>{0, 6, 3, 3, 1});
  const auto f = [&](const Tensor& logits) { return nn::cross_entropy(logits, t) * 3.0; };
  f(x).backward();
  CHECK(close(x.grad(), slopes(f, x), {1e-6, 1e-8}));
}

TEST_CASE("nll_loss: equals cross_entropy after log_softmax, and its gradient is -1/N on targets") {
  Tensor logits = golden_logits();
  const Tensor loss = nn::nll_loss(log_softmax(logits, 1), targets());
  CHECK(close(loss, list(kCrossEntropyMean)));
  loss.backward();
  CHECK(close(logits.grad(), list(kCrossEntropyGradMean)));

  Tensor logp = random_tensor({3, 4}, 2).requires_grad_();
  nn::nll_loss(logp, targets(), {.reduction = Reduction::sum}).backward();
  CHECK(close(logp.grad(), {0, 0, -1, 0, -1, 0, 0, 0, 0, 0, 0, -1}, {0, 0}));
}

TEST_CASE("cross_entropy: logits in another order of strides give the same loss and gradient") {
  Tensor x = random_tensor({4, 3}, 3).requires_grad_();
  const Tensor loss = nn::cross_entropy(x.t(), targets());
  Tensor y = Tensor(x.array().transpose(0, 1).clone().contiguous()).requires_grad_();
  const Tensor expected = nn::cross_entropy(y, targets());
  CHECK(close(loss, expected));
  loss.backward();
  expected.backward();
  CHECK(close(Tensor(x.grad().array().transpose(0, 1)), y.grad()));
}

TEST_CASE("cross_entropy: the mean of no rows is NaN, the sum 0") {
  Tensor x = zeros({0, 4}).requires_grad_();
  const Tensor none = zeros({0}, {.dtype = int64});
  const Tensor mean_loss = nn::cross_entropy(x, none);
  CHECK(std::isnan(mean_loss.item<double>()));
  CHECK(nn::cross_entropy(x, none, {.reduction = Reduction::sum}).item<double>() == 0);
  mean_loss.backward();
  CHECK(x.grad().shape() == Shape{0, 4});
}

TEST_CASE("cross_entropy: a target that does not fit is refused with the facts") {
  const Tensor x = zeros({3, 4});
  const auto refuses = [&](const Tensor& logits, const Tensor& target,
                           std::initializer_list<const char*> parts) {
    return throws<UsageError>([&] { nn::cross_entropy(logits, target); }, parts);
  };
  CHECK(refuses(x, zeros({3}), {"[cross_entropy]", "int64", "float32"}));
  CHECK(refuses(x, from_vector(std::vector<std::int64_t>{0, 1}), {"(3, 4)", "(2,)"}));
  CHECK(refuses(x, zeros({3, 4}, {.dtype = int64}), {"one target for each row"}));
  CHECK(refuses(x, targets(dev(1)), {dev_name(0), dev_name(1)}));
  CHECK(refuses(x, from_vector(std::vector<std::int64_t>{0, 4, 1}), {"4"}));
  CHECK(refuses(x, from_vector(std::vector<std::int64_t>{0, 1, -1}), {"-1"}));
  CHECK(refuses(zeros({3}), targets(), {"(N, C)", "(3,)"}));
  CHECK(refuses(zeros({3, 4}, {.dtype = int64}), targets(), {"floating", "int64"}));
  CHECK(refuses(Tensor(), targets(), {"undefined input"}));
  CHECK(refuses(x, Tensor(), {"undefined target"}));
}

TEST_CASE("cross_entropy: a target written before backward is noticed") {
  Tensor x = golden_logits(), t = targets();
  const Tensor loss = nn::cross_entropy(x, t);
  t.fill_(0);
  CHECK(throws<StaleGraphError>([&] { loss.backward(); }));
}

TEST_CASE("cross_entropy: under NoGrad nothing is recorded") {
  const NoGrad no_grad;
  CHECK(!nn::cross_entropy(golden_logits(), targets()).requires_grad());
}

TEST_CASE("mse_loss: mean, sum and none of (x - t)^2, gradient 2 (x - t) / n to both sides") {
  Tensor x = tensor_of({1, 2, 3, 4}, {2, 2}).requires_grad_();
  Tensor t = tensor_of({0, 2, 5, 1}, {2, 2}).requires_grad_();
  const Tensor loss = nn::mse_loss(x, t);
  CHECK(close(loss, {3.5}));
  loss.backward();
  CHECK(close(x.grad(), {0.5, 0, -1, 1.5}));
  CHECK(close(t.grad(), {-0.5, 0, 1, -1.5}));
  CHECK(close(nn::mse_loss(x, t, {.reduction = Reduction::sum}), {14.0}));
  CHECK(close(nn::mse_loss(x, t, {.reduction = Reduction::none}), {1, 0, 4, 9}));
}

TEST_CASE("mse_loss: shapes that would broadcast are refused, naming both") {
  CHECK(throws<UsageError>(
      [] {
        nn::mse_loss(zeros({4}), zeros({4, 1}));
      },
      {"[mse_loss]", "(4,)", "(4, 1)"}));
  CHECK(throws<UsageError>([] { nn::mse_loss(Tensor(), zeros({4})); }, {"undefined input"}));
}
