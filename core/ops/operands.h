// What ops ask of their operands before they compute: to be defined, and of a common type.
//
// Every op takes its values through operand(), so an undefined tensor is an error that names the op
// and the argument. Next: pointwise.cpp, where types promote.
#pragma once

#include <initializer_list>

#include <tandem/core/autograd.h>
#include <tandem/core/tensor.h>
#include <tandem/core/thread_state.h>

namespace tandem {

/// Throws UsageError: argument `which` of `op` is undefined.
[[noreturn]] void refuse_undefined(const char* op, const char* which);
[[noreturn]] void refuse_undefined(const char* op, std::size_t index);

/// The value of an argument. REQUIRES: it is defined.
inline const Array& operand(const char* op, const Tensor& t, const char* which) {
  if (!t.defined()) [[unlikely]]
    refuse_undefined(op, which);
  return t.impl()->value;
}
inline const Array& operand(const char* op, const Tensor& t, std::size_t index) {
  if (!t.defined()) [[unlikely]]
    refuse_undefined(op, index);
  return t.impl()->value;
}

/// A named argument, for messages.
struct Argument {
  const char* name;
  const Tensor& tensor;
};
/// Throws UsageError, naming every type and the op it comes from, unless all defined arguments have
/// one dtype: for ops that do not promote.
void check_one_type(const char* op, std::initializer_list<Argument> arguments);

/// Will an op on `t` be recorded? Then it may have to save something.
inline bool tracked(const Tensor& t) {
  return thread_state().grad_enabled && t.requires_grad();
}

/// The type that `a` and `b` meet in, as in PyTorch: tensors with dimensions outrank 0-dim ones,
/// and those and numbers decide only by being of a higher category (bool < integer < float).
DType result_type(const char* op, const Array& a, const Array& b);
DType result_type(const char* op, const Array& a, Scalar b);

/// float32 in the place of integers and bool.
constexpr DType real_type(DType dtype) {
  return is_floating(dtype) ? dtype : DType::float32;
}

/// `x` as a floating tensor, for functions of real numbers. Storage types are refused.
Tensor to_real(const char* op, const Tensor& x);

/// A 0-dim array.
Array constant(Scalar value, DType dtype, Device device);

}  // namespace tandem
