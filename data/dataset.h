// TensorDataset: samples and their targets, in memory.
//
// Row i of x belongs to row i of y. Next: loader.h, which makes batches of it.
#pragma once

#include <cstdint>
#include <vector>

#include <tandem/core/tensor.h>

namespace tandem::data {

/// Some samples and their targets: `for (auto&& [x, y] : loader)`.
struct Batch {
  Tensor x, y;
};

struct TensorDataset {
  Tensor x;  // (N, ...)
  Tensor y;  // (N, ...)

  /// REQUIRES: both have at least one dimension, and the same number of rows.
  TensorDataset(Tensor samples, Tensor targets);

  std::int64_t size() const { return x.size(0); }
  /// The given rows in the given order, copied. REQUIRES: 0 <= row < size().
  Batch rows(const std::vector<std::int64_t>& rows) const;
};

}  // namespace tandem::data
