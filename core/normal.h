// Normalization of arrays: what batch norm, synchronised batch norm and layer norm are made of.
//
// x is seen as (outer, C, inner), row-major, with statistics for each of the C channels: batch norm
// of (N, C, H, W) is (N, C, H W), or (N H W, C, 1) if it is channels-last; batch norm of (N, C) is
// (N, C, 1), and layer norm of rows of n elements is (1, rows, n). Statistics are few, so where the
// backend can they are float64 whatever x is: Backend::statistics_type(). What the kernels compute
// stands in backend.h. Next: ops/norm.cpp.
#pragma once

#include <tandem/core/array.h>

namespace tandem {

/// What x is normalized with.
struct Normal {
  Array mean, var;  // (C), of statistics_type(x)
  double eps = 0;
  /// Undefined (1 and 0), or one for each channel (C, 1) or for each position (1, inner); float64
  /// for x of that type, else float32.
  Array weight, bias;
};

/// The type that x is computed in, and that weight and bias must have.
constexpr DType normal_type(DType dtype) {
  return dtype == DType::float64 ? DType::float64 : DType::float32;
}

/// The type of mean, var and all sums over a channel of x, on x's device.
DType statistics_type(const Array& x);

/// The mean, and the sum of squared deviations from it; (C). Zeros if there is nothing.
struct Moments {
  Array mean, m2;
};
Moments moments(const Array& x);

/// (x - mean) / sqrt(var + eps) weight + bias
Array normalize(const Array& x, const Normal& by);

/// Sums over a channel of g and of g xhat, where g = weight dy and xhat = (x - mean) / sqrt(var +
/// eps).
struct NormalSums {
  Array g, gx;  // (C)
};
NormalSums normalize_sums(const Array& x, const Normal& by, const Array& dy);

/// dx = (weight dy - mean g - xhat mean gx) / sqrt(var + eps), where `means` holds those two.
Array normalize_grad(const Array& x, const Normal& by, const Array& dy, const NormalSums& means);

}  // namespace tandem
