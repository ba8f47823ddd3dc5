// Layers without weights: activations, Flatten and Dropout. What they compute stands in core/ops.
#pragma once

#include <string>

#include <tandem/nn/module.h>

namespace tandem::nn {

/// max(x, 0)
struct ReLU : Layer {
  Tensor forward(const Tensor& x) override;
  void visit(Visitor&) override {}
};

/// x Phi(x), the exact form with erf.
struct GELU : Layer {
  Tensor forward(const Tensor& x) override;
  void visit(Visitor&) override {}
};

/// x sigmoid(x)
struct SiLU : Layer {
  Tensor forward(const Tensor& x) override;
  void visit(Visitor&) override {}
};

/// x where x > 0, else negative_slope x.
struct LeakyReLU : Layer {
  double negative_slope;

  explicit LeakyReLU(double slope = 0.01) : negative_slope(slope) {}

  Tensor forward(const Tensor& x) override;
  void visit(Visitor& v) override;
  std::string describe() const override;
};

struct Tanh : Layer {
  Tensor forward(const Tensor& x) override;
  void visit(Visitor&) override {}
};

/// 1 / (1 + exp(-x))
struct Sigmoid : Layer {
  Tensor forward(const Tensor& x) override;
  void visit(Visitor&) override {}
};

/// Probabilities along `dim`, or their logarithms. For a loss, cross_entropy() takes the logits: it
/// needs neither.
struct Softmax : Layer {
  int dim;

  explicit Softmax(int along) : dim(along) {}

  Tensor forward(const Tensor& x) override;
  void visit(Visitor& v) override;
  std::string describe() const override;
};
struct LogSoftmax : Softmax {
  using Softmax::Softmax;
  Tensor forward(const Tensor& x) override;
  std::string describe() const override;
};

/// Joins the dimensions start_dim..end_dim; by default all but the batch: (N, ...) -> (N, D).
struct Flatten : Layer {
  int start_dim, end_dim;

  explicit Flatten(int start = 1, int end = -1) : start_dim(start), end_dim(end) {}

  Tensor forward(const Tensor& x) override;
  void visit(Visitor& v) override;
  std::string describe() const override;
};

/// While training, zeroes each element with probability p and scales the others by 1 / (1 - p).
struct Dropout : Layer {
  double p;

  /// REQUIRES: 0 <= probability <= 1.
  explicit Dropout(double probability = 0.5);

  Tensor forward(const Tensor& x) override;
  void visit(Visitor& v) override;
  std::string describe() const override;
};

}  // namespace tandem::nn
