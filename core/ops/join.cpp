// The ops of views.h with several tensors on one side: cat and stack, split and chunk.
//
// They are each other's gradients: the gradient of a join is cut into the pieces, the gradients of
// pieces are joined.
#include <algorithm>
#include <numeric>

#include <tandem/core/array_ops.h>
#include <tandem/core/autocast.h>
#include <tandem/core/ops/operands.h>
#include <tandem/core/ops/views.h>

namespace tandem {
namespace {

using Sizes = std::vector<std::int64_t>;

// Defined, on one device, at least one; converted to the type they all meet in.
std::vector<Array> joined_values(const char* op, const std::vector<Tensor>& tensors, DType& dtype) {
  check(!tensors.empty(), "[", op, "] needs at least one tensor");
  dtype = operand(op, tensors[0], std::size_t(0)).dtype();
  for (std::size_t i = 1; i < tensors.size(); ++i) {
    const Array& a = operand(op, tensors[i], i);
    check_same_device(op, {&tensors[0].array(), &a});
    dtype = promote(dtype, a.dtype());
  }
  std::vector<Array> values;
  values.reserve(tensors.size());
  for (const Tensor& t : tensors) values.push_back(t.array().to(dtype));
  return values;
}

// Joins `values` along `dim`; `sizes[i]` of the result come from tensor i.
Tensor join(const char* op, const std::vector<Tensor>& tensors, const std::vector<Array>& values,
            int dim) {
  Array y = concat(values, dim);
  if (std::none_of(tensors.begin(), tensors.end(), tracked)) return Tensor(std::move(y));
  struct Piece {
    std::int64_t start, size;
    DType dtype;
  };
  std::vector<Piece> pieces;
  std::vector<Edge> edges;
  std::int64_t start = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    pieces.push_back({start, values[i].size(dim), tensors[i].dtype()});
    start += values[i].size(dim);
    edges.push_back(gradient_edge(tensors[i]));
  }
  auto cut = [pieces = std::move(pieces), dim](std::span<const Array> dy, const Wanted& wanted,
                                               std::span<Array> grads) {
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      const Piece& p = pieces[i];
      if (wanted[i]) grads[i] = dy[0].narrow(dim, p.start, p.size).to(p.dtype);
    }
  };
  return record_many(op, {std::move(y)}, std::move(edges), {is_floating(values[0].dtype())},
                     std::move(cut), Keeps::nothing)[0];
}

// Pieces of `x` as one node with an output for each.
std::vector<Tensor> cut(const Tensor& x, const Array& a, const Sizes& sizes, int dim) {
  std::vector<Array> pieces;
  pieces.reserve(sizes.size());
  std::int64_t start = 0;
  for (std::int64_t size : sizes) {
    pieces.push_back(a.narrow(dim, start, size));
    start += size;
  }
  if (!tracked(x)) {
    std::vector<Tensor> tensors;
    for (Array& piece : pieces) tensors.emplace_back(std::move(piece));
    return tensors;
  }
  auto rejoin = [sizes, dim, shape = a.shape(), format = nearest_format(a)](
                    std::span<const Array> dy, const Wanted&, std::span<Array> grads) {
    const Array& some = *std::find_if(dy.begin(), dy.end(), [](auto& d) { return d.defined(); });
    std::vector<Array> parts(dy.begin(), dy.end());
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (parts[i].defined()) continue;
      Shape piece = shape;
      piece[dim] = sizes[i];
      parts[i] = Array::empty(piece, some.dtype(), some.device(), format);
      fill(parts[i], 0);
    }
    grads[0] = concat(parts, dim);
  };
  const std::vector<bool> all(pieces.size(), true);
  return record_many("split", std::move(pieces), {gradient_edge(x)}, all, std::move(rejoin),
                     Keeps::nothing);
}

// n = size + size + ... + rest
Sizes equal_pieces(std::int64_t n, std::int64_t size) {
  Sizes sizes;
  for (std::int64_t start = 0; start < n; start += size) sizes.push_back(std::min(size, n - start));
  if (n == 0) sizes.push_back(0);
  return sizes;
}

int split_dim(const char* op, const Array& a, int dim) {
  check(a.dim() > 0, "[", op, "] a 0-dim tensor cannot be split");
  return wrap_dim(op, dim, a.dim());
}

}  // namespace

Tensor cat(const std::vector<Tensor>& tensors, int dim) {
  if (const Recast to = recast(CastGroup::widest, tensors)) return cat(to(tensors), dim);
  DType dtype{};
  const std::vector<Array> values = joined_values("cat", tensors, dtype);
  const Shape& first = values[0].shape();
  check(first.dim() > 0, "[cat] 0-dim tensors cannot be joined. Use stack");
  const int d = wrap_dim("cat", dim, first.dim());
  for (std::size_t i = 1; i < values.size(); ++i) {
    Shape expected = values[i].shape();
    if (expected.dim() == first.dim()) expected[d] = first[d];
    check(expected == first, "[cat] sizes differ outside of dimension ", dim, ": tensor 0 is ",
          first, ", tensor ", i, " is ", values[i].shape());
  }
  return join("cat", tensors, values, d);
}

Tensor stack(const std::vector<Tensor>& tensors, int dim) {
  if (const Recast to = recast(CastGroup::widest, tensors)) return stack(to(tensors), dim);
  DType dtype{};
  const std::vector<Array> values = joined_values("stack", tensors, dtype);
  for (std::size_t i = 1; i < values.size(); ++i) {
    check(values[i].shape() == values[0].shape(), "[stack] shapes differ: tensor 0 is ",
          values[0].shape(), ", tensor ", i, " is ", values[i].shape());
  }
  const int d = wrap_dim("stack", dim, values[0].dim() + 1);
  std::vector<Tensor> rows;
  rows.reserve(tensors.size());
  for (const Tensor& t : tensors) rows.push_back(unsqueeze(t, d));
  return cat(rows, d);
}

std::vector<Tensor> split(const Tensor& x, std::int64_t size, int dim) {
  const Array& a = operand("split", x, "x");
  const int d = split_dim("split", a, dim);
  check(size > 0, "[split] pieces of size ", size, ". Expected at least 1");
  return cut(x, a, equal_pieces(a.size(d), size), d);
}

std::vector<Tensor> split(const Tensor& x, const std::vector<std::int64_t>& sizes, int dim) {
  const Array& a = operand("split", x, "x");
  const int d = split_dim("split", a, dim);
  const std::int64_t total = std::accumulate(sizes.begin(), sizes.end(), std::int64_t(0));
  const bool valid = std::all_of(sizes.begin(), sizes.end(), [](auto s) { return s >= 0; });
  check(valid && total == a.size(d), "[split] the sizes add up to ", total, ", dimension ", dim,
        " of ", a.shape(), " has ", a.size(d), ". All sizes must be 0 or more");
  return cut(x, a, sizes, d);
}

std::vector<Tensor> chunk(const Tensor& x, std::int64_t chunks, int dim) {
  const Array& a = operand("chunk", x, "x");
  const int d = split_dim("chunk", a, dim);
  check(chunks > 0, "[chunk] ", chunks, " chunks. Expected at least 1");
  const std::int64_t n = a.size(d);
  if (n == 0) return cut(x, a, Sizes(std::size_t(chunks), 0), d);  // as PyTorch
  return cut(x, a, equal_pieces(n, (n + chunks - 1) / chunks), d);
}

}  // namespace tandem
