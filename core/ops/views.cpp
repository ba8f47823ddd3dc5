#include <tandem/core/ops/views.h>

#include <algorithm>
#include <array>

#include <tandem/core/array_ops.h>
#include <tandem/core/backend.h>
#include <tandem/core/ops/operands.h>
#include <tandem/core/trace.h>

namespace tandem {
namespace {

// A part of reshaping: the copy is counted as such.
Array laid_out(const Array& a, MemoryFormat format) {
  if (a.is_contiguous(format)) return a;
  trace::count_reshape();
  Array y = Array::empty(a.shape(), a.dtype(), a.device(), format);
  backend(a.device()).copy(a, y);
  return y;
}

// Backward of every view that keeps all elements: the gradient under the old shape. Where x was
// channels-last the gradient is so again: what comes before wants it.
Tensor record_reshape(const char* name, Array y, const Tensor& x) {
  return record(
      name, std::move(y), {x},
      [shape = x.shape(), format = nearest_format(x.array())](const Array& dy, const Wanted&) {
        const Array dx = dy.reshape(shape);
        return format == MemoryFormat::channels_last ? laid_out(dx, format) : dx;
      },
      Keeps::nothing);
}

// Backward of a view of some elements: zeros but for dy in `part` of them.
template <class Part>
Tensor record_part(const char* name, Array y, const Tensor& x, Part part) {
  return record(
      name, std::move(y), {x},
      [shape = x.shape(), format = nearest_format(x.array()), part](const Array& dy,
                                                                    const Wanted&) {
        Array dx = Array::empty(shape, dy.dtype(), dy.device(), format);
        fill(dx, 0);
        Array place = part(dx);
        copy(place, dy);
        return dx;
      },
      Keeps::nothing);
}

// `shape` with its -1 worked out.
Shape resolve(const char* op, const Shape& have, Shape shape) {
  int open = -1;
  std::int64_t known = 1;
  for (int i = 0; i < shape.dim(); ++i) {
    if (shape[i] == -1) {
      check(open < 0, "[", op, "] only one size can be -1: ", shape);
      open = i;
    } else {
      check(shape[i] >= 0, "[", op, "] a size is negative: ", shape);
      known *= shape[i];
    }
  }
  const std::int64_t n = have.numel();
  if (open >= 0) {
    check(known > 0, "[", op, "] the size for -1 is not determined: ", have, " to ", shape);
    if (n % known == 0) shape[open] = n / known;
  }
  check(shape.numel() == n, "[", op, "] the number of elements differs: ", have, " to ", shape);
  return shape;
}

// A dimension to take apart. REQUIRES: there is one.
int existing_dim(const char* op, const Array& a, int dim) {
  check(a.dim() > 0, "[", op, "] a 0-dim tensor has no dimension ", dim);
  return wrap_dim(op, dim, a.dim());
}

}  // namespace

Tensor view(const Tensor& x, const Shape& shape) {
  const Array& a = operand("view", x, "x");
  const Shape sizes = resolve("view", a.shape(), shape);
  Array y = a.view_or_undefined(sizes);
  // Channels-last is the backend's choice, not the user's: such images are copied if need be.
  const bool last = nearest_format(a) == MemoryFormat::channels_last;
  if (!y.defined() && last) y = a.reshape(sizes);
  check(y.defined(), "[view] strides ", a.strides(), " of ", a.shape(), " do not allow a view as ",
        shape, ". Use reshape(), which copies where it must");
  return record_reshape("view", std::move(y), x);
}

Tensor reshape(const Tensor& x, const Shape& shape) {
  const Array& a = operand("reshape", x, "x");
  return record_reshape("reshape", a.reshape(resolve("reshape", a.shape(), shape)), x);
}

Tensor flatten(const Tensor& x, int start_dim, int end_dim) {
  const Array& a = operand("flatten", x, "x");
  const int start = wrap_dim("flatten", start_dim, a.dim());
  const int end = wrap_dim("flatten", end_dim, a.dim());
  check(start <= end, "[flatten] start_dim ", start_dim, " lies behind end_dim ", end_dim, " in ",
        a.shape());
  Shape shape;
  std::int64_t joined = 1;
  for (int i = 0; i < a.dim(); ++i) {
    if (i < start || i > end) {
      shape.push_back(a.size(i));
    } else {
      joined *= a.size(i);
      if (i == end) shape.push_back(joined);
    }
  }
  if (a.dim() == 0) shape.push_back(1);
  return record_reshape("flatten", a.reshape(shape), x);
}

Tensor permute(const Tensor& x, const std::vector<int>& dims) {
  const Array& a = operand("permute", x, "x");
  check(int(dims.size()) == a.dim(), "[permute] ", dims.size(),
        " dimensions are named, the shape is ", a.shape());
  std::vector<int> order(dims.size()), inverse(dims.size(), -1);
  for (std::size_t i = 0; i < dims.size(); ++i) {
    order[i] = wrap_dim("permute", dims[i], a.dim());
    int& back = inverse[std::size_t(order[i])];
    check(back < 0, "[permute] dimension ", dims[i], " is named twice");
    back = int(i);
  }
  return record(
      "permute", a.permute(order), {x},
      [inverse = std::move(inverse)](const Array& dy, const Wanted&) {
        return dy.permute(inverse);
      },
      Keeps::nothing);
}

Tensor transpose(const Tensor& x, int dim0, int dim1) {
  const Array& a = operand("transpose", x, "x");
  const int i = wrap_dim("transpose", dim0, a.dim()), j = wrap_dim("transpose", dim1, a.dim());
  if (a.dim() == 0) return x;
  return record(
      "transpose", a.transpose(i, j), {x},
      [i, j](const Array& dy, const Wanted&) { return dy.transpose(i, j); }, Keeps::nothing);
}

Tensor squeeze(const Tensor& x) {
  const Array& a = operand("squeeze", x, "x");
  Array y = a;
  for (int i = a.dim() - 1; i >= 0; --i) {
    if (a.size(i) == 1) y = y.squeeze(i);
  }
  return record_reshape("squeeze", std::move(y), x);
}

Tensor squeeze(const Tensor& x, int dim) {
  const Array& a = operand("squeeze", x, "x");
  dim = wrap_dim("squeeze", dim, a.dim());
  const bool drops = a.dim() > 0 && a.size(dim) == 1;
  return record_reshape("squeeze", drops ? a.squeeze(dim) : a, x);
}

Tensor unsqueeze(const Tensor& x, int dim) {
  const Array& a = operand("unsqueeze", x, "x");
  return record_reshape("unsqueeze", a.unsqueeze(wrap_dim("unsqueeze", dim, a.dim() + 1)), x);
}

Tensor expand(const Tensor& x, const Shape& shape) {
  const Array& a = operand("expand", x, "x");
  const int lead = shape.dim() - a.dim();
  Shape sizes = shape;
  bool fits = lead >= 0;
  for (int i = 0; i < shape.dim() && fits; ++i) {
    if (sizes[i] == -1 && i >= lead) sizes[i] = a.size(i - lead);
    fits = sizes[i] >= 0 && (i < lead || a.size(i - lead) == sizes[i] || a.size(i - lead) == 1);
  }
  check(fits, "[expand] ", a.shape(), " does not stretch to ", shape,
        ". Sizes must be equal, -1, or 1 before; new dimensions come first");
  return record(
      "expand", a.expand(sizes), {x},
      [back = a.shape()](const Array& dy, const Wanted&) { return sum_to(dy, back); },
      Keeps::nothing);
}

Tensor narrow(const Tensor& x, int dim, std::int64_t start, std::int64_t length) {
  const Array& a = operand("narrow", x, "x");
  const int d = existing_dim("narrow", a, dim);
  const std::int64_t first = start < 0 ? start + a.size(d) : start;
  check(first >= 0 && length >= 0 && length <= a.size(d) - first, "[narrow] ", length,
        " elements from ", start, " on are not within dimension ", dim, " of ", a.shape());
  return record_part(
      "narrow", a.narrow(d, first, length), x,
      [d, first, length](const Array& whole) { return whole.narrow(d, first, length); });
}

Tensor slice(const Tensor& x, int dim, std::int64_t start, std::int64_t stop, std::int64_t step) {
  const Array& a = operand("slice", x, "x");
  const int d = existing_dim("slice", a, dim);
  check(step >= 1, "[slice] step ", step, " is not positive");
  const std::int64_t n = a.size(d);
  auto clip = [n](std::int64_t i) { return std::clamp<std::int64_t>(i < 0 ? i + n : i, 0, n); };
  const std::int64_t first = clip(start), last = std::max(first, clip(stop));
  return record_part(
      "slice", a.slice(d, first, last, step), x,
      [d, first, last, step](const Array& whole) { return whole.slice(d, first, last, step); });
}

Tensor select(const Tensor& x, int dim, std::int64_t index) {
  const Array& a = operand("select", x, "x");
  const int d = existing_dim("select", a, dim);
  const std::int64_t n = a.size(d), i = index < 0 ? index + n : index;
  check(i >= 0 && i < n, "[select] index ", index, " is not within dimension ", dim, " of ",
        a.shape());
  return record_part("select", a.select(d, i), x,
                     [d, i](const Array& whole) { return whole.select(d, i); });
}

}  // namespace tandem
