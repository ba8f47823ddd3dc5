// Update rules: one optimizer step of one element, written once for every backend.
//
// Coefficients are computed in double by the optimizer and rounded once here, as PyTorch does; the
// places of fma() give PyTorch's bits on a CPU. See optim/ for what the coefficients mean.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

#include <tandem/core/array.h>
#include <tandem/core/functors.h>

namespace tandem {

/// One parameter of Backend::update(): everything is written in place except `grad`.
struct UpdateItem {
  Array param;
  Array grad;
  std::array<Array, 3> state{};         // undefined where a rule has none
  std::array<double, 8> coefficients{};  // see the rule's constructor
};

}  // namespace tandem
