// Convolution and pooling against PyTorch: values, gradients, initial weights, first losses.
#include <doctest/doctest.h>

#include <span>
#include <utility>
#include <vector>

#include <tandem/core/autograd.h>
#include <tandem/core/ops/conv.h>
#include <tandem/core/ops/factories.h>
#include <tandem/core/ops/pointwise.h>
#include <tandem/core/random.h>
#include <tandem/nn/activations.h>
#include <tandem/nn/conv.h>
#include <tandem/nn/linear.h>
#include <tandem/nn/loss.h>
#include <tandem/nn/pooling.h>
#include <tandem/nn/sequential.h>
#include <tandem/optim/adam.h>

#include "tests/nn/golden_conv.h"
#include "tests/support/bits.h"
#include "tests/support/check.h"

using namespace tandem;
using namespace tandem::test;

namespace {

/// Sums of up to 20 products below 1: their order, and so their last bits, are the library's own.
constexpr Tolerance kSums{1e-5, 1e-6};

Verdict same(const Tensor& t, std::span<const double> golden, Tolerance tolerance) {
  return close(t, std::vector<double>(golden.begin(), golden.end()), tolerance);
}

/// 2 rand() - 1, as the generator of the golden numbers draws it.
Tensor drawn(const Shape& shape) {
  Tensor t = 2 * rand(shape) - 1;
  return t.requires_grad_();
}

struct ConvGolden {
  std::span<const double> y, dx, dw, db;
};

void check_conv(const Shape& x_shape, const Shape& w_shape, const ConvOptions& options,
                const ConvGolden& golden) {
  manual_seed(11);
  const Tensor x = drawn(x_shape), w = drawn(w_shape);
  const Tensor b = golden.db.empty() ? Tensor() : drawn({w_shape[0]});
  const Tensor y = conv2d(x, w, b, options);
  CHECK(same(y, golden.y, kSums));
  y.backward(2 * rand(y.shape()) - 1);
  CHECK(same(x.grad(), golden.dx, kSums));
  CHECK(same(w.grad(), golden.dw, kSums));
  if (b.defined()) CHECK(same(b.grad(), golden.db, kSums));
}

template <class F>
void check_pool(const Tensor& input, F pool, std::span<const double> y, std::span<const double> dx,
                Tolerance tolerance = {0, 0}) {
  Tensor x = input.clone();
  x.requires_grad_();
  const Tensor out = pool(x);
  CHECK(same(out, y, tolerance));
  manual_seed(11);
  out.backward(2 * rand(out.shape()) - 1);
  CHECK(same(x.grad(), dx, tolerance));
}

Tensor below_zero(const Shape& shape) {
  manual_seed(11);
  return rand(shape) - 2;
}

nn::Sequential small_cnn() {
  return nn::Sequential{nn::Conv2d(3, 64, 3, {.padding = 1}),
                        nn::ReLU(),
                        nn::MaxPool2d(2),
                        nn::Conv2d(64, 128, 3, {.padding = 1}),
                        nn::ReLU(),
                        nn::AdaptiveAvgPool2d(1),
                        nn::Flatten(),
                        nn::Linear(128, 10)};
}

}  // namespace

TEST_CASE("conv2d: values and gradients are PyTorch's") {
  check_conv({2, 2, 3, 3}, {2, 2, 2, 2}, {}, {kPlainY, kPlainDx, kPlainDw, kPlainDb});
  check_conv({1, 2, 5, 4}, {3, 2, 3, 2}, {.stride = {2, 1}, .padding = 1},
             {kStridedY, kStridedDx, kStridedDw, kStridedDb});
  check_conv({1, 1, 5, 6}, {2, 1, 2, 3}, {.padding = {0, 1}, .dilation = {3, 2}},
             {kDilatedY, kDilatedDx, kDilatedDw, {}});
  check_conv({1, 4, 3, 3}, {6, 2, 2, 2}, {.stride = 2, .padding = 1, .groups = 2},
             {kGroupedY, kGroupedDx, kGroupedDw, kGroupedDb});
}

TEST_CASE("max_pool2d: the first of equal maxima gets the gradient, as in PyTorch") {
  const Tensor x = tensor_of({1, 1, 2, 0, 1, 1, 0, 2, -5, 3, 7, 7, 3, 3, 7, 7}, {1, 1, 4, 4});
  check_pool(x, nn::MaxPool2d(2), kMaxTiesY, kMaxTiesDx);
  check_pool(x, nn::MaxPool2d(3, {.stride = 1}), kMaxTiesOverlapY, kMaxTiesOverlapDx);
}

TEST_CASE("max_pool2d: NaN beats any number, and the last NaN gets the gradient") {
  const Tensor x =
      tensor_of({1, kNan, 2, 0, kNan, 5, 0, 2, -5, 3, 7, kNan, 3, 3, -7, 7}, {1, 1, 4, 4});
  check_pool(x, nn::MaxPool2d(2), kMaxNanY, kMaxNanDx);
  check_pool(x, nn::MaxPool2d(3, {.stride = 1}), kMaxNanOverlapY, kMaxNanOverlapDx);
}

TEST_CASE("max_pool2d: padding is no zero; ceil_mode and dilation are PyTorch's") {
  check_pool(below_zero({1, 2, 4, 5}), nn::MaxPool2d(3, {.stride = 2, .padding = 1}),
             kMaxBelowZeroY, kMaxBelowZeroDx);
  check_pool(below_zero({1, 1, 5, 6}), nn::MaxPool2d(2, {.stride = 2, .ceil_mode = true}),
             kMaxCeilY, kMaxCeilDx);
  // The third window would begin in the padding behind the image: there is none.
  check_pool(below_zero({1, 1, 4, 4}),
             nn::MaxPool2d(2, {.stride = 3, .padding = 1, .ceil_mode = true}), kMaxCeilDroppedY,
             kMaxCeilDroppedDx);
  check_pool(below_zero({1, 1, 6, 5}),
             nn::MaxPool2d(2, {.stride = 1, .padding = 1, .dilation = {3, 2}}), kMaxDilatedY,
             kMaxDilatedDx, {1e-6, 1e-6});  // sums of gradients, in another order
}

