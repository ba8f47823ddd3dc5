// Convolutions and products on the CPU through oneDNN and through Eigen, each against loops in
// float64, for images and weights that lie in every way; the switch, the kernels that are kept, and
// threads. Without oneDNN both runs are Eigen's.
#include <dlfcn.h>
#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <latch>
#include <limits>
#include <string>
#include <thread>

#include <tandem/core/array_ops.h>
#include <tandem/core/memory.h>
#include <tandem/core/numerics.h>

#include "tests/core/cpu_arrays.h"

using namespace tandem;
using namespace tandem::test;

namespace {

std::vector<bool> both_ways() {
  return onednn_available() ? std::vector{false, true} : std::vector{false};
}

struct Case {
  const char* name;
  std::int64_t n, c, h, w, o, groups;
  Window2d window;
  Shape x() const { return {n, c, h, w}; }
  Shape weight() const { return {o, c / groups, window.kernel.h, window.kernel.w}; }
  Shape y() const {
    const Window2d& v = window;
    return {
        n,
        o,
        count_windows(h, v.kernel.h, v.stride.h, v.padding.h, v.dilation.h),
        count_windows(w, v.kernel.w, v.stride.w, v.padding.w, v.dilation.w),
    };
  }
};

const Case kCases[] = {
    {"plain", 2, 8, 9, 10, 16, 1, {{3}, {1}, {1}, {1}}},
    {"three channels in", 3, 3, 12, 11, 24, 1, {{3}, {1}, {1}, {1}}},
    {"one channel in", 2, 1, 14, 14, 32, 1, {{3}, {1}, {1}, {1}}},
    {"odd channels", 2, 5, 7, 9, 13, 1, {{3, 2}, {1}, {1, 0}, {1}}},
    {"one channel out", 2, 17, 6, 6, 1, 1, {{3}, {1}, {1}, {1}}},
    {"stride 2", 2, 16, 13, 12, 24, 1, {{3}, {2}, {1}, {1}}},
    {"strides that differ, wide padding", 1, 8, 11, 17, 8, 1, {{3, 5}, {3, 1}, {2, 4}, {1}}},
    {"dilation", 2, 8, 12, 13, 16, 1, {{3}, {1}, {2}, {2, 3}}},
    {"1 x 1", 3, 24, 8, 7, 40, 1, {{1}, {1}, {0}, {1}}},
    {"1 x 1, stride 2", 2, 16, 9, 9, 16, 1, {{1}, {2}, {0}, {1}}},
    {"1 x 1 image", 4, 33, 1, 1, 20, 1, {{1}, {1}, {0}, {1}}},
    {"groups", 2, 16, 8, 8, 32, 2, {{3}, {1}, {1}, {1}}},
    {"odd groups", 2, 15, 7, 6, 9, 3, {{3}, {2}, {1}, {1}}},
    {"depthwise", 2, 16, 9, 8, 16, 16, {{3}, {1}, {1}, {1}}},
    {"depthwise, odd, doubled", 2, 7, 8, 8, 14, 7, {{3}, {2}, {1}, {1}}},
    {"large kernel", 1, 4, 16, 16, 8, 1, {{7}, {2}, {3}, {1}}},
    {"one sample of one pixel row", 1, 8, 1, 30, 8, 1, {{1, 3}, {1}, {0, 1}, {1}}},
    {"empty batch", 0, 4, 5, 5, 8, 1, {{3}, {1}, {1}, {1}}},
};

// Sums of products in float64, and the same sums of absolute values.
struct Sums {
  std::vector<double> value, size;
  explicit Sums(const Shape& shape) : value(std::size_t(shape.numel())), size(value) {}
  void add(std::int64_t at, double product) {
    value[std::size_t(at)] += product;
    size[std::size_t(at)] += std::abs(product);
  }
};

// f(index of x, of w, of y) for every product of the definition.
template <class F>
void for_each_product(const Case& t, F f) {
  const Shape x = t.x(), w = t.weight(), y = t.y();
  const Window2d& v = t.window;
  for (std::int64_t at = 0; at < y.numel(); ++at) {
    const std::int64_t q = at % y[3], p = at / y[3] % y[2], o = at / (y[3] * y[2]) % y[1],
                       n = at / (y[3] * y[2] * y[1]), c0 = o / (t.o / t.groups) * w[1];
    for (std::int64_t k = 0; k < w[1] * w[2] * w[3]; ++k) {
      const std::int64_t j = k % w[3], i = k / w[3] % w[2], c = k / (w[3] * w[2]);
      const std::int64_t row = p * v.stride.h - v.padding.h + i * v.dilation.h;
      const std::int64_t column = q * v.stride.w - v.padding.w + j * v.dilation.w;
      if (row < 0 || row >= x[2] || column < 0 || column >= x[3]) continue;
      f(((n * x[1] + c0 + c) * x[2] + row) * x[3] + column, o * w[1] * w[2] * w[3] + k, at);
    }
  }
}

// n additions of float32 in any order are within (n + 1) 2^-24 of the sum of absolute values (one
// more for the product); a 16-bit result is rounded once more.
Verdict within(const Array& a, const Sums& truth, std::int64_t n) {
  const std::vector<double> actual = values_of(a);
  const double once = a.dtype() == bfloat16 ? 0x1p-8 : a.dtype() == float16 ? 0x1p-11 : 0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double e = truth.value[i];
    const double bound = double(n + 2) * 0x1p-24 * truth.size[i] * (1 + once) + once * std::abs(e);
    const Verdict v = close(actual[i], e, {0, bound});
    if (!v) return {false, "element " + std::to_string(i) + ": " + v.why};
  }
  return {};
}

