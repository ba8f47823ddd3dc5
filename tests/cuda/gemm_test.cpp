// Matrix products on the GPU against sums in float64.
#include <doctest/doctest.h>

#include "runtime/cudasim.h"
#include "tests/support/check.h"

#include <tandem/core/array_ops.h>
#include <tandem/core/backend.h>
#include <tandem/core/numerics.h>

using namespace tandem;
using namespace tandem::test;

namespace {

// (B, M, K) and (B, K, N) of values that every type holds exactly.
std::vector<double> small_numbers(std::int64_t n, std::uint64_t seed) {
  std::vector<double> v = random_doubles(n, seed, -8, 8);
  for (double& x : v) x = double(int(x));
  return v;
}

struct Sizes {
  std::int64_t b, m, k, n;
};

std::vector<double> product(const Sizes& s, const std::vector<double>& a,
                            const std::vector<double>& b) {
  std::vector<double> c(std::size_t(s.b * s.m * s.n), 0.0);
  for (std::int64_t i = 0; i < s.b * s.m; ++i) {
    for (std::int64_t j = 0; j < s.n; ++j) {
      for (std::int64_t k = 0; k < s.k; ++k) {
        c[std::size_t(i * s.n + j)] +=
            a[std::size_t(i * s.k + k)] * b[std::size_t((i / s.m * s.k + k) * s.n + j)];
      }
    }
  }
  return c;
}

// The same values with the last two dimensions swapped in memory.
Array turned(const std::vector<double>& values, const Shape& shape, DType dtype) {
  std::vector<double> swapped(values.size());
  const std::int64_t rows = shape[1], columns = shape[2];
  for (std::int64_t i = 0; i < shape.numel(); ++i) {
    const std::int64_t matrix = i / (rows * columns), r = i / columns % rows, c = i % columns;
    swapped[std::size_t((matrix * columns + c) * rows + r)] = values[std::size_t(i)];
  }
  return array_of(swapped, {shape[0], columns, rows}, dtype).to(cuda(0)).transpose(1, 2);
}

}  // namespace

TEST_CASE("gemm: products of all sizes, turned or not, in every type, are exact on whole numbers") {
  const std::vector<Sizes> all = {{1, 1, 1, 1}, {1, 3, 4, 5}, {1, 1, 7, 3},  {1, 5, 6, 1},
                                  {3, 4, 2, 6}, {2, 1, 5, 1}, {4, 9, 33, 17}};
  for (const DType dtype : {float32, float16, bfloat16, int64}) {
    for (const Sizes& s : all) {
      const Shape a_shape = {s.b, s.m, s.k}, b_shape = {s.b, s.k, s.n};
      const std::vector<double> a = small_numbers(a_shape.numel(), 1),
                                b = small_numbers(b_shape.numel(), 2);
      std::vector<double> expected = product(s, a, b);
      for (double& x : expected) x = stored_as(dtype, x);
      for (const bool turn_a : {false, true}) {
        for (const bool turn_b : {false, true}) {
          CAPTURE(dtype);
          CAPTURE(a_shape);
          CAPTURE(b_shape);
          CAPTURE(turn_a);
          CAPTURE(turn_b);
          const Array left =
              turn_a ? turned(a, a_shape, dtype) : array_of(a, a_shape, dtype, cuda(0));
          const Array right =
              turn_b ? turned(b, b_shape, dtype) : array_of(b, b_shape, dtype, cuda(0));
          CHECK(doubles(gemm(left, right)) == expected);
        }
      }
    }
  }
}

TEST_CASE("gemm: adds to what is there, rounded once") {
  const Sizes s = {2, 3, 4, 5};
  const std::vector<double> a = small_numbers(24, 3), b = small_numbers(40, 4),
                            start = small_numbers(30, 5);
  for (const DType dtype : {float32, bfloat16, int64}) {
    Array c = array_of(start, {2, 3, 5}, dtype, cuda(0));
    gemm_accumulate(array_of(a, {2, 3, 4}, dtype, cuda(0)), array_of(b, {2, 4, 5}, dtype, cuda(0)),
                    c);
    std::vector<double> expected = product(s, a, b);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      expected[i] = stored_as(dtype, expected[i] + start[i]);
    }
    CHECK(doubles(c) == expected);
  }
}

TEST_CASE("gemm: float32 is rounded to TF32 only if that is allowed") {
  const double x = 1 + 0x1p-20;  // TF32 keeps 10 bits
  const Array a = array_of({x}, {1, 1, 1}, float32, cuda(0));
  const Array one = array_of({1}, {1, 1, 1}, float32, cuda(0));
  CHECK(doubles(gemm(a, one)) == std::vector<double>{x});
  set_allow_tf32(true);
  CHECK(doubles(gemm(a, one)) == std::vector<double>{1});
  set_allow_tf32(false);
}

TEST_CASE("gemm: a matrix that is repeated by a stride of zero") {
  const Array a = array_of(small_numbers(6, 6), {1, 2, 3}, float32, cuda(0)).expand({4, 2, 3});
  const Array b = array_of(small_numbers(48, 7), {4, 3, 4}, float32, cuda(0));
  std::vector<double> repeated;
  for (int i = 0; i < 4; ++i) {
    for (const double v : small_numbers(6, 6)) repeated.push_back(v);
  }
  CHECK(doubles(gemm(a, b)) == product({4, 2, 3, 4}, repeated, small_numbers(48, 7)));
}

TEST_CASE("gemm: nothing to multiply") {
  const Array none = Array::empty({1, 0, 3}, float32, cuda(0));
  CHECK(gemm(none, Array::empty({1, 3, 4}, float32, cuda(0))).numel() == 0);
}

TEST_CASE("gemm: float64 is refused in words") {
  const Array a = array_of({1, 2, 3, 4}, {2, 2}, float64, cuda(0));
  CHECK(throws<UsageError>([&] { gemm(a, a); }, {"[matmul]", "float64", "cuda:0", "float32"}));
}

TEST_CASE("gemm: the order of additions is the same on every device") {
  const Sizes s = {1, 20, 50, 20};
  const Array a = array_of(random_doubles(1000, 8), {1, 20, 50}, float32, cuda(0));
  const Array b = array_of(random_doubles(1000, 9), {1, 50, 20}, float32, cuda(0));
  const Array c = gemm(a, b);
  CHECK(close(Tensor(c), product(s, doubles(a), doubles(b)), {1e-5, 1e-5}));
  CHECK(bits_equal(gemm(a.to(cuda(1)), b.to(cuda(1))), c));
}

// Strides of a size of 1 are anything; cut to 32 bits these would be 2.
TEST_CASE("gemm: a view of one row may have any stride between rows") {
  const std::int64_t huge = (std::int64_t(1) << 32) + 2;
  const Array row =
      array_of({1, 2, 3}, {3}, float32, cuda(0)).as_strided({1, 1, 3}, {huge, huge, 1}, 0);
  const Array matrix = array_of({1, 2, 3, 4, 5, 6}, {1, 3, 2}, float32, cuda(0));
  CHECK(doubles(gemm(row, matrix)) == std::vector<double>{22, 28});
  const Array column = row.transpose(1, 2);
  CHECK(doubles(gemm(column, row)) == std::vector<double>{1, 2, 3, 2, 4, 6, 3, 6, 9});
}
