// Picking by index: rows, elements, and embeddings, which are rows of a table.
//
// Indices are int64 and on the same device as what they pick from; negative ones do not count from
// the end. An index outside is a UsageError that names its position (row-major) and its value.
// Gradients of what is picked more than once are added up in the order of the index: the same bits
// every time. Next: views.h, for what needs no index.
#pragma once

#include <cstdint>
#include <optional>

#include <tandem/core/tensor.h>

namespace tandem {

/// Slices of x along `dim`: y has x's shape with index.numel() in the place of that size.
/// REQUIRES: index (M) or without dimensions.
Tensor index_select(const Tensor& x, int dim, const Tensor& index);

/// One element for each of the index: y[i, j, k] = x[i, index[i, j, k], k] for dim = 1. y has the
/// index's shape. REQUIRES: as many dimensions as x, and no size but that of `dim` above x's.
Tensor gather(const Tensor& x, int dim, const Tensor& index);

/// Rows of `weight` (V, D): indices of any shape (...) -> (..., D). The gradient of weight is
/// dense, and 0 in row `padding_idx` (negative: from the end), if there is one.
Tensor embedding(const Tensor& weight, const Tensor& indices,
                 std::optional<std::int64_t> padding_idx = std::nullopt);

}  // namespace tandem
