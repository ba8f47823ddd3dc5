// Batch norm and layer norm: y = (x - mean) / sqrt(var + eps) weight + bias.
//
// Batch norm takes mean and variance of each channel over the batch; layer norm of each sample over
// its last dimensions. Statistics are computed in double on CPUs and in float32 on GPUs
// (Backend::statistics_type), elements of 16-bit types in float32.
// Modules with the state that PyTorch's have: nn/norm.h.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <tandem/core/tensor.h>

namespace tandem {

/// A batch that is normalized as one although its parts are in several hands, each on a thread of
/// its own: what parallel/sync_batch_norm.h gives to batch_norm().
class WholeBatch {
 public:
  using Numbers = std::vector<double>;
  virtual ~WholeBatch() = default;
  /// Waits until every part has given its numbers; returns all of them, in one order everywhere.
  virtual std::vector<Numbers> forward(Numbers mine) = 0;
  virtual std::vector<Numbers> backward(Numbers mine) = 0;
};

struct BatchNormArguments {
  bool training = false;  // normalize with this batch's statistics; else with the running ones
  double momentum = 0.1;  // how much of this batch's statistics goes into the running ones
  double eps = 1e-5;
  std::shared_ptr<WholeBatch> whole{};  // default: x is the whole batch
};

/// x (N, C, ...); all others (C), each of which may be left undefined. Training normalizes with the
/// biased variance (divided by n) of each channel and writes into the running statistics, with the
/// unbiased variance (n - 1): r = (1 - momentum) r + momentum new. Not training needs them.
/// weight and bias are of x's type, or float32 for 16-bit x. Throws UsageError for a training batch
/// with one value per channel. An empty batch gives an empty result and changes nothing.
Tensor batch_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_var,
                  const Tensor& weight = {}, const Tensor& bias = {},
                  const BatchNormArguments& options = {});

/// Over the last dimensions of x, which must be `normalized_shape`; weight and bias are of that
/// shape, or undefined.
Tensor layer_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight = {},
                  const Tensor& bias = {}, double eps = 1e-5);

}  // namespace tandem
