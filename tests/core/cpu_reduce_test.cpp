// The CPU's reductions: any dimensions of any layout against plain loops, how exact long sums are,
// and that the order of additions depends on the shape only.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "tests/core/cpu_arrays.h"

using namespace tandem;
using namespace tandem::test;

namespace {

// Reduces the dimensions in `mask`, one value at a time.
std::vector<double> reduced(ReduceOp op, const std::vector<double>& x, const Shape& shape, int mask,
                            Shape& result) {
  result = shape;
  for (int d = 0; d < shape.dim(); ++d) {
    if (mask >> d & 1) result[d] = 1;
  }
  const bool largest = op == reduce_op<MaxRule>, smallest = op == reduce_op<MinRule>;
  const double inf = std::numeric_limits<double>::infinity();
  std::vector<double> y(std::size_t(result.numel()), largest ? -inf : (smallest ? inf : 0));
  for (std::size_t i = 0; i < x.size(); ++i) {
    std::int64_t rest = std::int64_t(i), at = 0, step = 1;
    for (int d = shape.dim() - 1; d >= 0; --d) {
      if (result[d] == shape[d]) at += rest % shape[d] * step;
      step *= result[d];
      rest /= shape[d];
    }
    double& v = y[std::size_t(at)];
    if (op == reduce_op<SumRule>) v += x[i];
    if (op == reduce_op<SumOfSquaresRule>) v += x[i] * x[i];
    if (largest) v = std::max(v, x[i]);
    if (smallest) v = std::min(v, x[i]);
  }
  return y;
}

double sum_of(const Array& x) {
  Array y = garbage(Shape::filled(x.dim(), 1), x.dtype());
  cpu_backend().reduce(reduce_op<SumRule>, x, y);
  return values_of(y)[0];
}

}  // namespace

TEST_CASE("cpu reduce: any dimensions of any layout, every op and type") {
  const Shape shapes[] = {{},       {1},       {70},         {3, 5},        {600, 3},
                          {3, 600}, {40, 300}, {2, 3, 4, 5}, {2, 1, 40, 1}, {2, 2, 2, 2, 2, 2}};
  for (const Shape& shape : shapes) {
    for (DType dtype : kArithmetic) {
      for (Lie lie : kLies) {
        const auto values = whole_numbers(shape.numel(), 31, 1);  // sums are exact in 16 bits too
        const Array x = lying(lie, values, shape, dtype);
        for (int mask = 0; mask < 1 << shape.dim(); ++mask) {
          for (ReduceOp op : {reduce_op<SumRule>, reduce_op<SumOfSquaresRule>, reduce_op<MaxRule>,
                              reduce_op<MinRule>}) {
            CAPTURE(shape);
            CAPTURE(dtype);
            CAPTURE(int(lie));
            CAPTURE(mask);
            CAPTURE(int(op));
            Shape result;
            auto expected = reduced(op, values, shape, mask, result);
            for (double& v : expected) v = stored_as(dtype, v);
            Array y = garbage(result, dtype);
            cpu_backend().reduce(op, x, y);
            REQUIRE(values_of(y) == expected);
          }
        }
      }
    }
  }
}

TEST_CASE("cpu reduce: an output with gaps or in another order, a stretched input") {
  const Shape shape{4, 3, 5, 6};
  const auto values = whole_numbers(4 * 3 * 5, 32);
  const Array x = lying(Lie::rotated, values, {4, 3, 5, 1}).expand(shape);
  for (Lie lie : kLies) {
    for (int mask = 0; mask < 16; ++mask) {
      Shape result;
      const auto expected = reduced(reduce_op<SumRule>, values_of(x), shape, mask, result);
      Array y = garbage(result, float32, lie);
      cpu_backend().reduce(reduce_op<SumRule>, x, y);
      REQUIRE(values_of(y) == expected);
      REQUIRE(gaps_are_intact(y));
    }
  }
}

TEST_CASE("cpu reduce: the sum of nothing is 0") {
  for (DType dtype : kArithmetic) {
    Array y = garbage({3, 1}, dtype), none = garbage({1, 0}, dtype);
    cpu_backend().reduce(reduce_op<SumRule>, garbage({3, 0}, dtype), y);
    CHECK(values_of(y) == std::vector<double>{0, 0, 0});
    cpu_backend().reduce(reduce_op<SumRule>, garbage({3, 0}, dtype), none);
  }
}