struct Operands {
  std::vector<double> x, w, b, dy;

  Operands(const Case& t, DType dtype)
      : x(random_doubles(t.x().numel(), 1)),
        w(random_doubles(t.weight().numel(), 2)),
        b(random_doubles(t.o, 3)),
        dy(random_doubles(t.y().numel(), 4)) {
    for (auto* values : {&x, &w, &b, &dy}) {
      for (double& v : *values) v = stored_as(dtype, v);
    }
  }
};

struct Truth {
  Sums y, dx, dw;

  Truth(const Case& t, const Operands& in) : y(t.y()), dx(t.x()), dw(t.weight()) {
    const Shape out = t.y();
    for_each_product(t, [&](std::int64_t x, std::int64_t w, std::int64_t at) {
      const double xv = in.x[std::size_t(x)], wv = in.w[std::size_t(w)], g = in.dy[std::size_t(at)];
      y.add(at, xv * wv), dx.add(x, g * wv), dw.add(w, g * xv);
    });
    for (std::int64_t at = 0; at < out.numel(); ++at) {
      y.add(at, in.b[std::size_t(at / (out[2] * out[3]) % out[1])]);
    }
  }
};

constexpr Lie kImageLies[] = {Lie::row_major, Lie::rotated};

void check_case(const Case& t, DType dtype) {
  CAPTURE(t.name);
  CAPTURE(dtype);
  const Operands in(t, dtype);
  const Truth truth(t, in);
  const std::int64_t depth = t.weight().numel() / t.o;
  const Array bias = array_of(in.b, {t.o}, dtype);
  for (bool on : both_ways()) {
    const UseOneDnn use(on);
    CAPTURE(on);
    for (Lie lx : kImageLies) {
      for (Lie ly : kImageLies) {
        for (Lie lw : kImageLies) {
          CAPTURE(int(lx));
          CAPTURE(int(ly));
          CAPTURE(int(lw));
          const Array x = lying(lx, in.x, t.x(), dtype), dy = lying(ly, in.dy, t.y(), dtype),
                      w = lying(lw, in.w, t.weight(), dtype);
          Array y = garbage(t.y(), dtype, ly), dx = garbage(t.x(), dtype, lx),
                dw = garbage(t.weight(), dtype, lw);
          cpu_backend().conv2d(t.window, t.groups, x, w, bias, y);
          CHECK(within(y, truth.y, depth + 1));
          cpu_backend().conv2d_grad_input(t.window, t.groups, w, dy, dx);
          CHECK(within(dx, truth.dx, depth * t.o / t.groups));
          cpu_backend().conv2d_grad_weight(t.window, t.groups, x, dy, dw);
          CHECK(within(dw, truth.dw, t.y().numel() / t.o));
        }
      }
    }
  }
}

const Case kPlain = kCases[0];

