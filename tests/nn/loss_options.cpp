// Losses with all their options: PyTorch's numbers, what is exactly zero or NaN, and what is
// refused.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include <tandem/core/autograd.h>
#include <tandem/core/ops/factories.h>
#include <tandem/core/ops/pointwise.h>
#include <tandem/core/ops/reduce.h>
#include <tandem/core/ops/softmax.h>
#include <tandem/nn/loss.h>

#include "tests/nn/golden_words.h"
#include "tests/nn/pattern.h"
#include "tests/support/check.h"

using namespace tandem;
using namespace tandem::test;

namespace {

Tensor class_weight(DType dtype = float32) {
  return tensor_of({0.5, 2, 1.25, 0.25}, {4}, dtype);
}

Tensor classes(const std::vector<std::int64_t>& values, const Shape& shape) {
  return from_vector(values, shape);
}
Tensor flat() {
  return classes({2, 0, 1, 3, 1}, {5});
}
Tensor every() {
  return classes({1, 3, 2, 0, 1, 3}, {2, 3});
}

nn::CrossEntropyOptions options_of(const LossGolden& golden) {
  nn::CrossEntropyOptions options{.reduction = golden.reduction};
  if (contains(golden.name, "weight")) options.weight = class_weight();
  if (contains(golden.name, "ignore 3")) options.ignore_index = 3;
  if (contains(golden.name, "smoothing")) options.label_smoothing = 0.1;
  return options;
}

Tensor seed_of(const Tensor& y) {
  return y.dim() == 0 ? tensor(1.0) : pattern(y.shape(), 29);
}

// A few units in the last place of sums of numbers up to 4, which cancel in gradients.
constexpr Tolerance kFloat{2e-6, 2e-7};

void same_as_torch(const LossGolden& golden, const Tensor& loss, std::vector<Tensor> inputs,
                   Tolerance tolerance = kFloat) {
  INFO(golden.name);
  INFO(int(golden.reduction));
  CHECK(close(loss, golden.loss, tolerance));
  CHECK((loss.dim() == 0) == (golden.reduction != Reduction::none || inputs[0].dim() == 1));
  loss.backward(seed_of(loss));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    CAPTURE(i);
    CHECK(close(inputs[i].grad(), golden.gradients[i], tolerance));
  }
}

void check_classes(const std::vector<LossGolden>& table, const Shape& shape, const Tensor& target) {
  for (const LossGolden& golden : table) {
    const Tensor x = pattern(shape, 37).requires_grad_();
    const Tensor loss = nn::cross_entropy(x, target, options_of(golden));
    if (golden.reduction == Reduction::none) CHECK(loss.shape() == target.shape());
    same_as_torch(golden, loss, {x});
  }
}

void check_nll(const std::vector<LossGolden>& table, const Shape& shape, const Tensor& target) {
  for (const LossGolden& golden : table) {
    const nn::CrossEntropyOptions o = options_of(golden);
    const Tensor x = pattern(shape, 37).requires_grad_();
    same_as_torch(golden, nn::nll_loss(x, target, {o.weight, o.ignore_index, o.reduction}), {x});
  }
}

void check_probabilities(const std::vector<LossGolden>& table, const Shape& shape) {
  for (const LossGolden& golden : table) {
    const Tensor x = pattern(shape, 37).requires_grad_();
    const Tensor q = (pattern(shape, 17) / 4 + 0.5).detach().requires_grad_();
    same_as_torch(golden, nn::cross_entropy(x, q, options_of(golden)), {x, q});
  }
}

const double kInf = std::numeric_limits<double>::infinity();

}  // namespace

TEST_CASE(
    "cross_entropy: weights, ignored rows and smoothing have PyTorch's values and gradients") {
  check_classes(kCrossEntropy, {5, 4}, flat());
  check_classes(kCrossEntropyMinus100, {5, 4}, classes({2, 0, -100, 3, -100}, {5}));
}

TEST_CASE("cross_entropy: (N, C, d) and (C) have PyTorch's values and gradients") {
  check_classes(kCrossEntropyMany, {2, 4, 3}, every());
  check_classes(kCrossEntropyOne, {4}, classes({2}, {}));
}

TEST_CASE("nll_loss: weights and ignored rows have PyTorch's values and gradients") {
  check_nll(kNll, {5, 4}, flat());
  check_nll(kNllMany, {2, 4, 3}, every());
}

