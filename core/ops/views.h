// Views and rearrangements. A view shares memory (and its version) with its input.
#pragma once

#include <span>
#include <vector>

#include <tandem/core/tensor.h>

namespace tandem {

/// One size may be -1: it is worked out. UsageError if strides do not allow a view (reshape
/// copies); channels-last images are copied where they must be.
Tensor view(const Tensor& x, const Shape& shape);
/// A view if possible, else a copy.
Tensor reshape(const Tensor& x, const Shape& shape);
/// Joins the dimensions start..end; a 0-dim tensor becomes (1).
Tensor flatten(const Tensor& x, int start_dim = 0, int end_dim = -1);
Tensor permute(const Tensor& x, const std::vector<int>& dims);
Tensor transpose(const Tensor& x, int dim0, int dim1);
/// Drops all dimensions of size 1, or one if it has size 1.
Tensor squeeze(const Tensor& x);
Tensor squeeze(const Tensor& x, int dim);
Tensor unsqueeze(const Tensor& x, int dim);
/// Stretches sizes of 1 without copying; -1 keeps a size.
Tensor expand(const Tensor& x, const Shape& shape);
Tensor narrow(const Tensor& x, int dim, std::int64_t start, std::int64_t length);
/// start:stop:step as in Python, step >= 1; negative positions count from the end, all are clipped.
Tensor slice(const Tensor& x, int dim, std::int64_t start, std::int64_t stop,
             std::int64_t step = 1);
/// Without the dimension; negative index from the end.
Tensor select(const Tensor& x, int dim, std::int64_t index);

/// Joins along an existing (cat) or a new (stack) dimension.
Tensor cat(const std::vector<Tensor>& tensors, int dim = 0);
Tensor stack(const std::vector<Tensor>& tensors, int dim = 0);
/// Pieces of `size` (the last may be smaller), of the given sizes, or `chunks` pieces of
/// ceil(n / chunks) as PyTorch's chunk.
std::vector<Tensor> split(const Tensor& x, std::int64_t size, int dim = 0);
std::vector<Tensor> split(const Tensor& x, const std::vector<std::int64_t>& sizes, int dim = 0);
std::vector<Tensor> chunk(const Tensor& x, std::int64_t chunks, int dim = 0);

}  // namespace tandem
