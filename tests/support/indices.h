// Index arrays for the tests of gather and scatter_add, on every kind of device.
#pragma once

#include <cstdint>
#include <vector>

#include <tandem/core/array.h>

namespace tandem::test {

/// `n` positions in [0, size), in no order, some of them several times.
inline std::vector<double> some_index(std::int64_t n, std::int64_t size) {
  std::vector<double> index;
  for (std::int64_t i = 0; i < n; ++i) index.push_back(double((i * 7 + i / 3) % size));
  return index;
}

/// Index (M) for whole rows along `dim` of y.
inline Array as_rows(const Array& index, const Shape& y, int dim) {
  Shape line;
  for (int d = 0; d < y.dim(); ++d) line.push_back(d == dim ? y[d] : 1);
  return index.view_or_undefined(line).expand(y);
}

}  // namespace tandem::test