TEST_CASE("cross_entropy: probabilities as targets have PyTorch's values and gradients, to both") {
  check_probabilities(kSoftCrossEntropy, {5, 4});
  check_probabilities(kSoftCrossEntropyMany, {2, 4, 3});
  check_probabilities(kSoftCrossEntropyOne, {4});
}

TEST_CASE("bce: weights and logits of 60 have PyTorch's values and gradients") {
  for (const LossGolden& golden : kBinary) {
    const Tensor x = (pattern({3, 4}, 37) * 30.0).detach().requires_grad_();
    const Tensor t = (pattern({3, 4}, 17) / 4 + 0.5).detach().requires_grad_();
    nn::BceOptions options{.reduction = golden.reduction};
    if (contains(golden.name, "weight") && golden.name != "pos_weight") {
      options.weight = tensor_of({0.5, 2, 0, 1.5}, {4});
    }
    if (contains(golden.name, "pos_weight")) options.pos_weight = tensor_of({3, 0.25, 1, 2}, {4});
    same_as_torch(golden, nn::bce_with_logits(x, t, options), {x, t}, {2e-6, 5e-6});
  }
}

TEST_CASE("l1_loss and mse_loss: values and gradients are PyTorch's") {
  const auto check_table = [](const std::vector<LossGolden>& table, auto loss) {
    for (const LossGolden& golden : table) {
      const Tensor x = pattern({3, 4}, 37).requires_grad_(),
                   t = pattern({3, 4}, 17).requires_grad_();
      same_as_torch(golden, loss(x, t, nn::LossOptions{golden.reduction}), {x, t});
    }
  };
  check_table(kL1, nn::l1_loss);
  check_table(kMse, nn::mse_loss);
}

TEST_CASE("cross_entropy: rows that are ignored have a gradient of exactly 0, whatever comes in") {
  const Tensor x = pattern({3, 4}, 37).requires_grad_();
  const Tensor target = classes({1, -100, 2}, {3});
  nn::cross_entropy(x, target, {.label_smoothing = 0.25}).backward();
  std::vector<double> g = doubles(x.grad());
  for (std::size_t c = 4; c < 8; ++c) CHECK(g[c] == 0);
  for (std::size_t c : {0, 1, 2, 3, 8, 9, 10, 11}) CHECK(g[c] != 0);

  const Tensor y = pattern({2, 4}, 37).requires_grad_();
  const Tensor loss = nn::cross_entropy(y, classes({-100, -100}, {2}));
  CHECK(std::isnan(loss.item<double>()));  // 0 / 0, as in PyTorch
  loss.backward();                         // seeds of 1 / 0 in between
  CHECK(close(y.grad(), std::vector<double>(8, 0), {0, 0}));
  const Tensor none =
      nn::cross_entropy(y, classes({-100, -100}, {2}), {.reduction = Reduction::sum});
  CHECK(none.item<double>() == 0);
}

TEST_CASE("cross_entropy: the class that is ignored still takes part in the softmax") {
  const Tensor x = tensor_of({0, 0, 0, std::log(5.0)}, {1, 4});
  CHECK(close(nn::cross_entropy(x, classes({0}, {1}), {.ignore_index = 3}), {std::log(8.0)}));
}

TEST_CASE("cross_entropy: a mean over weights is not one over rows") {
  const Tensor x = zeros({3, 4}), target = classes({1, 1, 3}, {3});
  // every row's loss is log 4: so is any weighted mean of them; the plain sum shows the weights
  CHECK(close(nn::cross_entropy(x, target, {.weight = class_weight()}), {std::log(4.0)}));
  CHECK(close(nn::cross_entropy(x, target, {.weight = class_weight(), .reduction = Reduction::sum}),
              {4.25 * std::log(4.0)}));
}

TEST_CASE("cross_entropy: options in float64 agree with finite differences" *
          doctest::skip(!has_float64())) {
  const Tensor target = classes({0, 3, 2, 3, 1, 1}, {2, 3});
  const auto f = [&](const Tensor& x) {
    return nn::cross_entropy(
        x, target, {.weight = class_weight(float64), .ignore_index = 2, .label_smoothing = 0.3});
  };
  const Tensor x = random_tensor({2, 4, 3}, 5, float64, dev(0), -3, 3).requires_grad_();
  f(x).backward();
  CHECK(close(x.grad(), slopes(f, x), {1e-6, 1e-8}));
}

