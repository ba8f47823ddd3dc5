// Reductions over any dimensions, negative ones from the end; no dims: over all.
//
// `keepdim` leaves a size of 1 where a dimension was. Sums of bool and int64 are int64; mean needs
// a floating type. Sums run in a fixed order that depends on the shape only.
#pragma once

#include <vector>

#include <tandem/core/tensor.h>

namespace tandem {

Tensor sum(const Tensor& x);
Tensor sum(const Tensor& x, const std::vector<int>& dims, bool keepdim = false);
Tensor mean(const Tensor& x);
Tensor mean(const Tensor& x, const std::vector<int>& dims, bool keepdim = false);

/// Largest / smallest values only (PyTorch's amax, amin); equal ones share the gradient evenly.
/// REQUIRES: at least one element along the reduced dimensions.
Tensor max(const Tensor& x);
Tensor max(const Tensor& x, const std::vector<int>& dims, bool keepdim = false);
Tensor min(const Tensor& x);
Tensor min(const Tensor& x, const std::vector<int>& dims, bool keepdim = false);

/// Index (int64) of the first largest element: of the flattened tensor, or along `dim`.
Tensor argmax(const Tensor& x);
Tensor argmax(const Tensor& x, int dim, bool keepdim = false);
Tensor argmin(const Tensor& x);
Tensor argmin(const Tensor& x, int dim, bool keepdim = false);

}  // namespace tandem
