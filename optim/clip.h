// Clipping: keeping gradients small, all together by their norm or each element by itself.
//
//   loss.backward();
//   optim::clip_grad_norm_(net.parameters(), 1.0);
//   optimizer.step();
//
// Names and rules are PyTorch's. Each function tells what it saw: a norm that is not finite must
// not go unnoticed. Gradients may be on several devices and are never copied: only their norms
// travel. Under DataParallel all gradients are on the first device already. Functions wait for the
// devices. With amp::GradScaler: unscale first, see amp/grad_scaler.h.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include <tandem/core/tensor.h>

namespace tandem::optim {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();  // for norm_type

/// What clipping, or taking a scale out, saw in the gradients of a list of parameters.
struct GradReport {
  double norm = 0;          // of all gradients together, before clipping; 0 without gradients
  bool clipped = false;     // were the gradients changed?
  bool nonfinite = false;   // is an element infinite or NaN?
  std::int64_t worst = -1;  // position of the parameter with the first such element, else with the
                            // largest norm; -1 without gradients
  std::int64_t gradients = 0;  // how many of the parameters have one
};

struct ClipOptions {
  bool error_if_nonfinite = false;
};

/// Multiplies all gradients by min(1, max_norm / (norm + 1e-6)), where norm is that of the norms of
/// the gradients: (sum |g|^p)^(1/p) with p = norm_type, or max |g| for kInfinity. Norms of finite
/// gradients do not overflow, so nothing is zeroed silently. Without error_if_nonfinite a NaN makes
/// every gradient NaN, and an infinity zeroes the finite elements, as in PyTorch; with it they are
/// a UsageError before anything changes. REQUIRES: max_norm >= 0, norm_type > 0.
GradReport clip_grad_norm_(const std::vector<Tensor>& parameters, double max_norm,
                           double norm_type = 2, const ClipOptions& options = {});

/// The second half of clip_grad_norm_, for a norm that is known: from GradScaler::unscale_(), or
/// put together from the stages of a model that is spread out. Says whether gradients were changed.
bool clip_grads_with_norm_(const std::vector<Tensor>& parameters, double max_norm, double norm);

/// Every element to [-limit, limit]; NaN stays NaN. `norm` of the report is max |g|, before.
/// REQUIRES: limit >= 0.
GradReport clip_grad_value_(const std::vector<Tensor>& parameters, double limit);

/// Multiplies all gradients by `factor` and reports their 2-norm afterwards, in one pass over them.
/// `nonfinite` is about the elements before.
GradReport rescale_grads_(const std::vector<Tensor>& parameters, double factor);

}  // namespace tandem::optim
