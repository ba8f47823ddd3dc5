// The methods of Tensor that are short for something else: ops, copies, single values; and writing
// in place. What a Tensor is stands in tensor.cpp.
#include <cmath>

#include <tandem/core/array_ops.h>
#include <tandem/core/ops/linalg.h>
#include <tandem/core/ops/operands.h>
#include <tandem/core/ops/pointwise.h>
#include <tandem/core/ops/reduce.h>
#include <tandem/core/ops/softmax.h>
#include <tandem/core/ops/views.h>
#include <tandem/core/tensor.h>

namespace tandem {

// ---- Scalar

double Scalar::to_double() const {
  return std::visit([](auto v) { return double(v); }, value_);
}

std::int64_t Scalar::to_int64() const {
  return std::visit([](auto v) { return std::int64_t(v); }, value_);
}

DType Scalar::dtype() const {
  constexpr DType types[] = {DType::float32, DType::int64, DType::boolean};
  return types[value_.index()];
}

// ---- values on the host

// clang-format off
template <> double Tensor::item<double>() const { return array().item(); }
template <> float Tensor::item<float>() const { return float(array().item()); }
template <> bool Tensor::item<bool>() const { return array().item() != 0; }
template <> int Tensor::item<int>() const { return int(item<std::int64_t>()); }
// clang-format on
template <>
std::int64_t Tensor::item<std::int64_t>() const {
  const Array& a = array();
  if (a.dtype() != DType::int64 || a.numel() != 1) return std::int64_t(a.item());
  return a.to_vector<std::int64_t>()[0];  // not by way of double, which rounds above 2^53
}

// ---- copies

Tensor Tensor::to(Device device, CopyOptions options) const {
  const Array& a = operand("to", *this, "x");
  if (device == a.device()) return *this;
  return record(
      "to", a.to(device, options), {*this},
      [back = a.device()](const Array& dy, const Wanted&) { return dy.to(back); }, Keeps::nothing);
}

Tensor Tensor::to(DType dtype) const {
  const Array& a = operand("to", *this, "x");
  if (dtype == a.dtype()) return *this;
  if (!is_floating(dtype)) return Tensor(a.to(dtype));
  return record(
      "to", a.to(dtype), {*this},
      [back = a.dtype()](const Array& dy, const Wanted&) { return dy.to(back); }, Keeps::nothing);
}

Tensor Tensor::to(MemoryFormat format) const {
  return contiguous(format);
}

Tensor Tensor::contiguous(MemoryFormat format) const {
  const Array& a = operand("contiguous", *this, "x");
  if (a.is_contiguous(format)) return *this;
  return record(
      "contiguous", a.to(format), {*this},
      [back = nearest_format(a)](const Array& dy, const Wanted&) { return dy.to(back); },
      Keeps::nothing);
}

Tensor Tensor::clone() const {
  return record(
      "clone", operand("clone", *this, "x").clone(), {*this},
      [](const Array& dy, const Wanted&) { return dy; }, Keeps::nothing);
}

Tensor Tensor::pin_memory() const {
  const Array& a = operand("pin_memory", *this, "x");
  Array pinned = a.pin_memory();
  if (pinned.same_as(a)) return *this;
  return record(
      "pin_memory", std::move(pinned), {*this}, [](const Array& dy, const Wanted&) { return dy; },
      Keeps::nothing);
}

// ---- views and math: what the ops say

// clang-format off
Tensor Tensor::view(const Shape& shape) const { return tandem::view(*this, shape); }
Tensor Tensor::reshape(const Shape& shape) const { return tandem::reshape(*this, shape); }
Tensor Tensor::flatten(int start_dim, int end_dim) const { return tandem::flatten(*this, start_dim, end_dim); }
Tensor Tensor::permute(const std::vector<int>& dims) const { return tandem::permute(*this, dims); }
Tensor Tensor::transpose(int dim0, int dim1) const { return tandem::transpose(*this, dim0, dim1); }
Tensor Tensor::squeeze() const { return tandem::squeeze(*this); }
Tensor Tensor::squeeze(int dim) const { return tandem::squeeze(*this, dim); }
Tensor Tensor::unsqueeze(int dim) const { return tandem::unsqueeze(*this, dim); }
Tensor Tensor::expand(const Shape& shape) const { return tandem::expand(*this, shape); }
Tensor Tensor::narrow(int dim, std::int64_t start, std::int64_t length) const { return tandem::narrow(*this, dim, start, length); }
Tensor Tensor::slice(int dim, std::int64_t start, std::int64_t stop, std::int64_t step) const { return tandem::slice(*this, dim, start, stop, step); }
Tensor Tensor::select(int dim, std::int64_t index) const { return tandem::select(*this, dim, index); }
Tensor Tensor::operator[](std::int64_t index) const { return tandem::select(*this, 0, index); }
std::vector<Tensor> Tensor::split(std::int64_t size, int dim) const { return tandem::split(*this, size, dim); }
std::vector<Tensor> Tensor::chunk(std::int64_t chunks, int dim) const { return tandem::chunk(*this, chunks, dim); }

Tensor Tensor::exp() const { return tandem::exp(*this); }
Tensor Tensor::log() const { return tandem::log(*this); }
Tensor Tensor::sqrt() const { return tandem::sqrt(*this); }
Tensor Tensor::abs() const { return tandem::abs(*this); }
Tensor Tensor::tanh() const { return tandem::tanh(*this); }
Tensor Tensor::sigmoid() const { return tandem::sigmoid(*this); }
Tensor Tensor::relu() const { return tandem::relu(*this); }
Tensor Tensor::clamp(Scalar min, Scalar max) const { return tandem::clamp(*this, min, max); }
Tensor Tensor::pow(Scalar exponent) const { return tandem::pow(*this, exponent); }
Tensor Tensor::sum() const { return tandem::sum(*this); }
Tensor Tensor::sum(const std::vector<int>& dims, bool keepdim) const { return tandem::sum(*this, dims, keepdim); }
Tensor Tensor::mean() const { return tandem::mean(*this); }
Tensor Tensor::mean(const std::vector<int>& dims, bool keepdim) const { return tandem::mean(*this, dims, keepdim); }
Tensor Tensor::max() const { return tandem::max(*this); }
Tensor Tensor::min() const { return tandem::min(*this); }
Tensor Tensor::argmax() const { return tandem::argmax(*this); }
Tensor Tensor::argmax(int dim, bool keepdim) const { return tandem::argmax(*this, dim, keepdim); }
Tensor Tensor::matmul(const Tensor& other) const { return tandem::matmul(*this, other); }
Tensor Tensor::softmax(int dim) const { return tandem::softmax(*this, dim); }
Tensor Tensor::log_softmax(int dim) const { return tandem::log_softmax(*this, dim); }
// clang-format on

Tensor Tensor::t() const {
  check(dim() <= 2, "[t] the shape is ", shape(), ". Use transpose() to name two dimensions");
  return dim() < 2 ? *this : tandem::transpose(*this, 0, 1);
}

// ---- in place

namespace {

void check_source(const char* op, const Tensor& from) {
  check(
      !tracked(from), "[", op,
      "] in place, the gradient of what is written would be lost. Use detach(), NoGrad, or the op "
      "that returns a new tensor");
}

// `other`, converted to the type of the tensor that it changes.
Array same_type(const char* op, const Array& self, const Tensor& other) {
  const Array& b = operand(op, other, "other");
  check_source(op, other);
  check_same_device(op, {&self, &b});
  const DType meet = result_type(op, self, b);
  check(meet == self.dtype() || is_floating(self.dtype()), "[", op, "] in place, ", b.dtype(),
        " does not fit into ", self.dtype(), ". Convert one of them with to(dtype)");
  return b.to(self.dtype());
}

Array same_type(const char* op, const Array& self, Scalar other) {
  const DType meet = result_type(op, self, other);
  check(meet == self.dtype(), "[", op, "] in place, a number of ", other.dtype(),
        " does not fit into ", self.dtype(), ". Convert the tensor first with to(dtype)");
  return constant(other, self.dtype(), self.device());
}

}  // namespace

Tensor& Tensor::copy_(const Tensor& from) {
  operand("copy_", *this, "self");
  const Array& source = operand("copy_", from, "from");
  check_in_place("copy_");
  check_source("copy_", from);
  Array& a = impl_->value;
  check_writable("copy_", a);
  check(broadcast("copy_", source.shape(), a.shape()) == a.shape(), "[copy_] ", source.shape(),
        " does not fit into ", a.shape());
  const Array values = source.to(a.dtype());
  copy(a, values.shape() == a.shape() ? values : values.to(a.device()).expand(a.shape()));
  return *this;
}

Tensor& Tensor::fill_(Scalar value) {
  operand("fill_", *this, "self");
  check_in_place("fill_");
  fill(impl_->value, value.to_double());
  return *this;
}

Tensor& Tensor::zero_() {
  return fill_(0);
}

namespace {
// a += alpha b
void add_scaled(const char* op, Array& a, const Tensor& other, double alpha) {
  const Array b = same_type(op, a, other);
  check(is_floating(a.dtype()) || alpha == std::trunc(alpha), "[", op, "] alpha ", alpha,
        " does not fit into ", a.dtype());
  zip_(zip_op<Add>, op, a, alpha == 1 ? b : scale(b, alpha));
}
}  // namespace

Tensor& Tensor::add_(const Tensor& other, double alpha) {
  operand("add_", *this, "self");
  check_in_place("add_");
  add_scaled("add_", impl_->value, other, alpha);
  return *this;
}

Tensor& Tensor::sub_(const Tensor& other, double alpha) {
  operand("sub_", *this, "self");
  check_in_place("sub_");
  add_scaled("sub_", impl_->value, other, -alpha);
  return *this;
}

Tensor& Tensor::mul_(const Tensor& other) {
  operand("mul_", *this, "self");
  check_in_place("mul_");
  zip_(zip_op<Mul>, "mul_", impl_->value, same_type("mul_", impl_->value, other));
  return *this;
}

Tensor& Tensor::mul_(Scalar other) {
  operand("mul_", *this, "self");
  check_in_place("mul_");
  zip_(zip_op<Mul>, "mul_", impl_->value, same_type("mul_", impl_->value, other));
  return *this;
}

Tensor& Tensor::div_(Scalar other) {
  operand("div_", *this, "self");
  check_in_place("div_");
  zip_(zip_op<Div>, "div_", impl_->value, same_type("div_", impl_->value, other));
  return *this;
}

}  // namespace tandem