// One accumulator would lose 0.1 / 2^-24 relative to a sum of 10^5: errors of 1e-3 and more.
TEST_CASE("cpu reduce: long float32 sums are exact to about a unit of the last place") {
  for (std::int64_t n : {std::int64_t(1000), std::int64_t(1000003), std::int64_t(1) << 22}) {
    const auto values =
        each(random_doubles(n, 33, 0, 1), [](double v) { return stored_as(float32, v); });
    const double expected = std::accumulate(values.begin(), values.end(), 0.0);
    CHECK(close(sum_of(array_of(values, {n})), expected, {3e-7, 0}));
    if (n % 4 == 0) {  // columns: four sums side by side
      const Array x = array_of(values, {n / 4, 4});
      Array y = garbage({1, 4}, float32);
      cpu_backend().reduce(reduce_op<SumRule>, x, y);
      std::vector<double> columns(4, 0.0);
      for (std::size_t i = 0; i < values.size(); ++i) columns[i % 4] += values[i];
      CHECK(close(values_of(y), columns, {3e-7, 0}));
    }
  }
}

TEST_CASE("cpu reduce: 16-bit sums are kept in float32") {
  for (DType dtype : {float16, bfloat16}) {
    const std::vector<double> ones(60000, 1.0);  // in 16 bits the sum would stop at 2048 or 256
    CHECK(sum_of(array_of(ones, {60000}, dtype)) == stored_as(dtype, 60000));
    CHECK(sum_of(array_of(ones, {60000, 1}, dtype)) == stored_as(dtype, 60000));
  }
}

TEST_CASE("cpu reduce: bits depend on values and shape, not on where they lie") {
  for (const Shape& shape : {Shape{7, 530}, Shape{530, 7}}) {
    const auto values = random_doubles(shape.numel(), 34);
    for (int dim : {0, 1}) {
      Shape result = shape;
      result[dim] = 1;
      Array first = garbage(result, float32), second = garbage(result, float32);
      cpu_backend().reduce(reduce_op<SumRule>, lying(Lie::row_major, values, shape), first);
      cpu_backend().reduce(reduce_op<SumRule>, lying(Lie::shifted, values, shape), second);
      CHECK(bits_equal(first, second));
    }
  }
}

TEST_CASE("cpu reduce: Inf and NaN get through; max and min prefer NaN") {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  for (std::int64_t n : {5, 40, 700}) {
    for (std::int64_t at = 0; at < n; at += 3) {
      std::vector<double> values(std::size_t(n), 1.0);
      values[std::size_t(at)] = nan;
      for (const Shape& shape : {Shape{n, 1}, Shape{1, n}}) {
        const Array x = array_of(values, shape);
        for (ReduceOp op : {reduce_op<SumRule>, reduce_op<MaxRule>, reduce_op<MinRule>}) {
          Array y = garbage({1, 1}, float32);
          put(y, {0});
          cpu_backend().reduce(op, x, y);
          REQUIRE(std::isnan(values_of(y)[0]));
        }
      }
    }
  }
  CHECK(sum_of(array_of({1, inf, 2}, {3})) == inf);
  CHECK(std::isnan(sum_of(array_of({-inf, inf, 2}, {3}))));
  Array y = garbage({1}, float32);
  cpu_backend().reduce(reduce_op<MaxRule>, array_of({-inf, -inf}, {2}), y);
  CHECK(values_of(y)[0] == -inf);
}

TEST_CASE("cpu arg_reduce: the first of equal ones, along any dimension of any layout") {
  const Shape shape{4, 7, 5};
  for (DType dtype : kArithmetic) {
    for (Lie lie : kLies) {
      const auto values = whole_numbers(shape.numel(), 35, 2);  // many ties
      const Array x = lying(lie, values, shape, dtype);
      for (int dim = 0; dim < 3; ++dim) {
        for (bool largest : {true, false}) {
          Shape result = shape;
          result[dim] = 1;
          std::int64_t inner = 1;
          for (int d = dim + 1; d < 3; ++d) inner *= shape[d];
          std::vector<double> expected;
          for (std::int64_t i = 0; i < result.numel(); ++i) {
            const std::int64_t first = i / inner * inner * shape[dim] + i % inner;
            std::int64_t best = 0;
            for (std::int64_t k = 1; k < shape[dim]; ++k) {
              const double v = values[std::size_t(first + k * inner)];
              const double b = values[std::size_t(first + best * inner)];
              if (largest ? v > b : v < b) best = k;
            }
            expected.push_back(double(best));
          }
          Array y = garbage(result, int64, lie);
          cpu_backend().arg_reduce(largest, x, dim, y);
          REQUIRE(values_of(y) == expected);
        }
      }
    }
  }
}

TEST_CASE("cpu arg_reduce: the first NaN wins") {
  const double nan = std::nan("");
  Array y = garbage({1}, int64);
  for (bool largest : {true, false}) {
    cpu_backend().arg_reduce(largest, array_of({1, nan, 5, nan, -5}, {5}), 0, y);
    CHECK(values_of(y)[0] == 1);
    cpu_backend().arg_reduce(largest, array_of({nan, 7, -7}, {3}), 0, y);
    CHECK(values_of(y)[0] == 0);
  }
}
