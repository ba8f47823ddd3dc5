// Each op brings its index to the shape of the result, calls gather(), and goes back with its
// transpose, scatter_add().
#include <tandem/core/ops/indexing.h>

#include <tandem/core/array_ops.h>
#include <tandem/core/ops/operands.h>

namespace tandem {
namespace {

void check_index(const char* op, const Array& x, const Array& index) {
  check(index.dtype() == DType::int64, "[", op, "] the index must be int64: got ", index.dtype(),
        " of shape ", index.shape(), ". Convert it with to(int64)");
  check(x.dim() > 0, "[", op, "] cannot pick from a tensor without dimensions");
  check_same_device(op, {&x, &index});
}

// `index` is of the shape of the result.
Array pick(const char* op, int dim, const Array& x, const Array& index) {
  Array y = Array::empty(index.shape(), x.dtype(), x.device());
  backend(x.device()).gather(op, dim, x, index, y);
  return y;
}

// The part of x, of shape (...), that an index with equal sizes or smaller ones reaches.
Array reached(Array x, int dim, const Shape& index) {
  for (int d = 0; d < x.dim(); ++d) {
    if (d != dim && index[d] < x.size(d)) x = x.narrow(d, 0, index[d]);
  }
  return x;
}

// The gradient of x, of shape `shape`.
Array put_back(int dim, const Array& index, const Array& dy, const Shape& shape) {
  Array dx = Array::empty(shape, dy.dtype(), dy.device());
  Array part = reached(dx, dim, index.shape());
  if (part.shape() != shape) backend(dy.device()).fill(dx, 0);
  if (part.numel() > 0) backend(dy.device()).scatter_add(dim, index, dy, part);
  return dx;
}

// (M) as rows of the result: the same index wherever one is in the other dimensions.
Array along(const Array& index, int dim, Shape result) {
  Shape line;
  for (int d = 0; d < result.dim(); ++d) line.push_back(d == dim ? index.numel() : 1);
  result[dim] = index.numel();
  return index.reshape(line).expand(result);
}

}  // namespace

Tensor index_select(const Tensor& x, int dim, const Tensor& index) {
  constexpr const char* op = "index_select";
  const Array &a = operand(op, x, "x"), &k = operand(op, index, "index");
  check_index(op, a, k);
  check(k.dim() <= 1, "[", op, "] the index must have one dimension: got ", k.shape(),
        ". Use gather for an index of each element, or embedding");
  const int d = wrap_dim(op, dim, a.dim());
  Array rows = along(k, d, a.shape());
  Array y = pick(op, d, a, rows);
  return record(op, std::move(y), {x},
                [rows = Saved::if_(tracked(x), rows), shape = a.shape(), d](
                    const Array& dy, const Wanted&) { return put_back(d, rows.get(), dy, shape); });
}

Tensor gather(const Tensor& x, int dim, const Tensor& index) {
  constexpr const char* op = "gather";
  const Array &a = operand(op, x, "x"), &k = operand(op, index, "index");
  check_index(op, a, k);
  const int d = wrap_dim(op, dim, a.dim());
  check(k.dim() == a.dim(), "[", op, "] the index needs as many dimensions as x: ", k.shape(),
        " and ", a.shape());
  for (int i = 0; i < a.dim(); ++i) {
    check(i == d || k.size(i) <= a.size(i), "[", op, "] the index ", k.shape(),
          " is larger than x ", a.shape(), " in dimension ", i);
  }
  Array y = pick(op, d, reached(a, d, k.shape()), k);
  return record(op, std::move(y), {x},
                [k = Saved::if_(tracked(x), k), shape = a.shape(), d](
                    const Array& dy, const Wanted&) { return put_back(d, k.get(), dy, shape); });
}

Tensor embedding(const Tensor& weight, const Tensor& indices,
                 std::optional<std::int64_t> padding_idx) {
  constexpr const char* op = "embedding";
  const Array &w = operand(op, weight, "weight"), &k = operand(op, indices, "indices");
  check_index(op, w, k);
  check(w.dim() == 2, "[", op, "] the weight is a table (V, D): got ", w.shape());
  const std::int64_t words = w.size(0);
  std::int64_t padding = padding_idx.value_or(-1);
  if (padding_idx) {
    check(padding >= -words && padding < words, "[", op, "] padding_idx ", padding,
          " is outside of a table of ", words, " rows");
    if (padding < 0) padding += words;
  }
  Array rows = along(k.reshape({k.numel()}), 0, w.shape());
  Array y = pick(op, 0, w, rows);
  Shape shape = k.shape();
  shape.push_back(w.size(1));
  return record(op, y.view_or_undefined(shape), {weight},
                [rows = Saved::if_(tracked(weight), rows), table = w.shape(), padding](
                    const Array& dy, const Wanted&) {
                  Array dw = put_back(0, rows.get(), dy.reshape(rows.get().shape()), table);
                  if (padding >= 0) {
                    Array row = dw.narrow(0, padding, 1);
                    fill(row, 0);
                  }
                  return dw;
                });
}

}  // namespace tandem
