// Convolutions on the GPU beyond their rows of the op table: layouts, types, TF32, workspaces.
#include <doctest/doctest.h>

#include "runtime/cudasim.h"
#include "tests/support/check.h"

#include <tandem/core/backend.h>
#include <tandem/core/memory.h>
#include <tandem/core/numerics.h>

using namespace tandem;
using namespace tandem::test;

namespace {

constexpr MemoryFormat kFormats[] = {MemoryFormat::contiguous, MemoryFormat::channels_last};

struct Case {
  Window2d window;
  std::int64_t groups;
  Shape x, w, y;
};

const std::vector<Case>& all_cases() {
  static const std::vector<Case> all = {
      {{3, 1, 1, 1}, 1, {2, 3, 5, 4}, {4, 3, 3, 3}, {2, 4, 5, 4}},
      {{{2, 3}, {2, 1}, {0, 1}, {1, 2}}, 2, {1, 4, 6, 7}, {6, 2, 2, 3}, {1, 6, 3, 5}},
      {{1, 1, 0, 1}, 1, {2, 1, 3, 3}, {1, 1, 1, 1}, {2, 1, 3, 3}}};
  return all;
}

Array lying(const std::vector<double>& values, const Shape& shape, DType dtype, Device device,
            MemoryFormat format) {
  return array_of(values, shape, dtype, device).to(format);
}

// What the three kernels of `device` make of the same numbers, each result in `format`.
std::vector<std::vector<double>> compute(const Case& c, DType dtype, Device device, MemoryFormat in,
                                         MemoryFormat out) {
  Backend& b = backend(device);
  const Array x = lying(random_doubles(c.x.numel(), 1), c.x, dtype, device, in);
  const Array w = lying(random_doubles(c.w.numel(), 2), c.w, dtype, device, in);
  const Array dy = lying(random_doubles(c.y.numel(), 3), c.y, dtype, device, in);
  const Array bias = array_of(random_doubles(c.w[0], 4), {c.w[0]}, dtype, device);
  litter_pool(device);
  Array y = Array::empty(c.y, dtype, device, out), dx = Array::empty(c.x, dtype, device, out),
        dw = Array::empty(c.w, dtype, device, out);
  b.conv2d(c.window, c.groups, x, w, bias, y);
  b.conv2d_grad_input(c.window, c.groups, w, dy, dx);
  b.conv2d_grad_weight(c.window, c.groups, x, dy, dw);
  return {doubles(y), doubles(dx), doubles(dw)};
}

}  // namespace

TEST_CASE("conv2d: every layout of operands and results, in every type, equals the CPU's") {
  for (const DType dtype : {float32, float16, bfloat16}) {
    const double unit = dtype == float32 ? 2e-6 : (dtype == float16 ? 0x1p-10 : 0x1p-7);
    for (const Case& c : all_cases()) {
      const auto expected =
          compute(c, dtype, cpu(0), MemoryFormat::contiguous, MemoryFormat::contiguous);
      for (const MemoryFormat in : kFormats) {
        for (const MemoryFormat out : kFormats) {
          CAPTURE(dtype);
          CAPTURE(c.x);
          const auto got = compute(c, dtype, cuda(0), in, out);
          for (int k = 0; k < 3; ++k) {
            CAPTURE(k);
            CHECK(close(got[std::size_t(k)], expected[std::size_t(k)], {2 * unit, 8 * unit}));
          }
        }
      }
    }
  }
}

TEST_CASE("conv2d: float32 is rounded to TF32 only if that is allowed") {
  const double v = 1 + 0x1p-20;
  const Array x = array_of({v}, {1, 1, 1, 1}, float32, cuda(0)),
              one = array_of({1}, {1, 1, 1, 1}, float32, cuda(0));
  Array y = Array::empty({1, 1, 1, 1}, float32, cuda(0));
  backend(cuda(0)).conv2d({}, 1, x, one, {}, y);
  CHECK(doubles(y) == std::vector<double>{v});
  set_allow_tf32(true);
  backend(cuda(0)).conv2d({}, 1, x, one, {}, y);
  CHECK(doubles(y) == std::vector<double>{1});
  set_allow_tf32(false);
}

TEST_CASE("conv2d: no channels leave the bias, no samples leave nothing") {
  Backend& b = backend(cuda(0));
  const Array bias = array_of({3, -4}, {2}, float32, cuda(0));
  Array y = Array::full({1, 2, 2, 2}, 9, float32, cuda(0));
  b.conv2d({}, 1, Array::empty({1, 0, 2, 2}, float32, cuda(0)),
           Array::empty({2, 0, 1, 1}, float32, cuda(0)), bias, y);
  CHECK(doubles(y) == std::vector<double>{3, 3, 3, 3, -4, -4, -4, -4});
  Array dw = Array::full({2, 1, 1, 1}, 9, float32, cuda(0));
  b.conv2d_grad_weight({}, 1, Array::empty({0, 1, 2, 2}, float32, cuda(0)),
                       Array::empty({0, 2, 2, 2}, float32, cuda(0)), dw);
  CHECK(doubles(dw) == std::vector<double>{0, 0});
}

TEST_CASE("conv2d: workspace is counted as such, and given back") {
  const Case& c = all_cases()[0];
  memory::reset_peak(cuda(0));
  compute(c, float32, cuda(0), MemoryFormat::channels_last, MemoryFormat::channels_last);
  const MemoryStats stats = memory::stats(cuda(0));
  CHECK(stats.peak_of(Category::workspace) > 3000);
  CHECK(stats.of(Category::workspace) == 0);
}

TEST_CASE("conv2d: float64 is refused in words") {
  const Array a = array_of({1}, {1, 1, 1, 1}, float64, cuda(0));
  Array y = Array::empty({1, 1, 1, 1}, float64, cuda(0));
  CHECK(throws<UsageError>([&] { backend(cuda(0)).conv2d({}, 1, a, a, {}, y); },
                           {"[conv2d]", "float64", "cuda:0"}));
}
