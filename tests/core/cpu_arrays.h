// Arrays that lie in memory in every way a kernel may meet, with garbage in the gaps; read and
// written here element by element, without any kernel. CPU only. Next: cpu_layouts_test.cpp.
#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>
#include <vector>

#include <tandem/core/backend.h>

#include "tests/support/check.h"

namespace tandem::test {

enum class Lie { row_major, column_major, rotated, gaps, shifted };
inline constexpr Lie kLies[] = {Lie::row_major, Lie::column_major, Lie::rotated, Lie::gaps,
                                Lie::shifted};
inline constexpr DType kArithmetic[] = {float32, float64, float16, bfloat16, int64};
inline constexpr DType kEveryType[] = {float32, float64, float16, bfloat16,
                                       int64,   int32,   uint8,   DType::boolean};

/// f(offset in elements) in row-major order.
inline void for_each_offset(const Array& a, const std::function<void(std::int64_t)>& f) {
  for (std::int64_t i = 0; i < a.numel(); ++i) {
    std::int64_t rest = i, offset = 0;
    for (int d = a.dim() - 1; d >= 0; --d) {
      offset += rest % a.size(d) * a.strides()[d];
      rest /= a.size(d);
    }
    f(offset);
  }
}

/// Every byte of its slot is 0xff: NaN in a float type, -1 in an integer.
inline Array garbage(const Shape& shape, DType dtype, Lie lie = Lie::row_major) {
  std::vector<int> order(std::size_t(shape.dim()));  // from the innermost dimension outwards
  std::iota(order.rbegin(), order.rend(), 0);
  if (lie == Lie::column_major) std::iota(order.begin(), order.end(), 0);
  if (lie == Lie::rotated && shape.dim() > 1) {  // dimension 1 innermost: channels-last
    std::rotate(order.begin(), order.end() - 2, order.end() - 1);
  }
  std::int64_t step = lie == Lie::gaps ? 2 : 1;
  Shape strides = shape;
  for (int d : order) {
    strides[d] = step;
    step *= shape[d] + (lie == Lie::gaps ? 1 : 0);
  }
  const std::int64_t offset = lie == Lie::shifted ? 3 : 0;
  Array block = Array::empty({std::max<std::int64_t>(step, 1) + offset}, dtype, cpu(0));
  std::memset(block.fresh_data(), 0xff, std::size_t(block.nbytes()));
  return block.as_strided(shape, strides, offset);
}

inline void put(Array& a, const std::vector<double>& values) {
  const Array source = array_of(values, a.shape(), a.dtype());
  const auto size = std::int64_t(size_of(a.dtype()));
  std::int64_t i = 0;
  for_each_offset(a, [&](std::int64_t offset) {
    std::memcpy(a.fresh_data() + offset * size, source.data() + size * i++, std::size_t(size));
  });
}

inline Array lying(Lie lie, const std::vector<double>& values, const Shape& shape,
                   DType dtype = float32) {
  Array a = garbage(shape, dtype, lie);
  put(a, values);
  return a;
}

/// A row-major copy, made without a kernel.
inline Array dense_copy(const Array& a) {
  const auto size = std::int64_t(size_of(a.dtype()));
  std::vector<std::byte> bytes(std::size_t(a.nbytes()));
  std::int64_t i = 0;
  for_each_offset(a, [&](std::int64_t offset) {
    std::memcpy(bytes.data() + size * i++, a.data() + offset * size, std::size_t(size));
  });
  return Array::from_host(bytes.data(), a.shape(), a.dtype(), cpu(0));
}

inline std::vector<double> values_of(const Array& a) {
  return doubles(dense_copy(a));
}

/// Nothing was written between the elements of an array made by garbage().
inline bool gaps_are_intact(const Array& a) {
  const auto size = std::int64_t(size_of(a.dtype()));
  const std::int64_t held = a.storage()->bytes() / size;
  std::vector<bool> inside(std::size_t(held), false);
  for_each_offset(a, [&](std::int64_t offset) { inside[std::size_t(a.offset() + offset)] = true; });
  for (std::int64_t i = 0; i < held * size; ++i) {
    if (!inside[std::size_t(i / size)] && a.storage()->data()[i] != std::byte(0xff)) return false;
  }
  return true;
}

/// Whole numbers from -range to range: sums and products of a few are exact in every type.
inline std::vector<double> whole_numbers(std::int64_t n, std::uint64_t seed, int range = 4) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < n; ++i) {
    const double u = hash_uniform(seed, std::uint64_t(i));
    values.push_back(double(int(u * (2 * range + 1)) - range));
  }
  return values;
}

/// f of each element.
inline std::vector<double> each(const std::vector<double>& x,
                                const std::function<double(double)>& f) {
  std::vector<double> y;
  for (double v : x) y.push_back(f(v));
  return y;
}
/// f of each pair.
inline std::vector<double> each(const std::vector<double>& x, const std::vector<double>& z,
                                const std::function<double(double, double)>& f) {
  std::vector<double> y;
  for (std::size_t i = 0; i < x.size(); ++i) y.push_back(f(x[i], z[i]));
  return y;
}

inline Backend& cpu_backend() {
  return backend(cpu(0));
}

}  // namespace tandem::test
