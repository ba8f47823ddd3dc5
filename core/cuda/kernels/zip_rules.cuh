// What zips and their derivatives know of the rules. Included by zip.cu and zip_grad.cu only.
#pragma once

#include <tandem/core/cuda/kernels/zip.h>
#include <tandem/core/cuda/kernels/pointwise.cuh>

namespace tandem::gpu {

template <class F>
inline constexpr int formula_length = kShortFormula;
template <>
inline constexpr int formula_length<Pow> = kVeryLongFormula;
template <>
inline constexpr int formula_length<BceWithLogits> = kLongFormula;

}  // namespace tandem::gpu
