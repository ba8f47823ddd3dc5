#include <tandem/core/ops/linalg.h>

#include <array>

#include <tandem/core/array_ops.h>
#include <tandem/core/autocast.h>
#include <tandem/core/ops/operands.h>
#include <tandem/core/ops/views.h>

namespace tandem {
namespace {

Array transposed(const Array& a) {
  return a.transpose(a.dim() - 2, a.dim() - 1);
}

// (M, K) (K, N), or both with one equal batch dimension in front.
// dA = dC B^T, dB = A^T dC
Tensor product(const Tensor& a, const Tensor& b) {
  const Array &x = a.array(), &y = b.array();
  return record("matmul", gemm(x, y), {a, b},
                [a = Saved::if_(tracked(b), x), b = Saved::if_(tracked(a), y)](
                    const Array& dc, const Wanted& wanted) {
                  std::array<Array, 2> grads;
                  if (wanted[0]) grads[0] = gemm(dc, transposed(b.get()));
                  if (wanted[1]) grads[1] = gemm(transposed(a.get()), dc);
                  return grads;
                });
}

// Sizes of all but the last `n` dimensions.
Shape leading(const Shape& shape, int n) {
  return Shape(std::span(shape.begin(), shape.end() - n));
}

// `sizes` followed by `rows` and `columns`.
Shape with_matrix(Shape sizes, std::int64_t rows, std::int64_t columns) {
  sizes.push_back(rows);
  sizes.push_back(columns);
  return sizes;
}

// Both have at least two dimensions, one of them more. A plain matrix on the right needs no batch:
// the rows of all matrices on the left make one tall one.
Tensor batched(const Tensor& a, const Tensor& b) {
  const std::int64_t m = a.size(-2), k = a.size(-1), n = b.size(-1);
  if (b.dim() == 2) {
    const Shape lead = leading(a.shape(), 2);
    return view(product(reshape(a, {lead.numel() * m, k}), b), with_matrix(lead, m, n));
  }
  const Shape lead = broadcast("matmul", leading(a.shape(), 2), leading(b.shape(), 2));
  const std::int64_t count = lead.numel();
  const Tensor x = reshape(expand(a, with_matrix(lead, m, k)), {count, m, k});
  const Tensor y = reshape(expand(b, with_matrix(lead, k, n)), {count, k, n});
  return view(product(x, y), with_matrix(lead, m, n));
}

void check_linear(const Array& x, const Array& weight, const Array* bias) {
  check(weight.dim() == 2, "[linear] the weight is (out, in): ", weight.shape());
  check(x.dim() >= 1 && x.shape().back() == weight.size(1), "[linear] x ", x.shape(),
        " does not end in the weight's input size: weight (out, in) = ", weight.shape());
  check(bias == nullptr || bias->shape() == Shape{weight.size(0)}, "[linear] the bias is ",
        bias ? bias->shape() : Shape(), ", the weight (out, in) = ", weight.shape());
  check_same_device("linear", {&x, &weight, bias});
}

// y = x W^T + b, or relu of that.
// dx = dz W, dW = dz^T x, db = sum of the rows of dz, where dz = dy, or y > 0 ? dy : 0
Tensor affine(const char* name, const Tensor& x, const Tensor& weight, const Tensor& bias,
              bool rectified) {
  if (const Recast to = recast(CastGroup::low, {x, weight, bias})) {
    return affine(name, to(x), to(weight), to(bias), rectified);
  }
  const Array &in = operand("linear", x, "x"), &w = operand("linear", weight, "weight");
  check_linear(in, w, bias.defined() ? &bias.array() : nullptr);
  check_one_type("linear", {{"x", x}, {"weight", weight}, {"bias", bias}});
  Shape shape = in.shape();
  shape[shape.dim() - 1] = w.size(0);
  const Array rows = in.reshape({leading(in.shape(), 1).numel(), w.size(1)});
  Array y = gemm(rows, transposed(w));
  if (bias.defined()) zip_<Add>(y, bias.array());
  if (rectified) relu_(y);
  return record(name, y.view_or_undefined(shape), {x, weight, bias},
                [rows = Saved::if_(tracked(weight), rows), w = Saved::if_(tracked(x), w),
                 y = Saved::if_(rectified, y), shape = in.shape(),
                 out = w.size(0)](const Array& dy, const Wanted& wanted) {
                  const Array dys = dy.reshape({leading(shape, 1).numel(), out});
                  const auto [dz, db] = bias_gradients(y.get(), dys, {out}, wanted[2]);
                  std::array<Array, 3> grads;
                  grads[2] = db;
                  if (wanted[0]) grads[0] = gemm(dz, w.get()).view_or_undefined(shape);
                  if (wanted[1]) grads[1] = gemm(transposed(dz), rows.get());
                  return grads;
                });
}

}  // namespace

Tensor matmul(const Tensor& a, const Tensor& b) {
  if (const Recast to = recast(CastGroup::low, {a, b})) return matmul(to(a), to(b));
  const Array &x = operand("matmul", a, "a"), &y = operand("matmul", b, "b");
  check(x.dim() > 0 && y.dim() > 0, "[matmul] operands need a dimension: ", x.shape(), " and ",
        y.shape(), ". Use mul for numbers");
  check(x.shape().back() == y.size(y.dim() == 1 ? 0 : y.dim() - 2),
        "[matmul] inner sizes differ: ", x.shape(), " and ", y.shape());
  check_one_type("matmul", {{"a", a}, {"b", b}});
  if (x.dim() == 2 && y.dim() == 2) return product(a, b);
  if (x.dim() == 1) return squeeze(matmul(unsqueeze(a, 0), b), y.dim() == 1 ? 0 : -2);
  if (y.dim() == 1) return squeeze(matmul(a, unsqueeze(b, 1)), -1);
  return batched(a, b);
}

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  return affine("linear", x, weight, bias, false);
}

Tensor linear_relu(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  return affine("linear_relu", x, weight, bias, true);
}

}  // namespace tandem
