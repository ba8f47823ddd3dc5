// Copies, casts and fills on a GPU: every type and layout, compared with the host's own reading of
// the same memory, and casts with the CPU's.
#include <doctest/doctest.h>

#include "tests/cuda/arrays.h"

using namespace tandem;
using namespace tandem::test;

namespace {

std::vector<double> small_numbers(std::int64_t n) {
  return each(whole_numbers(n, 9), [](double v) { return std::fabs(v); });
}

void check_copy(const Array& x, Array y) {
  y = on_gpu(y);
  cuda_backend().copy(on_gpu(x), y);
  CHECK(same_bits(y, x));
}

}  // namespace

TEST_CASE("copy: every type, from any layout to any other") {
  const Shape shape{3, 5, 2, 9};
  for (DType dtype : kEveryType) {
    for (Lie from : kLies) {
      for (Lie to : kLies) {
        CAPTURE(dtype);
        CAPTURE(int(from));
        CAPTURE(int(to));
        check_copy(lying(from, small_numbers(shape.numel()), shape, dtype),
                   garbage(shape, dtype, to));
      }
    }
  }
  CHECK(cudasim::violations().empty());
}

TEST_CASE("copy: transpositions of every size around a square, of one plane and of many") {
  for (DType dtype : {uint8, float16, float32, int64}) {
    for (Shape shape : {Shape{8, 8}, {31, 33}, {32, 64}, {100, 9}, {7, 50}, {2, 40, 33}}) {
      CAPTURE(dtype);
      CAPTURE(shape);
      const auto values = small_numbers(shape.numel());
      const Array x = lying(Lie::row_major, values, shape, dtype);
      const Array turned = x.transpose(shape.dim() - 1, shape.dim() - 2);
      check_copy(turned, garbage(turned.shape(), dtype));
      check_copy(x, garbage(shape, dtype, Lie::column_major));
    }
  }
}

TEST_CASE("copy: row-major to channels-last and back") {
  for (Shape shape : {Shape{2, 16, 5, 7}, {1, 3, 20, 20}, {3, 33, 1, 40}}) {
    CAPTURE(shape);
    const auto values = random_doubles(shape.numel(), 1);
    check_copy(lying(Lie::row_major, values, shape), garbage(shape, float32, Lie::rotated));
    check_copy(lying(Lie::rotated, values, shape), garbage(shape, float32));
  }
}

TEST_CASE("copy: an expanded source is read again and again") {
  const Array row = lying(Lie::row_major, random_doubles(40, 1), {40}).expand({20, 40});
  check_copy(row, garbage({20, 40}, float32));
  check_copy(row, garbage({20, 40}, float32, Lie::column_major));
  const Array column = lying(Lie::row_major, random_doubles(20, 2), {20, 1}).expand({20, 40});
  check_copy(column, garbage({20, 40}, float32));
  check_copy(column, garbage({20, 40}, float32, Lie::gaps));
}

TEST_CASE("copy: eight dimensions, none of which join") {
  const Shape shape{2, 3, 2, 3, 2, 3, 2, 3};
  const Array x = lying(Lie::gaps, random_doubles(shape.numel(), 1), shape);
  check_copy(x, garbage(shape, float32));
  check_copy(x.permute({7, 0, 6, 1, 5, 2, 4, 3}),
             garbage(x.permute({7, 0, 6, 1, 5, 2, 4, 3}).shape(), float32, Lie::gaps));
}

TEST_CASE("cast: every pair of types and layouts gives the CPU's bits") {
  const Shape shape{4, 9};
  auto values = with_edges(random_doubles(28, 3, -300, 300));
  for (double v : {1e10, -1e10, 1e30, -1e30, 255.9, 65519.9, 65520.0, 2147483648.0}) {
    values.push_back(v);
  }
  for (DType from : kEveryType) {
    // What an integer cannot hold is a question for the way to it, not from it.
    const bool is_signed = from == int64 || from == int32;
    const auto stored = is_floating(from) ? values
                        : is_signed       ? whole_numbers(36, 9, 300)
                                          : small_numbers(36);
    for (DType to : kEveryType) {
      for (Lie lie : kLies) {
        CAPTURE(from);
        CAPTURE(to);
        CAPTURE(int(lie));
        const Array x = lying(lie, stored, shape, from);
        Array y = on_gpu(garbage(shape, to, lie)), expected = garbage(shape, to);
        cuda_backend().cast(on_gpu(x), y);
        cpu_backend().cast(x, expected);
        CHECK(same_bits(y, expected));
      }
    }
  }
  CHECK(cudasim::violations().empty());
}

