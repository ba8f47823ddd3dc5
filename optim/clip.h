// Clipping: gradients of all parameters together are scaled down to a norm.
#pragma once

#include <limits>
#include <vector>

#include <tandem/core/tensor.h>

namespace tandem::optim {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();  // for norm_type

struct ClipOptions {
  bool error_if_nonfinite = false;
};

/// Scales all gradients by min(1, max_norm / (total + 1e-6)), where total is the norm of the norms
/// of the gradients, and returns total as it was: a tensor without dimensions on the first
/// gradient's device. Gradients may be on several devices. Without gradients: 0.
///   norm_type p: (sum |g|^p)^(1/p); kInfinity: max |g|
/// Without error_if_nonfinite a NaN total makes every gradient NaN and an infinite one zeroes the
/// finite entries, as in PyTorch; with it, UsageError before anything changes.
/// REQUIRES: max_norm >= 0, norm_type > 0.
Tensor clip_grad_norm_(const std::vector<Tensor>& parameters, double max_norm, double norm_type = 2,
                       const ClipOptions& options = {});

}  // namespace tandem::optim