// y of the plain case for a width, row-major.
Array convolve(std::int64_t width, Device device = cpu(0)) {
  Case t = kPlain;
  t.w = width;
  const Array x = Array::full(t.x(), 1, float32, device),
              w = Array::full(t.weight(), 2, float32, device);
  Array y = Array::empty(t.y(), float32, device);
  backend(device).conv2d(t.window, 1, x, w, {}, y);
  return y;
}

// c = a b of n x n.
Array multiply(std::int64_t n, Device device = cpu(0)) {
  const Array a = Array::full({1, n, n}, 1, float32, device);
  Array c = Array::empty({1, n, n}, float32, device);
  backend(device).gemm(a, a, c, false);
  return c;
}

std::int64_t threads_of_process() {
  using Tasks = std::filesystem::directory_iterator;
  return std::distance(Tasks("/proc/self/task"), Tasks());
}

}  // namespace

TEST_CASE("onednn: convolutions and their gradients, with it and without, are the definition's") {
  for (const Case& t : kCases) check_case(t, float32);
}

TEST_CASE("onednn: convolutions of bfloat16 are rounded once") {
  for (const Case& t : kCases) check_case(t, bfloat16);
}

TEST_CASE("onednn: weights with gaps, a bias with gaps, and no bias") {
  const Case& t = kPlain;
  const Operands in(t, float32);
  const Truth truth(t, in);
  for (bool on : both_ways()) {
    const UseOneDnn use(on);
    const Array x = lying(Lie::rotated, in.x, t.x()), w = lying(Lie::gaps, in.w, t.weight()),
                bias = lying(Lie::gaps, in.b, {t.o}), none = Array::zeros({t.o}, float32, cpu(0));
    Array y = garbage(t.y(), float32, Lie::rotated), z = garbage(t.y(), float32, Lie::rotated);
    cpu_backend().conv2d(t.window, 1, x, w, bias, y);
    CHECK(within(y, truth.y, 8 * 9 + 1));
    cpu_backend().conv2d(t.window, 1, x, w, {}, y);
    cpu_backend().conv2d(t.window, 1, x, w, none, z);
    CHECK(close(dense_copy(y), dense_copy(z), {1e-6, 1e-6}));  // one addition of 0, elsewhere
  }
}

// Above the size from which products go through oneDNN; the last ones are thin, and too wide for
// that. Small whole numbers: every sum is exact.
TEST_CASE("onednn: products of every layout are exact on whole numbers, with it and without") {
  struct Sizes {
    std::int64_t b, m, k, n;
  };
  for (const Sizes s :
       {Sizes{2, 48, 40, 50}, {1, 3, 700, 40}, {1, 512, 16, 32}, {1, 530, 3, 540}}) {
    const auto p = whole_numbers(s.b * s.m * s.k, 41, 2), q = whole_numbers(s.b * s.k * s.n, 42, 2);
    std::vector<double> expected(std::size_t(s.b * s.m * s.n), 0.0);
    for (std::int64_t i = 0; i < s.b * s.m; ++i) {
      for (std::int64_t l = 0; l < s.k; ++l) {
        for (std::int64_t j = 0; j < s.n; ++j) {
          expected[std::size_t(i * s.n + j)] +=
              p[std::size_t(i * s.k + l)] * q[std::size_t((i / s.m * s.k + l) * s.n + j)];
        }
      }
    }
    const auto twice = each(expected, [](double v) { return 2 * v; });
    for (bool on : both_ways()) {
      const UseOneDnn use(on);
      for (Lie la : {Lie::row_major, Lie::rotated, Lie::gaps}) {
        for (Lie lb : {Lie::row_major, Lie::rotated, Lie::gaps}) {
          CAPTURE(s.m);
          CAPTURE(on);
          CAPTURE(int(la));
          CAPTURE(int(lb));
          const Array a = lying(la, p, {s.b, s.m, s.k}), b = lying(lb, q, {s.b, s.k, s.n});
          Array c = garbage({s.b, s.m, s.n}, float32);
          cpu_backend().gemm(a, b, c, false);
          CHECK(values_of(c) == expected);
          cpu_backend().gemm(a, b, c, true);
          CHECK(values_of(c) == twice);
        }
      }
    }
  }
}

TEST_CASE("onednn: it is on if the build has it and the environment does not say no") {
  const char* text = std::getenv("TANDEM_ONEDNN");
  CHECK(onednn() == (onednn_available() && !(text && std::string(text) == "0")));
  if (!onednn_available()) {
    CHECK(throws<UsageError>([] { set_onednn(true); }, {"[set_onednn]", "libdnnl-dev"}));
  }
}

