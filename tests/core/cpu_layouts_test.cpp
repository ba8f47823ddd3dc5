// The CPU's pointwise kernels and copies, on every layout of inputs and outputs. Whole numbers make
// every result exact, so nothing here has a tolerance.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "tests/core/cpu_arrays.h"

using namespace tandem;
using namespace tandem::test;

namespace {

const std::vector<Shape> kShapes = {
    {},     {1},      {7},      {3, 5},   {2, 3, 4, 5}, {0},       {5, 0, 2},
    {1, 6}, {700, 3}, {3, 700}, {4, 130}, {65, 33},     {2, 1000}, {2, 3, 2, 2, 1, 2, 3, 2}};

// Every pair of layouts, say of an input and the output.
template <class F>
void for_each_pair(F&& f) {
  for (const Shape& shape : kShapes) {
    for (Lie in : kLies) {
      for (Lie out : kLies) {
        CAPTURE(shape);
        CAPTURE(int(in));
        CAPTURE(int(out));
        f(shape, in, out);
      }
    }
  }
}

}  // namespace

TEST_CASE("cpu map: every layout and type gives the same numbers and writes nothing else") {
  for (DType dtype : kArithmetic) {
    CAPTURE(dtype);
    for_each_pair([&](const Shape& shape, Lie in, Lie out) {
      const auto values = whole_numbers(shape.numel(), 1);
      const Array x = lying(in, values, shape, dtype);
      Array y = garbage(shape, dtype, out);
      cpu_backend().map(map_op<Clamp>, {-2, 3}, x, y);
      REQUIRE(values_of(y) == each(values, [](double v) { return v < -2 ? -2 : v > 3 ? 3 : v; }));
      REQUIRE(gaps_are_intact(y));
    });
  }
}

TEST_CASE("cpu map: logical_not takes bool") {
  const Array x = lying(Lie::gaps, {0, 1, 1, 0}, {2, 2}, DType::boolean);
  Array y = garbage({2, 2}, DType::boolean, Lie::column_major);
  cpu_backend().map(map_op<LogicalNot>, {}, x, y);
  CHECK(values_of(y) == std::vector<double>{1, 0, 0, 1});
}

TEST_CASE("cpu map_grad: every layout, with and without a saved array") {
  for (DType dtype : {float32, float64, float16, bfloat16}) {
    CAPTURE(dtype);
    for_each_pair([&](const Shape& shape, Lie in, Lie out) {
      const auto x = whole_numbers(shape.numel(), 2), dy = whole_numbers(shape.numel(), 3);
      const Array saved = lying(in, x, shape, dtype), g = lying(out, dy, shape, dtype);
      Array dx = garbage(shape, dtype, in), negated = garbage(shape, dtype, out);
      cpu_backend().map_grad(map_op<Abs>, {}, saved, g, dx);
      cpu_backend().map_grad(map_op<Neg>, {}, Array(), g, negated);
      REQUIRE(values_of(dx) ==
              each(x, dy, [](double v, double d) { return v == 0 ? 0 : (v > 0 ? d : -d); }));
      REQUIRE(values_of(negated) == each(dy, [](double d) { return -d; }));
      REQUIRE(gaps_are_intact(dx));
    });
  }
}

TEST_CASE("cpu zip: every layout and type; a comparison gives bool") {
  for (DType dtype : kArithmetic) {
    CAPTURE(dtype);
    for_each_pair([&](const Shape& shape, Lie in, Lie out) {
      const auto p = whole_numbers(shape.numel(), 4), q = whole_numbers(shape.numel(), 5);
      const Array a = lying(in, p, shape, dtype), b = lying(out, q, shape, dtype);
      Array y = garbage(shape, dtype, out), less = garbage(shape, DType::boolean, in);
      cpu_backend().zip(zip_op<Sub>, a, b, y);
      cpu_backend().zip(zip_op<Lt>, a, b, less);
      REQUIRE(values_of(y) == each(p, q, [](double u, double v) { return u - v; }));
      REQUIRE(values_of(less) == each(p, q, [](double u, double v) { return u < v; }));
      REQUIRE(gaps_are_intact(y));
      REQUIRE(gaps_are_intact(less));
    });
  }
}

