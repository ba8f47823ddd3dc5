// Convolution and pooling beyond their rows of the op table: errors, batches, workspace, layouts.
#include <doctest/doctest.h>

#include <limits>

#include <tandem/core/autograd.h>
#include <tandem/core/memory.h>
#include <tandem/core/ops/conv.h>
#include <tandem/core/ops/factories.h>
#include <tandem/core/ops/pool.h>
#include <tandem/core/ops/reduce.h>

#include "tests/support/check.h"

using namespace tandem;
using namespace tandem::test;

namespace {

template <class F>
Verdict refused(F&& f, std::initializer_list<const char*> parts) {
  return throws<UsageError>(f, parts);
}

}  // namespace

TEST_CASE("conv2d: what does not fit is refused, with the facts") {
  const Tensor x = zeros({2, 4, 5, 6}), w = zeros({6, 4, 3, 3}), b = zeros({6});
  CHECK(refused([&] { conv2d(Tensor(), w); }, {"[conv2d]", "x is undefined"}));
  CHECK(refused([&] { conv2d(x, Tensor()); }, {"[conv2d]", "weight is undefined"}));
  CHECK(refused([&] { conv2d(zeros({4, 5}), w); }, {"[conv2d]", "(N, C, H, W)", "(4, 5)"}));
  CHECK(refused([&] { conv2d(x, zeros({6, 4, 3})); }, {"[conv2d]", "weight", "(6, 4, 3)"}));
  CHECK(refused([&] { conv2d(x, zeros({6, 3, 3, 3})); }, {"[conv2d]", "4 channels", "expects 3"}));
  CHECK(refused([&] { conv2d(x, w, b, {.groups = 2}); }, {"[conv2d]", "groups 2", "expects 8"}));
  CHECK(refused(
      [&] {
        conv2d(x, zeros({5, 2, 3, 3}), {}, {.groups = 2});
      },
      {"[conv2d]", "5 output channels", "2 groups"}));
  CHECK(refused([&] { conv2d(x, zeros({0, 4, 3, 3})); }, {"[conv2d]", "0 output channels"}));
  CHECK(refused([&] { conv2d(x, zeros({6, 4, 0, 3})); }, {"[conv2d]", "kernel is empty"}));
  CHECK(refused([&] { conv2d(x, w, zeros({4})); }, {"[conv2d]", "bias is (4,)", "6 output"}));
  CHECK(refused([&] { conv2d(x, w, zeros({6, 1})); }, {"[conv2d]", "bias is (6, 1)"}));
  CHECK(refused([&] { conv2d(x.to(float64), w); }, {"[conv2d]", "float64", "float32", "to("}));
  CHECK(refused([&] { conv2d(x.to(int64), w.to(int64)); }, {"[conv2d]", "int64"}));
  CHECK(refused([&] { conv2d(x.to(dev(1)), w); }, {"[conv2d]", dev_name(1), dev_name(0)}));
  CHECK(refused([&] { conv2d(x, w, b, {.stride = 0}); }, {"[conv2d]", "stride", "(0, 0)"}));
  CHECK(refused([&] { conv2d(x, w, b, {.padding = {0, -1}}); }, {"[conv2d]", "(0, -1)"}));
  CHECK(refused([&] { conv2d(x, w, b, {.dilation = 0}); }, {"[conv2d]", "dilation"}));
  CHECK(refused([&] { conv2d(x, w, b, {.groups = 0}); }, {"[conv2d]", "groups"}));
  CHECK(refused([&] { conv2d(x, w, b, {.dilation = 3}); },
                {"[conv2d]", "(3, 3)", "does not fit", "(5, 6)"}));
}

