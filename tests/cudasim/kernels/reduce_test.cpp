// Reductions against float64. Sums of n floats are held to n/2 roundings of the sum of magnitudes.
#include "kernels/test_support.h"

#include <algorithm>
#include <numeric>

using namespace cudasim::ptx;

namespace {

constexpr int kRows = 5, kCols = 1003;

// f(row) for every row of a (rows, cols) matrix
template <class F>
std::vector<double> per_row(const std::vector<float>& x, F f) {
  std::vector<double> out;
  for (int r = 0; r < kRows; ++r) {
    out.push_back(f(std::vector<double>(x.begin() + r * kCols, x.begin() + (r + 1) * kCols)));
  }
  return out;
}

double total(const std::vector<double>& v) {
  return std::accumulate(v.begin(), v.end(), 0.0);
}

}  // namespace

TEST_CASE_TEMPLATE("row_sum adds with shuffles and shared memory", Arch, Sm75, Sm80, Sm90,
                   FastMath) {
  PtxDevice device("reduce", Arch::name);
  const auto x = random_floats(kRows * kCols, 1);
  float* y = device.empty<float>(kRows);
  RUNS_CLEANLY(device.launch("row_sum_kernel", {kRows}, {256}, 0, device.upload(x), y, kCols));
  SAME(device.download(y, kRows), per_row(x, total), 0, 2 * kCols * 0x1p-24 * 20);
}

TEST_CASE_TEMPLATE("sum takes two passes through a tree in dynamic shared memory", Arch, Sm75, Sm80,
                   Sm90) {
  PtxDevice device("reduce", Arch::name);
  const std::size_t n = 70'001;
  std::vector<float> x(n);
  for (std::size_t i = 0; i < n; ++i) x[i] = static_cast<float>(i % 13) - 6;  // sums stay exact
  float *partial = device.empty<float>(64), *result = device.empty<float>(1);
  RUNS_CLEANLY(
      device.launch("partial_sum_kernel", {64}, {256}, 1024, device.upload(x), partial, n));
  RUNS_CLEANLY(
      device.launch("partial_sum_kernel", {1}, {256}, 1024, partial, result, std::size_t{64}));
  CHECK_EQ(*result, std::accumulate(x.begin(), x.end(), 0.0));
}

TEST_CASE_TEMPLATE("softmax rows are exponentials over their sum", Arch, Sm75, Sm80, Sm90,
                   FastMath) {
  PtxDevice device("reduce", Arch::name);
  const auto x = random_floats(kRows * kCols, 2, -20, 90);  // exp would overflow unshifted
  float* y = device.empty<float>(x.size());
  RUNS_CLEANLY(device.launch("softmax_kernel", {kRows}, {128}, 0, device.upload(x), y, kCols));
  const auto largest =
      per_row(x, [](const auto& row) { return *std::max_element(row.begin(), row.end()); });
  std::vector<double> expected;
  for (int i = 0; i < kRows * kCols; ++i) expected.push_back(std::exp(x[i] - largest[i / kCols]));
  for (int r = 0; r < kRows; ++r) {
    auto* row = &expected[r * kCols];
    const double sum = std::accumulate(row, row + kCols, 0.0);
    for (int c = 0; c < kCols; ++c) row[c] /= sum;
  }
  // x - max is rounded: up to 110 * 2^-24 relative in the exponential
  SAME(device.download(y, x.size()), expected, 1e-5, 1e-30);
}

TEST_CASE_TEMPLATE("log_softmax_backward subtracts softmax times the sum of gradients", Arch, Sm75,
                   Sm80, Sm90, FastMath) {
  PtxDevice device("reduce", Arch::name);
  const auto y = random_floats(kRows * kCols, 3, -9, -5), dy = random_floats(kRows * kCols, 4);
  float* dx = device.empty<float>(y.size());
  RUNS_CLEANLY(device.launch("log_softmax_backward_kernel", {kRows}, {256}, 0, device.upload(y),
                             device.upload(dy), dx, kCols));
  const auto sums = per_row(dy, total);
  std::vector<double> expected;
  for (int i = 0; i < kRows * kCols; ++i) {
    expected.push_back(dy[i] - std::exp(y[i]) * sums[i / kCols]);
  }
  SAME(device.download(dx, y.size()), expected, 1e-6, 1e-5);
}

TEST_CASE_TEMPLATE("arg_max finds the first of equal values", Arch, Sm75, Sm80, Sm90) {
  PtxDevice device("reduce", Arch::name);
  auto x = random_floats(kRows * kCols, 5);
  x[2 * kCols + 40] = x[2 * kCols + 900] = x[2 * kCols + 41] = 7.f;
  for (int c = 0; c < kCols; ++c) x[3 * kCols + c] = -INFINITY;
  int* index = device.empty<int>(kRows);
  RUNS_CLEANLY(
      device.launch("arg_max_kernel", {2}, {32, 4}, 0, device.upload(x), index, kRows, kCols));
  SAME(device.download(index, kRows), per_row(x, [](const auto& row) {
         return static_cast<double>(std::max_element(row.begin(), row.end()) - row.begin());
       }));
}

TEST_CASE_TEMPLATE("row_statistics merges Welford's mean and variance", Arch, Sm75, Sm80, Sm90,
                   FastMath) {
  PtxDevice device("reduce", Arch::name);
  const auto x = random_floats(kRows * kCols, 6, 99, 101);  // sums of squares would cancel
  float *mean = device.empty<float>(kRows), *variance = device.empty<float>(kRows);
  RUNS_CLEANLY(device.launch("row_statistics_kernel", {kRows}, {256}, 0, device.upload(x), mean,
                             variance, kCols));
  SAME(device.download(mean, kRows), per_row(x, [](const auto& r) { return total(r) / kCols; }),
       1e-6);
  SAME(device.download(variance, kRows),
       per_row(x,
               [](const auto& row) {
                 const double m = total(row) / kCols;
                 double squares = 0;
                 for (double v : row) squares += (v - m) * (v - m);
                 return squares / kCols;
               }),
       1e-4);
}
