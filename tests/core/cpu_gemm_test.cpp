// The CPU's matrix products against plain loops: every shape of operand, exact on whole numbers.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "tests/core/cpu_arrays.h"

#include <tandem/core/numerics.h>

using namespace tandem;
using namespace tandem::test;

namespace {

struct Sizes {
  std::int64_t b, m, k, n;
};

std::vector<double> product(const std::vector<double>& a, const std::vector<double>& b, Sizes s) {
  std::vector<double> c(std::size_t(s.b * s.m * s.n), 0.0);
  for (std::int64_t i = 0; i < s.b * s.m; ++i) {
    for (std::int64_t j = 0; j < s.n; ++j) {
      for (std::int64_t l = 0; l < s.k; ++l) {
        c[std::size_t(i * s.n + j)] +=
            a[std::size_t(i * s.k + l)] * b[std::size_t((i / s.m * s.k + l) * s.n + j)];
      }
    }
  }
  return c;
}

// (B, rows, columns) whose rows or columns are dense, at a distance, or neither.
enum class Matrix { rows, transposed, wide_rows, wide_transposed, gaps, shared };
constexpr Matrix kMatrices[] = {Matrix::rows,      Matrix::transposed,
                                Matrix::wide_rows, Matrix::wide_transposed,
                                Matrix::gaps,      Matrix::shared};

Array matrix(Matrix kind, const std::vector<double>& values, std::int64_t b, std::int64_t rows,
             std::int64_t columns, DType dtype) {
  const Shape shape{b, rows, columns};
  Array a;
  switch (kind) {
    case Matrix::rows:
      return lying(Lie::row_major, values, shape, dtype);
    case Matrix::transposed:
      a = garbage({b, columns, rows}, dtype).transpose(1, 2);
      break;
    case Matrix::wide_rows:
      a = garbage({b, rows + 2, columns + 3}, dtype).narrow(1, 1, rows).narrow(2, 2, columns);
      break;
    case Matrix::wide_transposed:
      a = garbage({b, columns + 1, rows + 3}, dtype).transpose(1, 2);
      a = a.narrow(1, 1, rows).narrow(2, 1, columns);
      break;
    case Matrix::gaps:
      return lying(Lie::gaps, values, shape, dtype);
    case Matrix::shared: {  // one matrix for the whole batch
      const auto n = std::size_t(rows * columns);
      const std::vector<double> one(values.begin(), values.begin() + std::int64_t(n));
      return lying(Lie::row_major, one, {1, rows, columns}, dtype).expand(shape);
    }
  }
  put(a, values);
  return a;
}

}  // namespace

TEST_CASE("cpu gemm: every layout of both operands, every type, with and without accumulation") {
  const Sizes sizes[] = {{1, 1, 1, 1},  {2, 3, 5, 7},    {1, 1, 9, 4},   {1, 4, 9, 1},
                         {3, 17, 1, 5}, {1, 33, 40, 29}, {2, 8, 130, 3}, {1, 70, 3, 65}};
  for (const Sizes& s : sizes) {
    const auto p = whole_numbers(s.b * s.m * s.k, 41, 2), q = whole_numbers(s.b * s.k * s.n, 42, 2),
               before = whole_numbers(s.b * s.m * s.n, 43, 2);
    for (DType dtype : kArithmetic) {
      for (Matrix ka : kMatrices) {
        for (Matrix kb : kMatrices) {
          CAPTURE(s.m);
          CAPTURE(s.k);
          CAPTURE(s.n);
          CAPTURE(dtype);
          CAPTURE(int(ka));
          CAPTURE(int(kb));
          const Array a = matrix(ka, p, s.b, s.m, s.k, dtype);
          const Array b = matrix(kb, q, s.b, s.k, s.n, dtype);
          auto expected = product(values_of(a), values_of(b), s);
          Array c = garbage({s.b, s.m, s.n}, dtype);
          cpu_backend().gemm(a, b, c, false);
          const auto rounded = [&](double v) { return stored_as(dtype, v); };
          REQUIRE(values_of(c) == each(expected, rounded));
          put(c, before);
          cpu_backend().gemm(a, b, c, true);
          REQUIRE(values_of(c) ==
                  each(expected, before, [&](double u, double v) { return rounded(u + v); }));
        }
      }
    }
  }
}

// Sizes at and beside the borders of tiles (6 x 16) and of blocks (1024) of panels.h; and left
// operands that lie by columns of 256 and 512 numbers, which are copied for oneDNN.
TEST_CASE("cpu gemm: few rows with many, and columns that share sets of the cache") {
  struct Case {
    Sizes s;
    std::vector<Matrix> left, right;
  };
  const std::vector<Matrix> rows{Matrix::rows, Matrix::wide_rows},
      columns{Matrix::transposed, Matrix::wide_transposed};
  for (const auto& [s, left, right] :
       {Case{{1, 16, 512, 48}, rows, columns}, Case{{1, 16, 1031, 50}, rows, columns},
        Case{{1, 101, 2100, 30}, rows, columns}, Case{{2, 46, 517, 139}, rows, columns},
        Case{{1, 139, 1024, 46}, rows, columns}, Case{{1, 256, 70, 64}, columns, rows},
        Case{{2, 253, 40, 80}, columns, rows}, Case{{1, 512, 33, 130}, columns, rows}}) {
    const auto p = whole_numbers(s.b * s.m * s.k, 41, 2), q = whole_numbers(s.b * s.k * s.n, 42, 2),
               before = whole_numbers(s.b * s.m * s.n, 43, 2);
    const auto expected = product(p, q, s);
    for (Matrix ka : left) {
      for (Matrix kb : right) {
        CAPTURE(s.m);
        CAPTURE(s.k);
        CAPTURE(s.n);
        CAPTURE(int(ka));
        CAPTURE(int(kb));
        const Array a = matrix(ka, p, s.b, s.m, s.k, float32);
        const Array b = matrix(kb, q, s.b, s.k, s.n, float32);
        Array c = garbage({s.b, s.m, s.n}, float32);
        cpu_backend().gemm(a, b, c, false);
        REQUIRE(values_of(c) == expected);
        put(c, before);
        cpu_backend().gemm(a, b, c, true);
        REQUIRE(values_of(c) == each(expected, before, std::plus<>()));
      }
    }
  }
}