TEST_CASE("cross_entropy: 16-bit logits are added up in float32, over 4000 rows") {
  const std::int64_t n = 4001;  // float16 has no 4001
  const Tensor x = zeros({n, 4}, {.dtype = float16}).requires_grad_();
  const Tensor loss = nn::cross_entropy(x, zeros({n}, {.dtype = int64}));
  CHECK(loss.dtype() == float16);
  CHECK(close(loss.item<double>(), stored_as(float16, std::log(4.0)), {0, 1e-3}));
  (loss * 4001.0).backward();
  CHECK(close(x.grad().narrow(0, 0, 1), {-0.75, 0.25, 0.25, 0.25}, {2e-3, 0}));
}

TEST_CASE("cross_entropy: options that do not fit are refused with the facts") {
  const Tensor x = zeros({5, 4});
  const auto refuses = [&](const Tensor& target, const nn::CrossEntropyOptions& options,
                           std::initializer_list<const char*> parts) {
    return throws<UsageError>([&] { nn::cross_entropy(x, target, options); }, parts);
  };
  CHECK(refuses(flat(), {.label_smoothing = 1.5}, {"[cross_entropy]", "label_smoothing", "1.5"}));
  CHECK(refuses(flat(), {.weight = zeros({3})}, {"4 classes", "(3,)"}));
  CHECK(refuses(flat(), {.weight = zeros({4}, {.dtype = int64})}, {"floating", "int64"}));
  CHECK(refuses(flat(), {.weight = zeros({4}, {.device = dev(1)})}, {dev_name(0), dev_name(1)}));
  CHECK(refuses(zeros({5, 4}), {.ignore_index = 1}, {"ignore_index 1", "probabilities"}));
  CHECK(refuses(classes({2, 0, 1, 9, 1}, {5}), {.ignore_index = 3}, {"target 9 of row 3"}));
  CHECK(throws<UsageError>(
      [&] {
        nn::cross_entropy(zeros({2, 4, 3}), flat());
      },
      {"(2, 4, 3)", "(2, 3)", "(5,)"}));
  CHECK(throws<UsageError>([&] { nn::cross_entropy(tensor(1.0), flat()); }, {"()"}));
  CHECK(throws<UsageError>([&] { nn::nll_loss(x, zeros({5, 4})); }, {"[nll_loss]", "int64"}));
}

TEST_CASE("bce: labels of 0 and 1 against logits of 1000 do not overflow") {
  const Tensor x = tensor_of({1000, 1000, -1000, -1000}, {4}).requires_grad_();
  const Tensor t = tensor_of({1, 0, 1, 0}, {4});
  const Tensor loss = nn::bce_with_logits(x, t, {.reduction = Reduction::none});
  CHECK(close(loss, {0, 1000, 1000, 0}, {0, 0}));
  loss.backward(ones({4}));
  CHECK(close(x.grad(), {0, 1, -1, 0}, {0, 0}));
}

TEST_CASE("bce: whole labels are converted; other shapes and integer logits are refused") {
  CHECK(close(nn::bce_with_logits(zeros({2}), tensor({1, 0})), {std::log(2.0)}));
  CHECK(throws<UsageError>(
      [] {
        nn::bce_with_logits(zeros({2}), zeros({2, 1}));
      },
      {"binary_cross_entropy_with_logits", "(2,)", "(2, 1)"}));
  CHECK(throws<UsageError>([] { nn::bce_with_logits(tensor({1, 0}), zeros({2})); }, {"int64"}));
}

TEST_CASE("l1_loss: the derivative is 0 where both are equal; shapes must be equal") {
  const Tensor x = tensor_of({1, 2, 3}, {3}).requires_grad_();
  const Tensor loss = nn::l1_loss(x, tensor_of({1, 5, 0}, {3}), {.reduction = Reduction::sum});
  CHECK(close(loss, {6.0}));
  loss.backward();
  CHECK(close(x.grad(), {0, -1, 1}, {0, 0}));
  CHECK(throws<UsageError>([&] { nn::l1_loss(x, zeros({1})); }, {"[l1_loss]", "(3,)", "(1,)"}));
}
