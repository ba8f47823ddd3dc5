// Pointwise kernels against float64.
#include "kernels/test_support.h"

#include <algorithm>
#include <functional>

using namespace cudasim::ptx;

namespace {

constexpr std::size_t kN = 5000;  // no multiple of a block

std::vector<double> map(const std::vector<float>& x, const std::function<double(double)>& f) {
  std::vector<double> y;
  for (float v : x) y.push_back(f(v));
  return y;
}

}  // namespace

TEST_CASE_TEMPLATE("relu keeps what is positive", Arch, Sm75, Sm80, Sm90) {
  PtxDevice device("pointwise", Arch::name);
  const auto x = random_floats(kN, 1);
  float* y = device.empty<float>(kN);
  RUNS_CLEANLY(device.launch("relu_kernel", kGrid, kThreads, 0, device.upload(x), y, kN));
  SAME(device.download(y, kN), map(x, [](double v) { return std::max(v, 0.0); }));
}

TEST_CASE_TEMPLATE("gelu is x times the normal distribution", Arch, Sm75, Sm80, Sm90, FastMath) {
  PtxDevice device("pointwise", Arch::name);
  const auto x = random_floats(kN, 2, -5, 5);
  float* y = device.empty<float>(kN);
  RUNS_CLEANLY(device.launch("gelu_kernel", kGrid, kThreads, 0, device.upload(x), y, kN));
  // 1 + erf cancels for negative x: a few float roundings of 1, times x
  SAME(device.download(y, kN),
       map(x, [](double v) { return 0.5 * v * std::erfc(-v * std::sqrt(0.5)); }), 1e-6, 1e-6);
}

TEST_CASE_TEMPLATE("axpy rounds the product and the sum, as -fmad=false says", Arch, Sm75, Sm80,
                   Sm90) {
  PtxDevice device("pointwise", Arch::name);
  const auto x = random_floats(kN, 3), y0 = random_floats(kN, 4);
  float* y = device.upload(y0);
  RUNS_CLEANLY(device.launch("axpy_kernel", kGrid, kThreads, 0, 1.7f, device.upload(x), y, kN));
  std::vector<float> expected;
  for (std::size_t i = 0; i < kN; ++i) {
    const float product = 1.7f * x[i];
    expected.push_back(y0[i] + product);
  }
  SAME(device.download(y, kN), expected);
}

TEST_CASE_TEMPLATE("scale4 moves four floats per access", Arch, Sm75, Sm80, Sm90) {
  PtxDevice device("pointwise", Arch::name);
  const auto x0 = random_floats(4096, 5);
  float* x = device.upload(x0);
  RUNS_CLEANLY(device.launch("scale4_kernel", kGrid, kThreads, 0, -3.f, x, std::size_t{1024}));
  SAME(device.download(x, 4096), map(x0, [](double v) { return static_cast<float>(-3 * v); }));
}

TEST_CASE_TEMPLATE("add_broadcast repeats operands along axes of stride 0", Arch, Sm75, Sm80,
                   Sm90) {
  struct Broadcast {
    int size[3], a_stride[3], b_stride[3];
  };
  PtxDevice device("pointwise", Arch::name);
  const Broadcast shape = {{5, 7, 11}, {77, 11, 1}, {0, 1, 0}};  // (5, 7, 11) + (7, 1)
  const auto a = random_floats(385, 6), b = random_floats(7, 7);
  float* y = device.empty<float>(385);
  RUNS_CLEANLY(device.launch("add_broadcast_kernel", {2}, {64}, 0, device.upload(a),
                             device.upload(b), y, shape));
  std::vector<float> expected;
  for (int i = 0; i < 385; ++i) expected.push_back(a[i] + b[i / 11 % 7]);
  SAME(device.download(y, 385), expected);
}

TEST_CASE_TEMPLATE("unscale reports a gradient that is not finite", Arch, Sm75, Sm80, Sm90) {
  PtxDevice device("pointwise", Arch::name);
  auto g = random_floats(1000, 8);
  int* found = device.upload(std::vector<int>{0});
  float* gradient = device.upload(g);
  RUNS_CLEANLY(device.launch("unscale_kernel", {4}, {256}, 0, gradient, g.size(), 0.5f, found));
  CHECK_EQ(*found, 0);
  SAME(device.download(gradient, 1000), map(g, [](double v) { return v / 2; }));
  g[777] = INFINITY;
  gradient = device.upload(g);
  RUNS_CLEANLY(device.launch("unscale_kernel", {4}, {256}, 0, gradient, g.size(), 0.5f, found));
  CHECK_EQ(*found, 1);
}

TEST_CASE_TEMPLATE("apply branches to one of ten functions", Arch, Sm75, Sm80, Sm90, FastMath) {
  const std::function<double(double)> functions[] = {
      [](double v) { return v; },
      [](double v) { return -v; },
      [](double v) { return std::fabs(v); },
      [](double v) { return v * v; },
      [](double v) { return 1 / v; },
      [](double v) { return std::sqrt(v); },
      [](double v) { return 1 / std::sqrt(v); },
      [](double v) { return std::exp(v); },
      [](double v) { return std::log(v); },
      [](double v) { return std::tanh(v); },
  };
  PtxDevice device("pointwise", Arch::name);
  const auto x = random_floats(600, 9, 0.1f, 6.f);
  float* input = device.upload(x);
  for (int op = 0; op < 10; ++op) {
    CAPTURE(op);
    float* y = device.empty<float>(x.size());
    RUNS_CLEANLY(device.launch("apply_kernel", {2}, {64}, 0, op, input, y, x.size()));
    // CUDA's own bounds are 2 ulp; log near 1 has an absolute one
    SAME(device.download(y, x.size()), map(x, functions[op]), 4e-7, 2e-7);
  }
}

TEST_CASE_TEMPLATE("apply treats infinities, NaN and subnormals as IEEE does", Arch, Sm75, Sm80,
                   Sm90) {
  PtxDevice device("pointwise", Arch::name);
  const std::vector<float> x = {INFINITY, -INFINITY, NAN, 0.f, -0.f, 1e-40f, -1e-40f, 3e38f};
  float* input = device.upload(x);
  for (int op : {1, 2, 3, 4, 5, 7, 8, 9}) {
    CAPTURE(op);
    float* y = device.empty<float>(x.size());
    RUNS_CLEANLY(device.launch("apply_kernel", {1}, {32}, 0, op, input, y, x.size()));
    const auto expected = map(x, [op](double v) -> double {
      const auto f = static_cast<float>(v);
      switch (op) {
        case 1:
          return -f;
        case 2:
          return std::fabs(f);
        case 3:
          return f * f;
        case 4:
          return 1 / f;
        case 5:
          return std::sqrt(f);
        case 7:
          return std::exp(f);
        case 8:
          return std::log(f);
        default:
          return std::tanh(f);
      }
    });
    SAME(device.download(y, x.size()), expected, 4e-7);
  }
}
