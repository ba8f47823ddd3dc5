// What maps and their derivatives know of the rules. Included by map.cu and map_grad.cu only.
#pragma once

#include <tandem/core/cuda/kernels/map.h>
#include <tandem/core/cuda/kernels/pointwise.cuh>

namespace tandem::gpu {

/// The numbers in the type that a rule computes in.
template <class C>
Params<C> params([[maybe_unused]] const MapNumbers& numbers) {
  if constexpr (std::is_same_v<C, float>) {
    return numbers.real;
  } else if constexpr (std::is_same_v<C, std::int64_t>) {
    return numbers.whole;
  } else {
    return {};
  }
}

template <class F>
inline constexpr int formula_length = F::packet ? kLongFormula : kShortFormula;
template <>
inline constexpr int formula_length<WithRight<Pow>> = kVeryLongFormula;
template <>
inline constexpr int formula_length<WithLeft<Pow>> = kVeryLongFormula;

}  // namespace tandem::gpu