// 2^62 times 4 is 0 in 64 bits: a window that seemed to fit was read far outside of the image.
TEST_CASE("conv2d and pooling: sizes whose products overflow are refused") {
  const Tensor x = zeros({1, 1, 9, 9}), w = zeros({1, 1, 5, 5}), point = zeros({1, 1, 1, 1});
  const std::int64_t huge = std::int64_t(1) << 62, most = std::numeric_limits<std::int64_t>::max();
  CHECK(refused([&] { conv2d(x, w, {}, {.dilation = huge}); }, {"[conv2d] dilation", "too large"}));
  CHECK(refused([&] { conv2d(x, w, {}, {.stride = most}); }, {"[conv2d] stride", "too large"}));
  CHECK(refused([&] { conv2d(x, w, {}, {.padding = huge}); }, {"[conv2d] padding", "too large"}));
  const std::int64_t half = std::numeric_limits<std::int32_t>::max();  // 2^64 elements with padding
  CHECK(refused([&] { conv2d(x, point, {}, {.stride = half, .padding = half}); },
                {"[conv2d] an image of", "too large"}));
  CHECK(refused([&] { max_pool2d(x, 5, {.dilation = huge}); }, {"[max_pool2d] dilation", "large"}));
  CHECK(refused([&] { max_pool2d(x, 5, {.stride = most, .ceil_mode = true}); },
                {"[max_pool2d] stride", "too large"}));
  CHECK(refused([&] { avg_pool2d(x, huge, {.padding = huge / 2}); }, {"[avg_pool2d] kernel"}));
  CHECK(conv2d(x, point, {}, {.stride = half}).shape() == Shape{1, 1, 1, 1});
}

TEST_CASE("pooling: what does not fit is refused, with the facts") {
  const Tensor x = zeros({2, 4, 5, 6});
  CHECK(refused([&] { max_pool2d(Tensor(), 2); }, {"[max_pool2d]", "undefined"}));
  CHECK(refused([&] { max_pool2d(zeros({5, 6}), 2); }, {"[max_pool2d]", "(5, 6)"}));
  CHECK(refused([&] { max_pool2d(x.to(int64), 2); }, {"[max_pool2d]", "int64"}));
  CHECK(refused([&] { max_pool2d(x, 0); }, {"[max_pool2d]", "kernel"}));
  CHECK(refused([&] { max_pool2d(x, 2, {.stride = 0}); }, {"[max_pool2d]", "stride"}));
  CHECK(refused([&] { max_pool2d(x, 2, {.dilation = 0}); }, {"[max_pool2d]", "dilation"}));
  CHECK(refused([&] { max_pool2d(x, 3, {.padding = 2}); }, {"[max_pool2d]", "more than half"}));
  CHECK(refused([&] { max_pool2d(x, 2, {.padding = -1}); }, {"[max_pool2d]", "negative"}));
  CHECK(refused([&] { max_pool2d(x, {6, 2}); }, {"[max_pool2d]", "(6, 2)", "does not fit"}));
  CHECK(refused([&] { max_pool2d(zeros({2, 3, 0, 4}), 1); }, {"[max_pool2d]", "empty"}));
  CHECK(refused([&] { avg_pool2d(x, {2, 7}); }, {"[avg_pool2d]", "(2, 7)"}));
  CHECK(refused([&] { avg_pool2d(x, 2, {.divisor_override = 0}); }, {"[avg_pool2d]", "divisor"}));
  CHECK(refused([&] { adaptive_avg_pool2d(x, {1, 0}); }, {"[adaptive_avg_pool2d]", "(1, 0)"}));
  CHECK(refused([&] { adaptive_avg_pool2d(x.to(boolean), 1); }, {"[adaptive_avg_pool2d]", "bool"}));
}

TEST_CASE("conv2d: the bits of a sample do not depend on the other samples") {
  for (const std::int64_t size : {4, 9, 40}) {
    const Tensor x = random_tensor({5, 3, size, size}, 1).requires_grad_();
    const Tensor w = random_tensor({7, 3, 3, 3}, 2), b = random_tensor({7}, 3);
    const Tensor y = conv2d(x, w, b, {.padding = 1}), seed = random_tensor(y.shape(), 4);
    y.backward(seed);
    for (std::int64_t i = 0; i < 5; ++i) {
      const Tensor one = x.detach().narrow(0, i, 1).clone().requires_grad_();
      const Tensor z = conv2d(one, w, b, {.padding = 1});
      CHECK(bits_equal(z, y.narrow(0, i, 1)));
      z.backward(seed.narrow(0, i, 1));
      CHECK(bits_equal(one.grad(), x.grad().narrow(0, i, 1)));
    }
  }
}