#if defined(__AVX2__) && defined(__FMA__) && !defined(__AVX512F__)
TEST_CASE("cpu gemm: few rows with many are summed in order, one rounding for each product") {
  const bool before = onednn();
  if (onednn_available()) set_onednn(false);  // with longer registers it would be quicker
  for (const bool turned : {false, true}) {
    const std::int64_t m = turned ? 31 : 100, n = turned ? 100 : 31, k = 1500;
    const Array a = matrix(Matrix::rows, random_doubles(m * k, 1), 1, m, k, float32);
    const Array b = matrix(Matrix::transposed, random_doubles(k * n, 2), 1, k, n, float32);
    const auto p = values_of(a), q = values_of(b);
    std::vector<double> expected;
    for (std::int64_t i = 0; i < m; ++i) {
      for (std::int64_t j = 0; j < n; ++j) {
        float sum = 0;
        for (std::int64_t l = 0; l < k; ++l) {
          sum = std::fma(float(p[std::size_t(i * k + l)]), float(q[std::size_t(l * n + j)]), sum);
        }
        expected.push_back(sum);
      }
    }
    Array c = garbage({1, m, n}, float32);
    cpu_backend().gemm(a, b, c, false);
    CHECK(values_of(c) == expected);
  }
  if (onednn_available()) set_onednn(before);
}
#endif

TEST_CASE("cpu gemm: sizes of 0; a sum of no products is 0") {
  for (DType dtype : kArithmetic) {
    for (const Sizes& s :
         {Sizes{1, 0, 3, 2}, Sizes{1, 2, 3, 0}, Sizes{0, 2, 3, 2}, Sizes{2, 2, 0, 3}}) {
      const Array a = garbage({s.b, s.m, s.k}, dtype), b = garbage({s.b, s.k, s.n}, dtype);
      Array c = garbage({s.b, s.m, s.n}, dtype);
      cpu_backend().gemm(a, b, c, false);
      CHECK(values_of(c) == std::vector<double>(std::size_t(c.numel()), 0.0));
      cpu_backend().fill(c, 3);
      cpu_backend().gemm(a, b, c, true);
      CHECK(values_of(c) == std::vector<double>(std::size_t(c.numel()), 3.0));
    }
  }
}

TEST_CASE("cpu gemm: 16-bit products are added in float32 and rounded once") {
  for (DType dtype : {float16, bfloat16}) {
    const std::int64_t k = 4096;
    const Array a = array_of(std::vector<double>(std::size_t(k), 1.0), {1, 1, k}, dtype);
    Array c = garbage({1, 1, 1}, dtype);
    cpu_backend().gemm(a, a.transpose(1, 2), c, false);
    CHECK(values_of(c)[0] == 4096);
  }
}

// Sums of k rounded products: an error of about sqrt(k) units of the size of the terms.
TEST_CASE("cpu gemm: random numbers agree with float64") {
  const Sizes s{1, 65, 300, 40};
  const Array a = array_of(random_doubles(65 * 300, 44), {1, 65, 300});
  const Array b = array_of(random_doubles(300 * 40, 45), {1, 300, 40});
  Array c = garbage({1, 65, 40}, float32), d = garbage({1, 65, 40}, float64);
  cpu_backend().gemm(a, b, c, false);
  cpu_backend().gemm(a.to(float64), b.to(float64), d, false);
  const auto expected = product(values_of(a), values_of(b), s);
  CHECK(close(values_of(c), expected, {1e-5, 1e-5}));
  CHECK(close(values_of(d), expected, {1e-13, 1e-13}));
}

TEST_CASE("cpu gemm: Inf and NaN get through, also in what is multiplied by 0") {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  const Array a = array_of({1, 0, 0, 1}, {1, 2, 2}), b = array_of({inf, 1, nan, 2}, {1, 2, 2});
  Array c = garbage({1, 2, 2}, float32);
  put(c, {0, 0, 0, 0});
  cpu_backend().gemm(a, b, c, false);
  CHECK(close(values_of(c), {nan, 1, nan, 2}));  // 0 inf is NaN
}

TEST_CASE("cpu gemm: bits depend on the operands, not on where they lie") {
  for (const Sizes& s : {Sizes{1, 3, 5, 7}, Sizes{1, 1, 37, 9}, Sizes{1, 1, 37, 1},
                         Sizes{1, 9, 37, 1}, Sizes{1, 20, 33, 18}, Sizes{1, 5, 4, 3}}) {
    CAPTURE(s.m);
    const auto p = random_doubles(s.m * s.k, 46), q = random_doubles(s.k * s.n, 47);
    const auto run = [&](std::int64_t shift) {
      const auto at = [&](const Shape& shape) {
        Array block = garbage({shape.numel() + shift}, float32);
        return block.as_strided(shape, contiguous_strides(shape), shift);
      };
      Array a = at({1, s.m, s.k}), b = at({1, s.k, s.n}), c = at({1, s.m, s.n});
      put(a, p);
      put(b, q);
      cpu_backend().gemm(a, b, c, false);
      return dense_copy(c);
    };
    const Array first = run(0);
    for (std::int64_t shift = 1; shift < 8; ++shift) CHECK(bits_equal(first, run(shift)));
  }
}
