// Kernels that move values: the reference is the index arithmetic, written as plain loops.
#include "kernels/test_support.h"

using namespace cudasim::ptx;

TEST_CASE_TEMPLATE("transpose turns tiles in shared memory, edges included", Arch, Sm75, Sm80,
                   Sm90) {
  PtxDevice device("indexing", Arch::name);
  const int rows = 37, cols = 53;
  const auto x = random_floats(rows * cols, 1);
  float* y = device.empty<float>(x.size());
  RUNS_CLEANLY(
      device.launch("transpose_kernel", {4, 3}, {16, 16}, 0, device.upload(x), y, rows, cols));
  std::vector<float> expected;
  for (int c = 0; c < cols; ++c)
    for (int r = 0; r < rows; ++r) expected.push_back(x[r * cols + c]);
  SAME(device.download(y, x.size()), expected);
}

TEST_CASE_TEMPLATE("strided_copy reads permuted and reversed axes", Arch, Sm75, Sm80, Sm90) {
  struct Strided {
    int size[3];
    long long stride[3];
  };
  PtxDevice device("indexing", Arch::name);
  // x is (4, 5, 6); y[i, j, k] = x[k, 4 - j, i]
  const Strided shape = {{6, 5, 4}, {1, -6, 30}};
  const auto x = random_floats(120, 2);
  float *source = device.upload(x), *y = device.empty<float>(120);
  RUNS_CLEANLY(device.launch("strided_copy_kernel", {1}, {64}, 0, source + 4 * 6, y, shape));
  std::vector<float> expected;
  for (int i = 0; i < 6; ++i)
    for (int j = 0; j < 5; ++j)
      for (int k = 0; k < 4; ++k) expected.push_back(x[k * 30 + (4 - j) * 6 + i]);
  SAME(device.download(y, 120), expected);
}

TEST_CASE_TEMPLATE("histogram counts with atomics in shared and global memory", Arch, Sm75, Sm80,
                   Sm90) {
  PtxDevice device("indexing", Arch::name);
  const std::size_t n = 4321;
  std::vector<std::uint8_t> x;
  std::vector<unsigned> expected(256, 10);
  for (float v : random_floats(n, 3, 0, 200)) {
    x.push_back(static_cast<std::uint8_t>(v));
    ++expected[x.back()];
  }
  unsigned* bins = device.upload(std::vector<unsigned>(256, 10));
  RUNS_CLEANLY(device.launch("histogram_kernel", {3}, {128}, 0, device.upload(x), bins, n));
  SAME(device.download(bins, 256), expected);
}

TEST_CASE_TEMPLATE("gather_rows copies rows, a negative index gives zeros", Arch, Sm75, Sm80,
                   Sm90) {
  PtxDevice device("indexing", Arch::name);
  const int rows = 9, cols = 70;
  const auto table = random_floats(rows * cols, 4);
  const std::vector<int> index = {3, 8, -1, 0, 3};
  float* y = device.empty<float>(index.size() * cols);
  RUNS_CLEANLY(device.launch("gather_rows_kernel", {5}, {64}, 0, device.upload(table),
                             device.upload(index), y, cols));
  std::vector<float> expected;
  for (int from : index)
    for (int c = 0; c < cols; ++c) expected.push_back(from < 0 ? 0.f : table[from * cols + c]);
  SAME(device.download(y, expected.size()), expected);
}

TEST_CASE_TEMPLATE("scatter_add_rows adds in the order of the indices, without atomics", Arch, Sm75,
                   Sm80, Sm90) {
  PtxDevice device("indexing", Arch::name);
  const int rows = 6, cols = 40;
  const std::vector<int> index = {3, 5, 3, 0, 3, 5};
  const auto y = random_floats(index.size() * cols, 5);
  auto expected = random_floats(rows * cols, 6);
  float* table = device.upload(expected);
  RUNS_CLEANLY(device.launch("scatter_add_rows_kernel", {6}, {64}, 0, device.upload(y),
                             device.upload(index), table, static_cast<int>(index.size()), cols));
  for (std::size_t i = 0; i < index.size(); ++i)
    for (int c = 0; c < cols; ++c) expected[index[i] * cols + c] += y[i * cols + c];
  SAME(device.download(table, expected.size()), expected);
}