TEST_CASE("avg_pool2d: what the average is divided by is PyTorch's") {
  check_pool(below_zero({1, 1, 5, 6}),
             nn::AvgPool2d(3, {.stride = 2, .padding = 1, .ceil_mode = true}), kAvgCeilY,
             kAvgCeilDx, kSums);
  check_pool(
      below_zero({1, 1, 5, 6}),
      nn::AvgPool2d({3, 2},
                    {.stride = 2, .padding = 1, .ceil_mode = true, .count_include_pad = false}),
      kAvgNoPadY, kAvgNoPadDx, kSums);
  check_pool(below_zero({1, 1, 4, 4}), nn::AvgPool2d(2, {.stride = 1, .divisor_override = 3}),
             kAvgDivisorY, kAvgDivisorDx, kSums);
}

TEST_CASE("adaptive_avg_pool2d: windows, overlapping ones too, are PyTorch's") {
  const Tensor x = below_zero({1, 2, 7, 5});
  check_pool(x, nn::AdaptiveAvgPool2d({3, 2}), kAdaptive32Y, kAdaptive32Dx, kSums);
  check_pool(x, nn::AdaptiveAvgPool2d({5, 4}), kAdaptive54Y, kAdaptive54Dx, kSums);
  check_pool(x, nn::AdaptiveAvgPool2d(1), kAdaptive11Y, kAdaptive11Dx, kSums);
}

TEST_CASE("Conv2d: the first weights under seed 0 are PyTorch's, bit for bit") {
  manual_seed(0);
  const nn::Conv2d a(3, 64, 3), b(64, 128, {3, 5}, {.groups = 4}), c(2, 4, 2, {.bias = false});
  CHECK(fnv1a<float>({a.weight.array()}) == kConvHash0[0]);
  CHECK(fnv1a<float>({a.bias.array()}) == kConvHash0[1]);
  CHECK(fnv1a<float>({b.weight.array()}) == kConvHash1[0]);
  CHECK(fnv1a<float>({b.bias.array()}) == kConvHash1[1]);
  CHECK(fnv1a<float>({c.weight.array()}) == kConvHash2[0]);
  CHECK(!c.bias.defined());
}

TEST_CASE("Conv2d and pooling print as PyTorch's") {
  CHECK(str(nn::Conv2d(3, 64, 3, {.padding = 1})) ==
        "Conv2d(3, 64, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))");
  CHECK(str(nn::Conv2d(4, 8, {3, 5}, {.stride = 2, .dilation = 2, .groups = 2, .bias = false})) ==
        "Conv2d(4, 8, kernel_size=(3, 5), stride=(2, 2), dilation=(2, 2), groups=2, bias=False)");
  CHECK(str(nn::MaxPool2d(3, {.stride = 2, .padding = {1, 0}})) ==
        "MaxPool2d(kernel_size=3, stride=2, padding=(1, 0), dilation=1, ceil_mode=False)");
  CHECK(str(nn::AvgPool2d(3)) == "AvgPool2d(kernel_size=3, stride=3, padding=0)");
  CHECK(str(nn::AdaptiveAvgPool2d(1)) == "AdaptiveAvgPool2d(output_size=1)");
  CHECK(str(nn::AdaptiveAvgPool2d({1, 2})) == "AdaptiveAvgPool2d(output_size=(1, 2))");
}

TEST_CASE("Conv2d: impossible layers are refused") {
  CHECK(throws<UsageError>([] { nn::Conv2d(0, 4, 3); }, {"[Conv2d]", "in 0"}));
  CHECK(throws<UsageError>([] { nn::Conv2d(3, 4, {3, 0}); }, {"[Conv2d]", "(3, 0)"}));
  CHECK(throws<UsageError>([] { nn::Conv2d(3, 4, 3, {.groups = 2}); }, {"[Conv2d]", "groups 2"}));
}

TEST_CASE("Conv2d: names, counts and modes are those of its visit") {
  nn::Sequential model = small_cnn();
  std::vector<std::string> names;
  for (const auto& [name, value] : model.named_parameters()) names.push_back(name);
  CHECK(names ==
        std::vector<std::string>{"0.weight", "0.bias", "3.weight", "3.bias", "7.weight", "7.bias"});
}

// Losses within 1e-4: sums of float32 products are added in another order than in PyTorch, and Adam
// turns last bits of small gradients into steps of the size of lr.
TEST_CASE("small CNN: five steps of Adam give PyTorch's losses") {
  manual_seed(0);
  nn::Sequential model = small_cnn();
  std::vector<std::pair<Tensor, Tensor>> batches;
  for (int i = 0; i < 5; ++i) {
    Tensor x = randn({8, 3, 32, 32});
    batches.emplace_back(x, randint(0, 10, {8}));
  }
  optim::Adam optimizer(model.parameters(), {.lr = 1e-3});
  for (std::size_t i = 0; i < 5; ++i) {
    CAPTURE(i);
    optimizer.zero_grad();
    const Tensor loss = nn::cross_entropy(model(batches[i].first), batches[i].second);
    CHECK(close(loss.item<double>(), kLossesCnn[i], {0, 1e-4}));
    loss.backward();
    optimizer.step();
  }
}