TEST_CASE("cpu zip: operands broadcast along any dimensions, by strides of zero") {
  for (const Shape& shape : {Shape{3, 5, 2, 40}, Shape{3, 300, 2, 3}}) {
    for (DType dtype : {float32, float16, int64}) {
      for (int mask = 0; mask < 16; ++mask) {  // the dimensions in which b has size 1
        CAPTURE(dtype);
        CAPTURE(mask);
        Shape small = shape;
        for (int d = 0; d < 4; ++d) {
          if (mask >> d & 1) small[d] = 1;
        }
        const auto p = whole_numbers(shape.numel(), 6), q = whole_numbers(small.numel(), 7);
        const Array a = lying(mask & 4 ? Lie::row_major : Lie::shifted, p, shape, dtype);
        const Array b = lying(mask & 1 ? Lie::gaps : Lie::row_major, q, small, dtype).expand(shape);
        Array y = garbage(shape, dtype, mask & 2 ? Lie::rotated : Lie::row_major);
        cpu_backend().zip(zip_op<Mul>, a, b, y);
        REQUIRE(values_of(y) == each(p, values_of(b), [](double u, double v) { return u * v; }));
      }
    }
  }
}

TEST_CASE("cpu zip: the result may be the first operand") {
  for (DType dtype : kArithmetic) {
    for (Lie lie : kLies) {
      const auto p = whole_numbers(70, 8), q = whole_numbers(70, 9);
      Array a = lying(lie, p, {7, 10}, dtype);
      const Array b = lying(Lie::rotated, q, {7, 10}, dtype);
      cpu_backend().zip(zip_op<Add>, a, b, a);
      CHECK(values_of(a) == each(p, q, [](double u, double v) { return u + v; }));
      CHECK(gaps_are_intact(a));
    }
  }
}

TEST_CASE("cpu zip_grad: formula, pass and negate, for either operand") {
  for (DType dtype : {float32, float64, float16, bfloat16}) {
    for_each_pair([&](const Shape& shape, Lie in, Lie out) {
      const auto p = whole_numbers(shape.numel(), 10), q = whole_numbers(shape.numel(), 11),
                 g = whole_numbers(shape.numel(), 12);
      const Array a = lying(in, p, shape, dtype), b = lying(out, q, shape, dtype),
                  dy = lying(in, g, shape, dtype);
      Array da = garbage(shape, dtype, out), db = garbage(shape, dtype, in),
            minus = garbage(shape, dtype, out), same = garbage(shape, dtype, out);
      cpu_backend().zip_grad(zip_op<Mul>, 0, Array(), b, dy, da);  // a is not needed
      cpu_backend().zip_grad(zip_op<Mul>, 1, a, Array(), dy, db);
      cpu_backend().zip_grad(zip_op<Sub>, 1, Array(), Array(), dy, minus);
      cpu_backend().zip_grad(zip_op<Sub>, 0, Array(), Array(), dy, same);
      REQUIRE(values_of(da) == each(g, q, [](double u, double v) { return u * v; }));
      REQUIRE(values_of(db) == each(g, p, [](double u, double v) { return u * v; }));
      REQUIRE(values_of(minus) == each(g, [](double v) { return -v; }));
      REQUIRE(values_of(same) == g);
    });
  }
}

TEST_CASE("cpu where: every type and layout, broadcast operands") {
  for (DType dtype : kEveryType) {
    CAPTURE(dtype);
    for_each_pair([&](const Shape& shape, Lie in, Lie out) {
      const auto positive = [](double v) { return v > 0; };
      const auto c = each(whole_numbers(shape.numel(), 13, 1), positive);
      const auto p = each(whole_numbers(shape.numel(), 14, 1), positive);
      const Array condition = lying(out, c, shape, DType::boolean), a = lying(in, p, shape, dtype);
      const Array b = lying(in, {1}, {}, dtype).expand(shape);
      Array y = garbage(shape, dtype, out);
      cpu_backend().where(condition, a, b, y);
      REQUIRE(values_of(y) == each(c, p, [](double u, double v) { return u != 0 ? v : 1; }));
      REQUIRE(gaps_are_intact(y));
    });
  }
}

TEST_CASE("cpu copy: every type, between any two layouts") {
  for (DType dtype : kEveryType) {
    CAPTURE(dtype);
    for_each_pair([&](const Shape& shape, Lie in, Lie out) {
      auto values = whole_numbers(shape.numel(), 15);
      if (dtype == uint8) values = each(values, [](double v) { return v * v; });
      if (dtype == DType::boolean) values = each(values, [](double v) { return v > 0; });
      const Array x = lying(in, values, shape, dtype);
      Array y = garbage(shape, dtype, out);
      cpu_backend().copy(x, y);
      REQUIRE(values_of(y) == values);
      REQUIRE(gaps_are_intact(y));
    });
  }
}

