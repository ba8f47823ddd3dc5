// Losses. Each is one number for the batch, or one per sample with {.reduction = Reduction::none}.
//
// Note [A mean inside the replicas]
//   Under DataParallel a loss on the gathered output is the loss of the whole batch, whatever its
//   options. parallel::with_loss computes one mean per replica and weights it by the replica's
//   rows, which is the whole batch's mean only if each mean divides by a number of rows. With
//   `weight` or ignored targets cross_entropy and nll_loss divide by the weights of the rows that
//   count: these differ between chunks, and a chunk whose rows are all ignored gives NaN. Then take
//   Reduction::sum inside the replicas (DataParallelOptions::scalars = ScalarRule::sum) and divide
//   by the weights of the whole batch.
#pragma once

#include <cstdint>

#include <tandem/core/tensor.h>

namespace tandem::nn {

enum class Reduction : std::uint8_t { mean, sum, none };

struct LossOptions {
  Reduction reduction = Reduction::mean;
};

struct CrossEntropyOptions {
  Tensor weight{};                   // (C), of each class; no gradient reaches it. Undefined: ones
  std::int64_t ignore_index = -100;  // rows with this target do not count; it may be a class
  Reduction reduction = Reduction::mean;
  double label_smoothing = 0;  // in [0, 1]: this much of the target is spread over all classes
};

/// Softmax and negative log likelihood in one op. With lp = log_softmax(logits) over the classes,
/// w the weights and e the smoothing, for a row whose target is class y:
///   loss_i = -(1 - e) w_y lp_iy - (e / C) sum_c w_c lp_ic,  or 0 if the row is ignored
///   mean = sum of loss_i / sum of the w_y of rows that are not ignored
///   d loss_i / d logits_i = softmax(logits_i) - onehot(y)   (weights 1, no smoothing)
/// logits (N, C), (N, C, d1, ...) or (C), of a floating type. The target is on the same device and
/// either int64 class indices in [0, C), of the shape of the logits without C; or probabilities q
/// of the shape of the logits, and then
///   loss_i = -sum_c w_c ((1 - e) q_ic + e / C) lp_ic;  mean = sum of loss_i / number of rows
/// and ignore_index must be negative. Ignored rows have a gradient of exactly 0. The mean of no
/// rows, and of ignored ones alone, is NaN, as in PyTorch: use Reduction::sum if that may occur.
/// Throws UsageError for a target outside of the classes, naming its row (the position in the
/// target, in row-major order) and its value.
Tensor cross_entropy(const Tensor& logits, const Tensor& target,
                     const CrossEntropyOptions& options = {});

struct NllLossOptions {
  Tensor weight{};
  std::int64_t ignore_index = -100;
  Reduction reduction = Reduction::mean;
};

/// loss_i = -w_y logp_iy, for logarithms of probabilities; all else as cross_entropy with class
/// indices.
Tensor nll_loss(const Tensor& logp, const Tensor& target, const NllLossOptions& options = {});

/// (x - target)^2, mean over all elements. REQUIRES: equal shapes; nothing is broadcast here,
/// since (N) against (N, 1) is nearly always a mistake.
Tensor mse_loss(const Tensor& x, const Tensor& target, const LossOptions& options = {});

/// |x - target|, mean over all elements; the derivative is 0 where they are equal. REQUIRES: equal
/// shapes.
Tensor l1_loss(const Tensor& x, const Tensor& target, const LossOptions& options = {});

struct BceOptions {
  Tensor weight{};  // of each element; broadcasts. It does not change what the mean divides by
  Reduction reduction = Reduction::mean;
  Tensor pos_weight{};  // of the positive part; broadcasts: (C) for logits (N, C)
};

/// Binary cross entropy of probabilities p = sigmoid(logits), computed without overflow:
///   loss = -weight (pos_weight target log p + (1 - target) log(1 - p)), mean over all elements
/// REQUIRES: logits of a floating type; target in [0, 1] (not checked), of the same shape.
Tensor binary_cross_entropy_with_logits(const Tensor& logits, const Tensor& target,
                                        const BceOptions& options = {});
/// The same under a shorter name.
inline Tensor bce_with_logits(const Tensor& logits, const Tensor& target,
                              const BceOptions& options = {}) {
  return binary_cross_entropy_with_logits(logits, target, options);
}

}  // namespace tandem::nn
