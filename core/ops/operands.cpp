#include <tandem/core/ops/operands.h>

#include <tandem/core/array_ops.h>

namespace tandem {

void refuse_undefined(const char* op, const char* which) {
  throw UsageError(str("[", op, "] argument ", which, " is undefined. Was it ever assigned?"));
}

void refuse_undefined(const char* op, std::size_t index) {
  throw UsageError(str("[", op, "] tensor ", index, " is undefined. Was it ever assigned?"));
}

void check_one_type(const char* op, std::initializer_list<Argument> arguments) {
  const DType dtype = arguments.begin()->tensor.dtype();
  bool same = true;
  for (const Argument& a : arguments) same &= !a.tensor.defined() || a.tensor.dtype() == dtype;
  if (same) return;
  std::string text = str("[", op, "] types differ:");
  for (const Argument& a : arguments) {
    if (!a.tensor.defined()) continue;
    text += str(" ", a.name, " is ", a.tensor.dtype());
    if (a.tensor.impl()->node) text += str(" (from ", a.tensor.impl()->node->name, ")");
    text += ",";
  }
  text.back() = '.';
  throw UsageError(text +
                   " Convert them to one type with to(dtype), or compute under amp::Autocast");
}

namespace {
int category(DType dtype) {
  return is_floating(dtype) ? 2 : dtype == DType::boolean ? 0 : 1;
}
}  // namespace

DType result_type(const char* op, const Array& a, const Array& b) {
  check_arithmetic(op, a.dtype());
  check_arithmetic(op, b.dtype());
  if (a.dtype() == b.dtype()) return a.dtype();
  if ((a.dim() == 0) == (b.dim() == 0)) return promote(a.dtype(), b.dtype());
  const DType strong = a.dim() > 0 ? a.dtype() : b.dtype();
  const DType weak = a.dim() > 0 ? b.dtype() : a.dtype();
  return category(weak) > category(strong) ? weak : strong;
}

DType result_type(const char* op, const Array& a, Scalar b) {
  check_arithmetic(op, a.dtype());
  return category(b.dtype()) > category(a.dtype()) ? b.dtype() : a.dtype();
}

Tensor to_real(const char* op, const Tensor& x) {
  const Array& a = operand(op, x, "x");
  if (is_floating(a.dtype())) return x;
  check_arithmetic(op, a.dtype());
  return x.to(DType::float32);
}

Array constant(Scalar value, DType dtype, Device device) {
  if (dtype == DType::int64) {
    const std::int64_t v = value.to_int64();
    return Array::from_host(&v, {}, dtype, device);
  }
  return Array::full({}, value.to_double(), dtype, device);
}

}  // namespace tandem
