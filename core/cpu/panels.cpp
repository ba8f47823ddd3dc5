#include <tandem/core/cpu/panels.h>

#include <algorithm>
#include <array>
#include <utility>

#include <tandem/core/cpu/onednn.h>
#include <tandem/core/cpu/packets.h>
#include <tandem/core/numerics.h>

namespace tandem::host {
namespace {

using Lanes = Packet<float>;

// A tile of sums takes 12 of 16 registers, a row of the panel two, a number of the rows one.
constexpr std::int64_t kRows = 6, kColumns = 2 * Lanes::size;
constexpr std::int64_t kSteps = 1024;  // the inner dimension is cut where a panel grows too long

// Rows as they lie.
struct Rows {
  const float* data;
  std::int64_t count, stride;

  const float* row(std::int64_t i) const { return data + i * stride; }
};

// Rows, at most kColumns of them, turned and filled up with zeros: what a panel holds for one step
// after the other.
void make_panel(const Rows& rows, std::int64_t first, std::int64_t steps, float* panel) {
  std::int64_t p = 0;
  if (rows.count == kColumns) {
    for (; p + Lanes::size <= steps; p += Lanes::size) {
      for (std::int64_t half = 0; half < kColumns; half += Lanes::size) {
        std::array<Lanes, std::size_t(Lanes::size)> square;
        for (std::int64_t i = 0; i < Lanes::size; ++i) {
          square[std::size_t(i)] = Lanes::load(rows.row(half + i) + first + p);
        }
        transpose(square);
        for (std::int64_t i = 0; i < Lanes::size; ++i) {
          square[std::size_t(i)].store(panel + (p + i) * kColumns + half);
        }
      }
    }
  }
  for (; p < steps; ++p) {
    for (std::int64_t j = 0; j < kColumns; ++j) {
      panel[p * kColumns + j] = j < rows.count ? rows.row(j)[first + p] : 0;
    }
  }
}

// sums[i][j] = the product of row i with column j of the panel, added to what is there if
// `accumulate`.
template <std::size_t... i>
void multiply(std::int64_t steps, const float* rows, std::int64_t stride, const float* panel,
              float* sums, std::int64_t sums_stride, bool accumulate, std::index_sequence<i...>) {
  Lanes left[] = {(void(i), 0.0f)...}, right[] = {(void(i), 0.0f)...};
  if (accumulate) {
    ((left[i] = Lanes::load(sums + std::int64_t(i) * sums_stride)), ...);
    ((right[i] = Lanes::load(sums + std::int64_t(i) * sums_stride + Lanes::size)), ...);
  }
  for (; steps > 0; --steps, ++rows, panel += kColumns) {
    const Lanes x = Lanes::load(panel), y = Lanes::load(panel + Lanes::size);
    ((left[i] = fma(Lanes(rows[std::int64_t(i) * stride]), x, left[i]),
      right[i] = fma(Lanes(rows[std::int64_t(i) * stride]), y, right[i])),
     ...);
  }
  (left[i].store(sums + std::int64_t(i) * sums_stride), ...);
  (right[i].store(sums + std::int64_t(i) * sums_stride + Lanes::size), ...);
}

// The result: row-major (right is 1), or turned (down is 1), so that the panel's columns are its
// rows.
struct Result {
  float* data;
  std::int64_t down, right;

  float& at(std::int64_t i, std::int64_t j) const { return data[i * down + j * right]; }
};

// R rows of the result, as wide as the panel; of which so many columns are wanted.
template <std::int64_t R>
void tile(std::int64_t steps, const float* rows, std::int64_t stride, const float* panel,
          const Result& c, std::int64_t columns, bool accumulate) {
  constexpr std::make_index_sequence<std::size_t(R)> all;
  if (c.right == 1 && columns == kColumns) {
    return multiply(steps, rows, stride, panel, c.data, c.down, accumulate, all);
  }
  alignas(64) float sums[R * kColumns] = {};
  for (std::int64_t j = 0; accumulate && j < columns; ++j) {
    for (std::int64_t i = 0; i < R; ++i) sums[i * kColumns + j] = c.at(i, j);
  }
  multiply(steps, rows, stride, panel, sums, kColumns, accumulate, all);
  for (std::int64_t j = 0; j < columns; ++j) {
#pragma GCC unroll 6
    for (std::int64_t i = 0; i < R; ++i) c.at(i, j) = sums[i * kColumns + j];
  }
}

template <std::int64_t... R>
constexpr auto tiles_of(std::integer_sequence<std::int64_t, R...>) {
  return std::array{&tile<R + 1>...};
}

// c = rows others', block by block of the inner dimension.
void multiply_rows(const Rows& rows, const Rows& others, std::int64_t k, const Result& c,
                   bool accumulate) {
  static constexpr auto tiles = tiles_of(std::make_integer_sequence<std::int64_t, kRows>());
  alignas(64) float panel[kSteps * kColumns];
  for (std::int64_t p = 0; p < k; p += kSteps) {
    const std::int64_t steps = std::min(kSteps, k - p);
    for (std::int64_t j = 0; j < others.count; j += kColumns) {
      const std::int64_t columns = std::min(kColumns, others.count - j);
      make_panel({others.row(j), columns, others.stride}, p, steps, panel);
      for (std::int64_t i = 0; i < rows.count; i += kRows) {
        const std::int64_t height = std::min(kRows, rows.count - i);
        tiles[std::size_t(height - 1)](steps, rows.row(i) + p, rows.stride, panel,
                                       {&c.at(i, j), c.down, c.right}, columns,
                                       accumulate || p > 0);
      }
    }
  }
}

}  // namespace

// Measured with registers of 8 numbers.
bool panels_take(const Matrix<float>& a, const Matrix<float>& b) {
  if (Lanes::size != 8 || a.transposed || !b.transposed || (onednn() && onednn_has_avx512()))
    return false;
  const std::int64_t few = std::min(a.rows, b.rows), many = std::max(a.rows, b.rows);
  const std::int64_t lanes = (few + kColumns - 1) / kColumns * kColumns;
  return few >= kColumns && 8 * few >= 7 * lanes && many >= 3 * few && a.columns >= 512;
}

void panels_product(const Matrix<float>& a, const Matrix<float>& b, float* c, std::int64_t c_stride,
                    bool accumulate) {
  const Rows x{a.data, a.rows, a.stride}, y{b.data, b.rows, b.stride};
  if (x.count < y.count) {
    multiply_rows(y, x, a.columns, {c, 1, c_stride}, accumulate);
  } else {
    multiply_rows(x, y, a.columns, {c, c_stride, 1}, accumulate);
  }
}

}  // namespace tandem::host
