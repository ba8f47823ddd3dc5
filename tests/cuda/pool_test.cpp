// Pooling on the simulated GPU: row-major and channels-last images on either side.
#include "tests/cuda/families.h"

using namespace tandem;
using namespace tandem::test;

namespace {

constexpr Layout kImages[] = {Layout::row_major, Layout::rotated};

struct MaxTask {
  Shape x;
  Window2d window;
  bool ceil = false;
};

Shape result_shape(const Shape& x, const Window2d& w, bool ceil) {
  return {x[0], x[1], count_windows(x[2], w.kernel.h, w.stride.h, w.padding.h, w.dilation.h, ceil),
          count_windows(x[3], w.kernel.w, w.stride.w, w.padding.w, w.dilation.w, ceil)};
}

// Many equals, and some NaN and infinities.
std::vector<double> pixels(std::int64_t n, std::uint64_t seed) {
  std::vector<double> x = random_doubles(n, seed, -4, 4);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = i % 17 == 5 ? kNan : i % 13 == 7 ? -kInf : std::floor(x[i]);
  }
  return x;
}

}  // namespace

TEST_CASE("max_pool2d: values, places and gradients are exactly the CPU's") {
  for (const MaxTask& t :
       {MaxTask{{2, 3, 6, 8}, {2, 2}}, MaxTask{{1, 5, 7, 9}, {{3, 2}, {2, 1}, {1, 1}}},
        MaxTask{{2, 2, 9, 9}, {{2, 3}, 1, {1, 1}, {3, 2}}}, MaxTask{{1, 2, 7, 7}, {3, 2, 1}, true},
        MaxTask{{3, 1, 5, 6}, {2, {3, 5}}}, MaxTask{{1, 40, 2, 3}, {{2, 3}, 1}}}) {
    for (DType dtype : kFloats) {
      for (Layout in : kImages) {
        for (Layout out : kImages) {
          CAPTURE(t.x);
          CAPTURE(t.window.kernel);
          CAPTURE(dtype);
          CAPTURE(int(in));
          CAPTURE(int(out));
          CHECK(equals_cpu(dtype, [&](const Side& side) {
            const bool host = side.device.kind == DeviceKind::cpu;
            const Layout read = host ? Layout::row_major : in;
            const Layout write = host ? Layout::row_major : out;
            const Shape shape = result_shape(t.x, t.window, t.ceil);
            const Array x = side.array(pixels(t.x.numel(), 26), t.x, dtype, read);
            Array y = side.garbage(shape, dtype, write), index = side.garbage(shape, int32, write);
            side.kernels().max_pool2d(t.window, x, y, index);
            Array again = side.garbage(shape, dtype, write), none;
            side.kernels().max_pool2d(t.window, x, again, none);
            const Array dy = side.array(random_doubles(shape.numel(), 27), shape, dtype, read);
            Array dx = side.garbage(t.x, dtype, write);
            side.kernels().max_pool2d_grad(t.window, index, dy, dx);
            return std::vector{y, index, again, dx};
          }));
        }
      }
    }
  }
}

namespace {

struct AverageTask {
  Shape x;
  AverageRule rule;
  Size2d outputs = 0;  // of adaptive rules
  bool ceil = false;
};

}  // namespace

TEST_CASE("avg_pool2d: values and gradients of windows, padded, rounded up and adaptive") {
  const Window2d padded{{3, 4}, {2, 3}, {1, 2}};
  for (const AverageTask& t :
       {AverageTask{{2, 3, 6, 8}, {.window = {2, 2}}},
        AverageTask{{1, 5, 9, 10}, {.window = padded}},
        AverageTask{{1, 2, 9, 10}, {.window = padded, .count_padding = false}},
        AverageTask{{1, 2, 9, 10}, {.window = padded, .divisor = 5}, 0, true},
        AverageTask{{1, 2, 9, 10}, {.window = padded}, 0, true},
        AverageTask{{1, 2, 6, 7}, {.window = {2, {3, 5}}}},
        AverageTask{{2, 3, 7, 5}, {.adaptive = true}, {3, 4}},
        AverageTask{{2, 40, 7, 7}, {.adaptive = true}, 1},
        AverageTask{{1, 2, 3, 2}, {.adaptive = true}, {5, 2}}}) {
    for (DType dtype : kFloats) {
      for (Layout in : kImages) {
        for (Layout out : kImages) {
          CAPTURE(t.x);
          CAPTURE(dtype);
          CAPTURE(int(in));
          CAPTURE(int(out));
          CHECK(agrees(dtype, [&](const Side& side) {
            const bool host = side.device.kind == DeviceKind::cpu;
            const Layout read = host ? Layout::row_major : in;
            const Layout write = host ? Layout::row_major : out;
            const Shape shape = t.rule.adaptive ? Shape{t.x[0], t.x[1], t.outputs.h, t.outputs.w}
                                                : result_shape(t.x, t.rule.window, t.ceil);
            const Array x = side.array(random_doubles(t.x.numel(), 28), t.x, dtype, read);
            const Array dy = side.array(random_doubles(shape.numel(), 29), shape, dtype, read);
            Array y = side.garbage(shape, side.dtype, write);
            Array dx = side.garbage(t.x, side.dtype, write);
            side.kernels().avg_pool2d(t.rule, x, y);
            side.kernels().avg_pool2d_grad(t.rule, dy, dx);
            return std::vector{y, dx};
          }));
        }
      }
    }
  }
}

TEST_CASE("pools: float64 and absurd windows are refused") {
  const Side gpu{cuda(0), float64};
  const Array x = gpu.garbage({1, 1, 2, 2}, float64);
  Array y = gpu.garbage({1, 1, 1, 1}, float64), none;
  CHECK(throws<UsageError>([&] { gpu.kernels().max_pool2d({2, 2}, x, y, none); }, {"float64"}));
  const Array in = gpu.garbage({1, 1, 2, 2}, float32);
  Array out = gpu.garbage({1, 1, 1, 1}, float32);
  CHECK(throws<UsageError>(
      [&] {
        gpu.kernels().max_pool2d({2, std::int64_t(1) << 40}, in, out, none);
      },
      {"too large"}));
}
