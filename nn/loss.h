// Losses. Each is one number for the batch, or one per sample with {.reduction = Reduction::none}.
#pragma once

#include <cstdint>

#include <tandem/core/tensor.h>

namespace tandem::nn {

enum class Reduction : std::uint8_t { mean, sum, none };

struct LossOptions {
  Reduction reduction = Reduction::mean;
};

/// Softmax and negative log likelihood in one op: loss_i = -log softmax(logits_i)[target_i].
///   d loss_i / d logits_i = softmax(logits_i) - onehot(target_i)
/// logits (N, C) of a floating type; target (N) int64 class indices in [0, C), on the same device.
/// The mean of an empty batch is NaN, as in PyTorch.
Tensor cross_entropy(const Tensor& logits, const Tensor& target, const LossOptions& options = {});

/// loss_i = -logp_i[target_i], for logarithms of probabilities; shapes as cross_entropy.
Tensor nll_loss(const Tensor& logp, const Tensor& target, const LossOptions& options = {});

/// (x - target)^2, mean over all elements. REQUIRES: equal shapes; nothing is broadcast here,
/// since (N) against (N, 1) is nearly always a mistake.
Tensor mse_loss(const Tensor& x, const Tensor& target, const LossOptions& options = {});

}  // namespace tandem::nn