// 24 MiB of columns for one image: they are made in tiles, and add up to the same. What remains is
// a tile (1 MiB) and the image with its padding (2.7 MiB), each rounded up by the pool.
TEST_CASE("conv2d: workspace is a tile and a padded image, not all columns") {
  const UseOneDnn no(false);
  const Tensor x = ones({1, 16, 208, 210}).requires_grad_();
  const Tensor w = ones({2, 16, 3, 3}).requires_grad_();
  memory::reset_peak(dev(0));
  const Tensor y = conv2d(x, w, {}, {.padding = 1});
  y.backward(ones(y.shape()));
  CHECK(memory::stats(dev(0)).peak_of(Category::workspace) <= (std::int64_t(9) << 19));
  CHECK(sum(y).item<double>() == 2.0 * 16 * (3 * 208 - 2) * (3 * 210 - 2));
  CHECK(w.grad().narrow(2, 1, 1).narrow(3, 1, 1).max().item<double>() == 208 * 210);
  CHECK(w.grad().narrow(2, 0, 1).narrow(3, 0, 1).max().item<double>() == 207 * 209);
  CHECK(x.grad().max().item<double>() == 2 * 9);
  CHECK(sum(x.grad()).item<double>() == 2.0 * 16 * (3 * 208 - 2) * (3 * 210 - 2));
}

// 3136 rows of columns leave room for 83 positions in a tile: less than a row of 91. Small whole
// numbers, so that every sum is exact.
TEST_CASE("conv2d: tiles that end inside a row add up to the loops of the definition") {
  constexpr std::int64_t kC = 64, kK = 7, kH = 9, kW = 95, kP = 3, kQ = 91;
  std::vector<double> x, w, dy;
  for (int i = 0; i < kC * kH * kW; ++i) x.push_back(i * 7 % 4);
  for (int i = 0; i < 2 * kC * kK * kK; ++i) w.push_back(i * 5 % 3 - 1);
  for (int i = 0; i < 2 * kP * kQ; ++i) dy.push_back(i * 3 % 5 - 2);
  std::vector<double> y(2 * kP * kQ), dx(x.size()), dw(w.size());
  for (std::int64_t at = 0; at < 2 * kP * kQ * kC * kK * kK; ++at) {
    const std::int64_t j = at % kK, i = at / kK % kK, c = at / (kK * kK) % kC;
    const std::int64_t position = at / (kC * kK * kK), o = position / (kP * kQ);
    const std::int64_t column = position % kQ + j - 1, row = position / kQ % kP + i;
    if (column < 0 || column >= kW) continue;
    const auto from = std::size_t((c * kH + row) * kW + column);
    const auto weight = std::size_t(((o * kC + c) * kK + i) * kK + j);
    y[std::size_t(position)] += x[from] * w[weight];
    dx[from] += dy[std::size_t(position)] * w[weight];
    dw[weight] += dy[std::size_t(position)] * x[from];
  }
  const Tensor image = tensor_of(x, {kC, kH, kW}).requires_grad_();
  const Tensor weights = tensor_of(w, {2, kC, kK, kK}).requires_grad_();
  const Tensor out = conv2d(image, weights, {}, {.padding = {0, 1}});
  REQUIRE(out.shape() == Shape{2, kP, kQ});
  CHECK(close(out, y, {0, 0}));
  out.backward(tensor_of(dy, out.shape()));
  CHECK(close(image.grad(), dx, {0, 0}));
  CHECK(close(weights.grad(), dw, {0, 0}));
}

TEST_CASE("conv2d: gradients have the strides of what they belong to") {
  const auto channels_last = [](const Tensor& t) {
    Tensor dense(t.permute({0, 2, 3, 1}).array().contiguous().permute({0, 3, 1, 2}));
    return dense.requires_grad_();
  };
  const Tensor x = channels_last(random_tensor({2, 3, 4, 5}, 1));
  const Tensor w = channels_last(random_tensor({4, 3, 2, 2}, 2));
  sum(conv2d(x, w)).backward();
  CHECK(x.grad().array().strides() == x.array().strides());
  CHECK(w.grad().array().strides() == w.array().strides());
}

TEST_CASE("max_pool2d: a dilated window that sees only padding gives -inf and no gradient") {
  const Tensor x = ones({1, 1, 9, 9}).requires_grad_();
  const Tensor y = max_pool2d(x, 2, {.padding = 1, .dilation = 10});
  CHECK(y.shape() == Shape{1, 1, 1, 1});
  CHECK(y.item<double>() == -std::numeric_limits<double>::infinity());
  y.backward();
  CHECK(sum(x.grad()).item<double>() == 0);
}

TEST_CASE("max_pool2d: a window of -inf gives its gradient to the first element") {
  const Tensor x = full({1, 1, 2, 2}, -std::numeric_limits<double>::infinity()).requires_grad_();
  max_pool2d(x, 2).backward();
  CHECK(close(x.grad(), {1, 0, 0, 0}, {0, 0}));
}