TEST_CASE("cpu copy: keeps every bit, NaN payloads and -0 too") {
  const std::vector<std::uint32_t> bits = {0x7fc12345u, 0x7f800001u, 0x80000000u, 0x00000001u};
  const Array x = Array::from_host(bits.data(), {2, 2}, float32, cpu(0));
  Array y = garbage({2, 2}, float32, Lie::column_major);
  cpu_backend().copy(x, y);
  CHECK(bits_equal(x, dense_copy(y)));
}

TEST_CASE("cpu cast: between all types, any layouts") {
  for (DType from : kEveryType) {
    for (DType to : kEveryType) {
      CAPTURE(from);
      CAPTURE(to);
      for (Lie in : kLies) {
        for (Lie out : kLies) {
          auto values = each(whole_numbers(60, 16), [](double v) { return std::abs(v); });
          if (from == DType::boolean) values = each(values, [](double v) { return v > 2; });
          const Array x = lying(in, values, {3, 4, 5}, from);
          Array y = garbage({3, 4, 5}, to, out);
          cpu_backend().cast(x, y);
          if (to == DType::boolean) values = each(values, [](double v) { return v != 0; });
          REQUIRE(values_of(y) == values);
          REQUIRE(gaps_are_intact(y));
        }
      }
    }
  }
}

TEST_CASE("cpu cast: floats truncate; what does not fit saturates; NaN is 0, and true as a bool") {
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> values = {2.9, -2.9, 1e30, -1e30, inf, -inf, std::nan(""), 0.25};
  for (DType from : {float64, float32, bfloat16}) {
    CAPTURE(from);
    const auto cast_to = [&](DType dtype) {
      Array y = garbage({8}, dtype);
      cpu_backend().cast(lying(Lie::row_major, values, {8}, from), y);
      return values_of(y);
    };
    const double high = 2147483647, low = -2147483648.0;
    CHECK(cast_to(int32) == std::vector<double>{2, -2, high, low, high, low, 0, 0});
    CHECK(cast_to(uint8) == std::vector<double>{2, 0, 255, 0, 255, 0, 0, 0});
    // The largest int64, 2^63 - 1, reads as 2^63 in a double.
    CHECK(cast_to(int64) == std::vector<double>{2, -2, 0x1p63, -0x1p63, 0x1p63, -0x1p63, 0, 0});
    CHECK(cast_to(DType::boolean) == std::vector<double>(8, 1.0));
  }
}

TEST_CASE("cpu cast: the first number that does not fit saturates") {
  const auto cast_one = [](double value, DType dtype) {
    Array y = garbage({1}, dtype);
    cpu_backend().cast(array_of({value}, {1}, float32), y);
    return values_of(y)[0];
  };
  CHECK(cast_one(256, uint8) == 255);
  CHECK(cast_one(0x1p31, int32) == 2147483647);
  CHECK(cast_one(0x1p63, int64) == 0x1p63);
}

TEST_CASE("cpu cast: to 16 bits rounds to nearest even, from any place in the array") {
  for (DType dtype : {float16, bfloat16}) {
    auto values = random_doubles(4001, 17, -70000, 70000);
    const auto small = random_doubles(4000, 18, -1e-7, 1e-7);  // subnormal in float16
    values.insert(values.end(), small.begin(), small.end());
    for (double& v : values) v = stored_as(float32, v);
    Array y = garbage({8001}, dtype);
    cpu_backend().cast(lying(Lie::row_major, values, {8001}), y);
    CHECK(values_of(y) == each(values, [dtype](double v) { return stored_as(dtype, v); }));
    Array back = garbage({8001}, float32);
    cpu_backend().cast(y, back);
    CHECK(values_of(back) == values_of(y));
  }
}

TEST_CASE("cpu fill: every type and layout") {
  for (DType dtype : kEveryType) {
    for (const Shape& shape : kShapes) {
      for (Lie lie : kLies) {
        Array y = garbage(shape, dtype, lie);
        cpu_backend().fill(y, 1);
        REQUIRE(values_of(y) == std::vector<double>(std::size_t(shape.numel()), 1.0));
        REQUIRE(gaps_are_intact(y));
      }
    }
  }
}

TEST_CASE("cpu memory: blocks are aligned; an impossible request gives null") {
  Backend& b = cpu_backend();
  for (std::size_t bytes : {std::size_t(1), std::size_t(100), std::size_t(1) << 20}) {
    void* p = b.raw_allocate(bytes);
    REQUIRE(p != nullptr);
    CHECK(reinterpret_cast<std::uintptr_t>(p) % 64 == 0);
    b.raw_free(p);
  }
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  CHECK(b.raw_allocate(std::size_t(1) << 60) == nullptr);
#endif
}
