// Statistics and normalization of channels on the simulated GPU.
#include "tests/cuda/families.h"

#include <tandem/core/normal.h>

using namespace tandem;
using namespace tandem::test;

namespace {

// Statistics are float64 on the CPU and float32 on a GPU.
DType statistics(const Side& side) {
  return side.device.kind == DeviceKind::cpu ? float64 : float32;
}

std::vector<Array> moments_of(const Side& side, const Array& x) {
  const DType type = statistics(side);
  std::vector<Array> m{side.garbage({x.size(1)}, type), side.garbage({x.size(1)}, type)};
  side.kernels().moments(x, m[0], m[1]);
  return m;
}

}  // namespace

TEST_CASE("moments: rows, images and columns around the sizes of warps, blocks and parts") {
  for (DType dtype : kFloats) {
    for (const Shape& shape :
         {Shape{1, 1, 1}, Shape{1, 9, 33}, Shape{1, 2, 1025}, Shape{3, 5, 49}, Shape{40, 70, 1},
          Shape{1100, 3, 1}, Shape{4, 2, 3000}, Shape{2, 3, 2}, Shape{5, 1, 1}}) {
      CAPTURE(dtype);
      CAPTURE(shape);
      const auto x = random_doubles(shape.numel(), 16, -1, 3);
      CHECK(agrees(dtype,
                   [&](const Side& side) { return moments_of(side, side.array(x, shape, dtype)); },
                   {1e-5, 1e-5}));
    }
  }
}

// mean 30000 and variance 1/3: the sum of squares would have no digit left. What is allowed is a
// rounding of the mean, and float32's of the differences.
TEST_CASE("moments: a large mean costs no digits") {
  for (const Shape& shape : {Shape{1, 2, 5000}, Shape{900, 3, 1}}) {
    CAPTURE(shape);
    const auto x = random_doubles(shape.numel(), 17, 29999, 30001);
    CHECK(agrees(float32,
                 [&](const Side& side) {
                   const auto m = moments_of(side, side.array(x, shape, float32));
                   return std::vector{m[1]};
                 },
                 {1e-5, 0}));
    CHECK(agrees(float32,
                 [&](const Side& side) {
                   const auto m = moments_of(side, side.array(x, shape, float32));
                   return std::vector{m[0]};
                 },
                 {7e-8, 0}));
  }
}

// With d = x - mean the kernel takes sum d^2 - (sum d)^2 / n. Here x is constant: d is what
// rounding the mean left, and of numbers around 1e-17 its square is 0, but (sum d)^2 / n is not.
TEST_CASE("moments: the variance of a constant is 0, and never negative") {
  std::vector<double> x;
  for (const double u : random_doubles(64, 26, 1e-17, 9e-17)) x.insert(x.end(), 1000, u);
  x.insert(x.end(), 1000, 1e6), x.insert(x.end(), 1000, 1e6 + 0.0625);
  for (const Shape& shape : {Shape{1, 66, 1000}, Shape{1000, 66, 1}}) {
    CAPTURE(shape);
    const Side gpu{cuda(0), float32};
    const Array rows = gpu.array(x, {66, 1000}, float32);
    const Array lying = shape[2] == 1 ? rows.transpose(0, 1).contiguous() : rows;
    const auto m = moments_of(gpu, lying.view_or_undefined(shape));
    for (const double m2 : doubles(m[1])) {
      CHECK(m2 >= 0);
      CHECK(m2 < 1e-30);
    }
  }
}

namespace {

enum class Weights { none, by_channel, by_position };

// Everything that is made of a Normal.
std::vector<Array> normalized(const Side& side, const Shape& shape, DType dtype, Weights weights,
                              Layout layout) {
  const DType wide = statistics(side);
  const std::int64_t channels = shape[1];
  const Array x = side.array(random_doubles(shape.numel(), 18, -1, 3), shape, dtype);
  const Array dy = side.array(random_doubles(shape.numel(), 19), shape, dtype);
  Normal by{side.typed(random_doubles(channels, 20), {channels}, wide, float32),
            side.typed(random_doubles(channels, 21, 0.1, 2), {channels}, wide, float32),
            1e-5,
            {},
            {}};
  if (weights != Weights::none) {
    const Shape w = weights == Weights::by_channel ? Shape{channels, 1} : Shape{1, shape[2]};
    by.weight = side.typed(random_doubles(w.numel(), 22), w, wide, float32, layout);
    by.bias = side.typed(random_doubles(w.numel(), 23), w, wide, float32, layout);
  }
  Array y = side.garbage(shape, side.dtype), dx = side.garbage(shape, side.dtype);
  Array g = side.garbage({channels}, wide), gx = side.garbage({channels}, wide);
  side.kernels().normalize(x, by, y);
  side.kernels().normalize_sums(x, by, dy, g, gx);
  const Array mean_g = side.typed(random_doubles(channels, 24), {channels}, wide, float32);
  const Array mean_gx = side.typed(random_doubles(channels, 25), {channels}, wide, float32);
  side.kernels().normalize_grad(x, by, dy, mean_g, mean_gx, dx);
  return {y, dx, g, gx};
}

}  // namespace

TEST_CASE("normalize: values, sums and gradients, with weights by channel and position") {
  for (DType dtype : kFloats) {
    for (const Shape& shape :
         {Shape{1, 9, 33}, Shape{3, 5, 49}, Shape{40, 70, 1}, Shape{2, 3, 2}, Shape{1, 3, 1100}}) {
      for (Weights weights : {Weights::none, Weights::by_channel, Weights::by_position}) {
        for (Layout layout : {Layout::row_major, Layout::gaps, Layout::expanded}) {
          CAPTURE(dtype);
          CAPTURE(shape);
          CAPTURE(int(weights));
          CAPTURE(int(layout));
          Tolerance allowed = rounding(dtype);
          allowed.absolute = 3e-5;  // sums of up to 1100 terms of size 1; invstd is up to 3
          CHECK(agrees(
              dtype,
              [&](const Side& side) { return normalized(side, shape, dtype, weights, layout); },
              allowed));
        }
      }
    }
  }
}

TEST_CASE("normalize: statistics of nothing are 0, float64 is refused") {
  const Side gpu{cuda(0), float32};
  for (const Array& a : moments_of(gpu, gpu.garbage({0, 3, 2}, float32))) {
    CHECK(doubles(a) == std::vector<double>(3, 0.0));
  }
  CHECK(throws<UsageError>([&] { moments_of(gpu, gpu.garbage({1, 3, 2}, float64)); }, {"float64"}));
}