TEST_CASE("onednn: what the CPU's convolutions produce follows the switch") {
  for (bool on : both_ways()) {
    const UseOneDnn use(on);
    CHECK(onednn() == on);
    const auto expected = on ? MemoryFormat::channels_last : MemoryFormat::contiguous;
    CHECK(cpu_backend().conv_format() == expected);
  }
}

TEST_CASE("onednn: a device keeps one kernel per shape, and never more than 256") {
  if (!onednn_available()) return;
  const UseOneDnn use(true);
  const Device device = cpu(5);
  convolve(9, device);
  const std::int64_t before = onednn_kernels(device);
  CHECK(before > 0);
  convolve(9, device);
  CHECK(onednn_kernels(device) == before);
  convolve(10, device);
  CHECK(onednn_kernels(device) == before + 1);
  std::int64_t most = 0;
  for (std::int64_t width = 1; width <= 300; ++width) {
    const Array y = convolve(width, device);
    most = std::max(most, onednn_kernels(device));
    const double corner = 8 * 2 * (width == 1 ? 2 : 4);  // channels, weight, pixels
    CHECK(values_of(y.narrow(0, 0, 1).narrow(1, 0, 1).narrow(2, 0, 1).narrow(3, 0, 1)) ==
          std::vector{corner});
  }
  CHECK(most > 200);
  CHECK(most <= 256);
  CHECK(throws<UsageError>([] { onednn_kernels(cuda(0)); }, {"[onednn_kernels]", "cuda:0"}));
}

// A kernel that cannot be made is left to Eigen without a word, so it is counted here.
TEST_CASE("onednn: it has kernels for the plain convolution and its gradients, in either layout") {
  if (!onednn_available()) return;
  const UseOneDnn use(true);
  const Case& t = kPlain;
  const Device device = cpu(7);
  std::int64_t expected = onednn_kernels(device);
  for (const auto format : {MemoryFormat::contiguous, MemoryFormat::channels_last}) {
    const auto make = [&](const Shape& shape) {
      return Array::empty(shape, float32, device, format);
    };
    Array x = make(t.x()), w = make(t.weight()), y = make(t.y());
    for (Array* a : {&x, &w, &y}) fill(*a, 0);
    Backend& b = backend(device);
    b.conv2d(t.window, 1, x, w, {}, y);
    CHECK(onednn_kernels(device) == ++expected);
    b.conv2d_grad_input(t.window, 1, w, y, x);
    CHECK(onednn_kernels(device) == ++expected);
    b.conv2d_grad_weight(t.window, 1, x, y, w);
    CHECK(onednn_kernels(device) == ++expected);
  }
}

TEST_CASE("onednn: what a convolution works in is workspace, and gone after the call") {
  if (!onednn_available()) return;
  const UseOneDnn use(true);
  const Device device = cpu(6);
  memory::reset_peak(device);
  convolve(40, device);
  CHECK(memory::stats(device).peak_of(Category::workspace) > 0);
  CHECK(memory::stats(device).of(Category::workspace) == 0);
}

TEST_CASE("onednn: the calling thread does all the work, and OpenMP's setting stays the user's") {
  if (!onednn_available()) return;
  const UseOneDnn use(true);
  auto set_threads = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
  auto get_threads = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "omp_get_max_threads"));
  constexpr int kThreads = 4;
  std::thread([] {}).join();  // with the first one ThreadSanitizer starts a thread of its own
  const std::int64_t before = threads_of_process();
  std::latch computed(kThreads), counted(1);
  std::vector<int> settings(kThreads);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      if (set_threads) set_threads(3 + i);
      for (int repeat = 0; repeat < 3; ++repeat) convolve(40, cpu(i)), multiply(128, cpu(i));
      settings[std::size_t(i)] = get_threads ? get_threads() : 3 + i;
      computed.count_down();
      counted.wait();  // a team would wait for more work as long as this thread lives
    });
  }
  computed.wait();
  CHECK(threads_of_process() == before + kThreads);
  counted.count_down();
  for (std::thread& t : threads) t.join();
  CHECK(settings == std::vector{3, 4, 5, 6});
}
