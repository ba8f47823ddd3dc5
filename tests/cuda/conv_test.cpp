// Convolutions on the GPU beyond their rows of the op table: layouts, types, TF32, workspaces.
#include <doctest/doctest.h>

#include "runtime/cudasim.h"
#include "tests/support/check.h"

#include <tandem/core/backend.h>
#include <tandem/core/memory.h>
#include <tandem/core/numerics.h>
#include <tandem/core/ops/conv.h>
#include <tandem/core/ops/reduce.h>
#include <tandem/core/trace.h>

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

// The algorithms that conv.cpp takes of what the simulator has.
constexpr const char* kForward[] = {"CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM",
                                    "CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM",
                                    "CUDNN_CONVOLUTION_FWD_ALGO_GEMM"};
constexpr const char* kBackward[] = {"CUDNN_CONVOLUTION_BWD_DATA_ALGO_1",
                                     "CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1"};
constexpr std::size_t kRefused = 0, kTooMuch = std::size_t(1) << 30;  // more than the bound

struct FreeAlgorithms {
  ~FreeAlgorithms() { cudasim::free_algorithms(); }
};

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

TEST_CASE("conv2d: where cuDNN lacks an algorithm the next deterministic one computes") {
  const FreeAlgorithms at_end;
  const auto last = MemoryFormat::channels_last;
  const Case& c = all_cases()[0];
  const auto expected = compute(c, float32, cuda(0), last, last);
  const int before = cudasim::calls("cudnnConvolutionForward");
  cudasim::fail_call("cudnnConvolutionForward", 1, cudaErrorNotSupported);  // known only by trying
  CHECK(compute(c, float32, cuda(0), last, last) == expected);
  CHECK(cudasim::calls("cudnnConvolutionForward") == before + 2);
  for (int refused = 0; refused < 2; ++refused) {
    cudasim::hamper_algorithm(kForward[refused], 0, kRefused);
    CHECK(compute(c, float32, cuda(0), last, last) == expected);
  }
}

TEST_CASE("conv2d: no algorithm at all is an error that names shapes, type and device") {
  const FreeAlgorithms at_end;
  for (const char* name : kForward) cudasim::hamper_algorithm(name, 0, kRefused);
  for (const char* name : kBackward) cudasim::hamper_algorithm(name, 0, kRefused);
  const Array x = array_of(random_doubles(24, 1), {1, 2, 3, 4}, float16, cuda(0));
  const Array w = array_of(random_doubles(6, 2), {3, 2, 1, 1}, float16, cuda(0));
  Array y = Array::zeros({1, 3, 3, 4}, float16, cuda(0)), dx = Array::empty_like(x),
        dw = Array::empty_like(w);
  Backend& b = backend(cuda(0));
  CHECK(throws<DeviceError>([&] { b.conv2d({}, 1, x, w, {}, y); },
                            {"[conv2d] cuDNN has no deterministic algorithm for the convolution",
                             "(1, 2, 3, 4)", "(3, 2, 1, 1)", "(1, 3, 3, 4)", "float16", "cuda:0"}));
  CHECK(throws<DeviceError>([&] { b.conv2d_grad_input({}, 1, w, y, dx); }, {"the gradient of x"}));
  CHECK(throws<DeviceError>([&] { b.conv2d_grad_weight({}, 1, x, y, dw); },
                            {"the gradient of the weight"}));
}

TEST_CASE("conv2d: an algorithm that wants more workspace than the bound gives way to the next") {
  const FreeAlgorithms at_end;
  const auto last = MemoryFormat::channels_last;
  const Case& c = all_cases()[0];
  const auto expected = compute(c, float32, cuda(0), last, last);
  cudasim::hamper_algorithm(kForward[0], 0, kTooMuch);
  memory::reset_peak(cuda(0));
  CHECK(compute(c, float32, cuda(0), last, last) == expected);
  CHECK(memory::stats(cuda(0)).peak_of(Category::workspace) < (1 << 20));
}

// Sums over samples meet in dw: one more rounding of the type for every half.
TEST_CASE("conv2d: a batch that wants more workspace than the bound is computed in halves") {
  const FreeAlgorithms at_end;
  for (const DType dtype : {float32, float16}) {
    Case c = all_cases()[1];
    c.x[0] = c.y[0] = 5;
    const auto whole =
        compute(c, dtype, cuda(0), MemoryFormat::contiguous, MemoryFormat::channels_last);
    const int before = cudasim::calls("cudnnConvolutionForward");
    for (const char* name : kForward) cudasim::hamper_algorithm(name, 2, kTooMuch);
    for (const char* name : kBackward) cudasim::hamper_algorithm(name, 2, kTooMuch);
    const auto halves =
        compute(c, dtype, cuda(0), MemoryFormat::contiguous, MemoryFormat::channels_last);
    cudasim::free_algorithms();
    CHECK(cudasim::calls("cudnnConvolutionForward") == before + 3);  // 2, 1 and 2 samples
    CHECK(halves[0] == whole[0]);
    CHECK(halves[1] == whole[1]);
    const double unit = dtype == float32 ? 2e-6 : 0x1p-10;
    CHECK(close(halves[2], whole[2], {2 * unit, 8 * unit}));
  }
}

TEST_CASE("conv2d: a single sample has whatever workspace it needs, or is out of memory") {
  const FreeAlgorithms at_end;
  for (const char* name : kForward) cudasim::hamper_algorithm(name, 0, kTooMuch);
  const Array x = array_of({1}, {1, 1, 1, 1}, float32, cuda(0));
  Array y = Array::empty_like(x);
  CHECK(throws<OutOfMemory>([&] { backend(cuda(0)).conv2d({}, 1, x, x, {}, y); }));
}

// 1 + 2^-11 lies between two numbers of float16; with the bias 2^-11 the sum is one of them. The
// same for bfloat16 with 2^-8.
TEST_CASE("conv2d: a 16-bit result is rounded once, after the bias was added") {
  for (const DType dtype : {float16, bfloat16}) {
    const double half_unit = dtype == float16 ? 0x1p-11 : 0x1p-8;
    const Array x = array_of({1, 1}, {1, 2, 1, 1}, dtype, cuda(0));
    const Array w = array_of({1, half_unit}, {1, 2, 1, 1}, dtype, cuda(0));
    const Array bias = array_of({half_unit}, {1}, dtype, cuda(0));
    Array y = Array::empty({1, 1, 1, 1}, dtype, cuda(0));
    backend(cuda(0)).conv2d({}, 1, x, w, bias, y);
    CHECK(doubles(y) == std::vector<double>{1 + 2 * half_unit});
  }
}

TEST_CASE("conv2d: row-major images are converted once, for forward and backward") {
  const Tensor x = random_tensor({2, 3, 8, 8}, 1, float32, cuda(0));
  Tensor w = random_tensor({4, 3, 3, 3}, 2, float32, cuda(0));
  w.requires_grad_();
  const trace::LayoutCopies before = trace::layout_copies();
  sum(conv2d(x, w)).backward();
  CHECK((trace::layout_copies() - before).conversions == 1);
  CHECK(format_of(w.grad().array()) == MemoryFormat::contiguous);
}
