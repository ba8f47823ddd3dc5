// Kernels of floating types are compiled for three: float32, float16, bfloat16.
#pragma once

#include <tandem/core/convert.h>
#include <tandem/core/dtype.h>

namespace tandem::gpu {

/// f(T{}) with the type of the elements. REQUIRES: a floating type, not float64.
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

}  // namespace tandem::gpu
