#include <tandem/core/ops/reduce.h>

#include <tandem/core/array_ops.h>
#include <tandem/core/autocast.h>
#include <tandem/core/ops/operands.h>

namespace tandem {
namespace {

const std::vector<int> kAllDims{};

// The shape of x with 1 where `dims` are reduced: a result of either keepdim can be viewed so.
Shape kept_shape(const char* op, const Shape& shape, const std::vector<int>& dims) {
  if (dims.empty()) return Shape::filled(shape.dim(), 1);
  Shape kept = shape;
  if (shape.dim() == 0) return kept;
  for (int d : dims) kept[wrap_dim(op, d, shape.dim())] = 1;
  return kept;
}

Array stretch(const Array& y, const Shape& kept, const Shape& shape) {
  return y.reshape(kept).expand(shape);
}

// sum(x) / n. 16-bit sums would overflow or round before the division: they stay in float32.
Array mean_of(const Array& x, const std::vector<int>& dims, bool keepdim, double n) {
  const bool narrow = size_of(x.dtype()) == 2;
  const Array total =
      reduce(reduce_op<SumRule>, "mean", narrow ? x.to(DType::float32) : x, dims, keepdim);
  return map<WithRight<Div>>(total, {n}).to(x.dtype());
}

// dx = dy / (how many equal the extremum) where x equals it, else 0
Array extremum_grad(const Array& x, const Array& y, const Array& dy) {
  const Array mask = zip<Eq>(x, y);
  const DType wide = promote(dy.dtype(), DType::float32);
  const Array count = sum_to(mask.to(wide), y.shape());
  const Array share = zip<Div>(dy.to(wide), count).to(dy.dtype());
  return where(mask, share, Array::zeros({}, dy.dtype(), dy.device()));
}

template <class Rule>
Tensor extremum(const char* name, const Tensor& x, const std::vector<int>& dims, bool keepdim) {
  const Array& a = operand(name, x, "x");
  Array y = reduce(reduce_op<Rule>, name, a, dims, keepdim);
  if (!tracked(x)) return Tensor(std::move(y));
  Saved saved_y(y);
  return record(name, std::move(y), {x},
                [x = Saved(a), y = std::move(saved_y), kept = kept_shape(name, a.shape(), dims)](
                    const Array& dy, const Wanted&) {
                  return extremum_grad(x.get(), y.get().reshape(kept), dy.reshape(kept));
                });
}

Tensor arg_extremum(bool largest, const char* name, const Tensor& x) {
  const Array& a = operand(name, x, "x");
  return Tensor(arg_reduce(largest, a.reshape({a.numel()}), 0, false));
}

}  // namespace

Tensor sum(const Tensor& x, const std::vector<int>& dims, bool keepdim) {
  if (const Recast to = recast(CastGroup::full, {x})) return sum(to(x), dims, keepdim);
  const Array& a = operand("sum", x, "x");
  if (a.dtype() == DType::boolean) return sum(x.to(DType::int64), dims, keepdim);
  Array y = reduce(reduce_op<SumRule>, "sum", a, dims, keepdim);
  if (!tracked(x)) return Tensor(std::move(y));
  return record(
      "sum", std::move(y), {x},
      [shape = a.shape(), kept = kept_shape("sum", a.shape(), dims)](
          const Array& dy, const Wanted&) { return stretch(dy, kept, shape); },
      Keeps::nothing);
}

Tensor mean(const Tensor& x, const std::vector<int>& dims, bool keepdim) {
  const Array& a = operand("mean", x, "x");
  check(is_floating(a.dtype()), "[mean] needs a floating type: ", a.dtype(),
        ". Convert it first with to(float32)");
  const Shape kept = kept_shape("mean", a.shape(), dims);
  double n = 1;  // not numel() / kept.numel(): other sizes may be 0
  for (int i = 0; i < a.dim(); ++i) n *= kept[i] == a.size(i) ? 1 : double(a.size(i));
  Array y = mean_of(a, dims, keepdim, n);
  return record(
      "mean", std::move(y), {x},
      [shape = a.shape(), kept, n](const Array& dy, const Wanted&) {
        return stretch(map<WithRight<Div>>(dy, {n}), kept, shape);
      },
      Keeps::nothing);
}

Tensor max(const Tensor& x, const std::vector<int>& dims, bool keepdim) {
  return extremum<MaxRule>("max", x, dims, keepdim);
}

Tensor min(const Tensor& x, const std::vector<int>& dims, bool keepdim) {
  return extremum<MinRule>("min", x, dims, keepdim);
}

Tensor argmax(const Tensor& x, int dim, bool keepdim) {
  return Tensor(arg_reduce(true, operand("argmax", x, "x"), dim, keepdim));
}

Tensor argmin(const Tensor& x, int dim, bool keepdim) {
  return Tensor(arg_reduce(false, operand("argmin", x, "x"), dim, keepdim));
}

// clang-format off
Tensor sum(const Tensor& x) { return sum(x, kAllDims); }
Tensor mean(const Tensor& x) { return mean(x, kAllDims); }
Tensor max(const Tensor& x) { return max(x, kAllDims); }
Tensor min(const Tensor& x) { return min(x, kAllDims); }
Tensor argmax(const Tensor& x) { return arg_extremum(true, "argmax", x); }
Tensor argmin(const Tensor& x) { return arg_extremum(false, "argmin", x); }
// clang-format on

}  // namespace tandem