TEST_CASE("cast: every float16 there is becomes float32 and float16 again") {
  std::vector<std::uint16_t> bits(1 << 16);
  for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = std::uint16_t(i);
  const Array x = Array::from_host(bits.data(), {1 << 16}, float16, cpu(0));
  Array wide = on_gpu(garbage({1 << 16}, float32)), narrow = on_gpu(garbage({1 << 16}, float16));
  cuda_backend().cast(on_gpu(x), wide);
  cuda_backend().cast(wide, narrow);
  CHECK(same_bits(wide, array_of(values_of(x), {1 << 16})));
  CHECK(same_bits(narrow, x));
}

TEST_CASE("fill: every type and layout") {
  for (DType dtype : kEveryType) {
    for (Lie lie : kLies) {
      for (std::int64_t n : {1, 3, 16, 17, 1000}) {
        CAPTURE(dtype);
        CAPTURE(int(lie));
        CAPTURE(n);
        Array y = on_gpu(garbage({2, n}, dtype, lie));
        cuda_backend().fill(y, 3);
        const std::vector<double> threes(std::size_t(2 * n), dtype == DType::boolean ? 1 : 3);
        CHECK(same_bits(y, array_of(threes, {2, n}, dtype)));
      }
    }
  }
}

TEST_CASE("copy, cast and fill launch nothing for an empty array") {
  const Array x = Array::empty({0, 3}, float32, cuda(0)),
              z = Array::empty({3, 0}, float64, cuda(0));
  Array y = Array::empty({0, 3}, float16, cuda(0)), same = Array::empty({0, 3}, float32, cuda(0));
  Array narrow = Array::empty({3, 0}, float32, cuda(0));
  const auto before = cudasim::statistics().kernels_launched;
  cuda_backend().cast(x, y);
  cuda_backend().copy(x, same);
  cuda_backend().fill(y, 1);
  cuda_backend().cast(z, narrow);
  cuda_backend().synchronize();
  CHECK(cudasim::statistics().kernels_launched == before);
}

TEST_CASE("copy_all: more arrays than a launch takes, of every type, size, alignment and layout") {
  std::vector<Array> from, to, expected;
  const auto add = [&](const Array& x, const Array& y) {
    from.push_back(on_gpu(x));
    to.push_back(on_gpu(y));
    expected.push_back(x);
  };
  for (int i = 0; i < 25; ++i) {
    for (DType dtype : kEveryType) {
      const std::int64_t n = i % 5 == 0 ? i : i * i * 3 + 1;
      const auto values = small_numbers(n);
      add(lying(i % 2 ? Lie::shifted : Lie::row_major, values, {n}, dtype),
          garbage({n}, dtype, i % 3 ? Lie::row_major : Lie::shifted));
    }
  }
  for (Lie lie : kLies) {
    add(lying(Lie::rotated, small_numbers(60), {3, 4, 5}), garbage({3, 4, 5}, float32, lie));
  }
  const std::int64_t large = 100003;  // of several chunks, with a rest
  add(lying(Lie::row_major, small_numbers(large), {large}, uint8), garbage({large}, uint8));
  const std::size_t before = cudasim::statistics().kernels_launched;
  cuda_backend().copy_all(from, to);
  cuda_backend().synchronize();
  CHECK(cudasim::statistics().kernels_launched - before <= 2 + 4);  // tables, and other layouts
  for (std::size_t i = 0; i < to.size(); ++i) {
    CAPTURE(i);
    CHECK(same_bits(to[i], expected[i]));
  }
  CHECK(cudasim::violations().empty());
}
