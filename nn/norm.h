// Normalizing layers: BatchNorm1d, BatchNorm2d, LayerNorm.
//
// Names and semantics are PyTorch's: weight starts as ones, bias as zeros; running_mean,
// running_var and num_batches_tracked are buffers that forward writes in place while training.
// Under DataParallel each replica normalizes with the statistics of its own chunk, and those of the
// first device are kept; parallel/sync_batch_norm.h takes the whole batch instead.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <tandem/nn/module.h>

namespace tandem {
class WholeBatch;
}

namespace tandem::nn {

struct BatchNormOptions {
  double eps = 1e-5;
  std::optional<double> momentum = 0.1;  // none: the average over all batches so far
  bool affine = true;                    // with weight and bias
  bool track_running_stats = true;       // else evaluation uses the batch's statistics too
};

/// What the batch norms have in common. Made on the thread's default device, in float32.
struct BatchNorm : Layer {
  Tensor weight, bias;               // (C), or undefined
  Tensor running_mean, running_var;  // (C), or undefined
  Tensor num_batches_tracked;        // () int64, or undefined
  double eps;
  double momentum;  // counts unless `cumulative`
  bool cumulative;

  std::int64_t num_features() const { return features_; }

  /// x (N, C, ...) -> the same shape. Throws UsageError for another number of dimensions or
  /// channels, and for a training batch with one value per channel.
  Tensor forward(const Tensor& x) override;
  void visit(Visitor& v) override;
  std::string describe() const override;

 protected:
  BatchNorm(const char* name, int min_dim, int max_dim, std::int64_t features,
            const BatchNormOptions& options);
  /// The batch that x is a part of, if it is one; asked while batch statistics are used.
  virtual std::shared_ptr<WholeBatch> whole_batch() { return nullptr; }

 private:
  double next_momentum() const;

  const char* name_;
  int min_dim_, max_dim_;
  std::int64_t features_;
};

/// x (N, C) or (N, C, L)
struct BatchNorm1d : BatchNorm {
  explicit BatchNorm1d(std::int64_t features, const BatchNormOptions& options = {})
      : BatchNorm("BatchNorm1d", 2, 3, features, options) {}
};

/// x (N, C, H, W)
struct BatchNorm2d : BatchNorm {
  explicit BatchNorm2d(std::int64_t features, const BatchNormOptions& options = {})
      : BatchNorm("BatchNorm2d", 4, 4, features, options) {}
};

struct LayerNormOptions {
  double eps = 1e-5;
  bool elementwise_affine = true;  // with weight and bias
};

/// Normalizes each sample over its last dimensions, which must be `normalized_shape`.
struct LayerNorm : Layer {
  Tensor weight, bias;  // normalized_shape, or undefined
  double eps;

  explicit LayerNorm(const Shape& normalized_shape, const LayerNormOptions& options = {});
  explicit LayerNorm(std::int64_t features, const LayerNormOptions& options = {})
      : LayerNorm(Shape{features}, options) {}

  const Shape& normalized_shape() const { return normalized_; }

  Tensor forward(const Tensor& x) override;
  void visit(Visitor& v) override;
  std::string describe() const override;

 private:
  Shape normalized_;
};

}  // namespace tandem::nn
