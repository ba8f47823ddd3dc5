// The CPU's gather and scatter_add, in every layout, against element-by-element loops.
#include <doctest/doctest.h>

#include "tests/core/cpu_arrays.h"
#include "tests/support/indices.h"

using namespace tandem;
using namespace tandem::test;

namespace {

// Position in a row-major array of `shape` of what lies at `i` of `index`'s shape, with coordinate
// `dim` replaced by `k`.
std::size_t replaced(std::int64_t i, const Shape& from, const Shape& to, int dim, std::int64_t k) {
  std::int64_t at[kMaxDims] = {}, position = 0;
  for (int d = from.dim() - 1; d >= 0; i /= from[d--]) at[d] = i % from[d];
  at[dim] = k;
  for (int d = 0; d < to.dim(); ++d) position = position * to[d] + at[d];
  return std::size_t(position);
}

}  // namespace

TEST_CASE("cpu gather: x at the index along a dimension, every layout and type; and back") {
  const Shape x_shape{4, 3, 5};
  for (DType dtype : kEveryType) {
    for (Lie lie : kLies) {
      for (int dim = 0; dim < 3; ++dim) {
        for (const bool rows : {false, true}) {
          CAPTURE(dtype);
          CAPTURE(int(lie));
          CAPTURE(dim);
          CAPTURE(rows);
          Shape shape = x_shape;
          shape[dim] = 7;
          const Array x = lying(lie, whole_numbers(60, 91), x_shape, dtype);
          const Array index =
              rows ? as_rows(array_of(some_index(7, x_shape[dim]), {7}, int64), shape, dim)
                   : lying(lie, some_index(shape.numel(), x_shape[dim]), shape, int64);
          const auto k = values_of(index), in = values_of(x);
          Array y = garbage(shape, dtype, lie);
          cpu_backend().gather("test", dim, x, index, y);
          std::vector<double> expected;
          for (std::int64_t i = 0; i < shape.numel(); ++i) {
            expected.push_back(
                in[replaced(i, shape, x_shape, dim, std::int64_t(k[std::size_t(i)]))]);
          }
          CHECK(values_of(y) == expected);
          CHECK(gaps_are_intact(y));
          if (!is_floating(dtype)) continue;

          const Array dy = lying(lie, whole_numbers(shape.numel(), 92), shape, dtype);
          Array dx = garbage(x_shape, dtype, lie);
          cpu_backend().scatter_add(dim, index, dy, dx);
          std::vector<double> sums(60, 0.0);
          const auto g = values_of(dy);
          for (std::int64_t i = 0; i < shape.numel(); ++i) {
            const auto at = std::size_t(i);
            sums[replaced(i, shape, x_shape, dim, std::int64_t(k[at]))] += g[at];
          }
          CHECK(values_of(dx) == sums);
          CHECK(gaps_are_intact(dx));
        }
      }
    }
  }
}

TEST_CASE("cpu scatter_add: 16-bit gradients are added up in float32, in the order of the index") {
  const std::int64_t n = 5000;  // added one by one in float16, ones stop at 2048
  const Array dy = array_of(std::vector<double>(std::size_t(n), 1.0), {n, 1}, float16);
  const Array index = array_of(std::vector<double>(std::size_t(n), 0.0), {n, 1}, int64);
  Array dx = garbage({2, 1}, float16);
  cpu_backend().scatter_add(0, index, dy, dx);
  CHECK(values_of(dx) == std::vector<double>{5000, 0});

  // 1 is lost beside 1e8, so the sum tells the order: ((1e8 + 1) - 1e8) + 1
  const Array terms = array_of({1e8, 1, -1e8, 1}, {4, 1});
  Array sum = garbage({1, 1}, float32);
  cpu_backend().scatter_add(0, array_of({0, 0, 0, 0}, {4, 1}, int64), terms, sum);
  CHECK(values_of(sum) == std::vector<double>{1});
}

TEST_CASE("cpu gather: an index outside is refused before anything is written, with its position") {
  const Array x = array_of(std::vector<double>(12, 1.0), {4, 3});
  for (const auto& [bad, text] :
       {std::pair{4.0, "index 4 at position 1"}, {-1.0, "index -1 at position 1"}}) {
    Array y = array_of(std::vector<double>(6, 7.0), {2, 3});
    const Array index = as_rows(array_of({3, bad}, {2}, int64), {2, 3}, 0);
    CHECK(throws<UsageError>([&] { cpu_backend().gather("pick", 0, x, index, y); },
                             {"[pick]", text, "is outside [0, 4)"}));
    CHECK(values_of(y) == std::vector<double>(6, 7.0));
  }
  Array none = garbage({0, 3}, float32);
  cpu_backend().gather("pick", 0, x, garbage({0, 3}, int64), none);
}
