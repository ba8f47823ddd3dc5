// From the dtype of a call to the type that a kernel is compiled for; float64 is none of them.
#pragma once

#include <cstdint>
#include <type_traits>

#include <tandem/core/convert.h>
#include <tandem/core/dtype.h>

namespace tandem::gpu {

/// What is computed in for elements of type T.
template <class T>
using Compute = std::conditional_t<is_half<T>, float, T>;

/// f(T{}) with the type of the elements. REQUIRES: float32, float16 or bfloat16.
template <class F>
void with_float(DType dtype, F&& f) {
  switch (dtype) {
    case DType::float16:
      return f(Half{});
    case DType::bfloat16:
      return f(BFloat16{});
    default:
      return f(float{});
  }
}

/// The same for these and int64.
template <class F>
void with_number(DType dtype, F&& f) {
  if (dtype == DType::int64) return f(std::int64_t{});
  with_float(dtype, f);
}

/// The same for these and bool.
template <class F>
void with_number_or_bool(DType dtype, F&& f) {
  if (dtype == DType::boolean) return f(bool{});
  with_number(dtype, f);
}

/// Element i of an array of floats, in float32.
template <class Index>
__device__ inline float load_float(DType dtype, const void* x, Index i) {
  switch (dtype) {
    case DType::float16:
      return float(static_cast<const Half*>(x)[i]);
    case DType::bfloat16:
      return float(static_cast<const BFloat16*>(x)[i]);
    default:
      return static_cast<const float*>(x)[i];
  }
}

}  // namespace tandem::gpu
