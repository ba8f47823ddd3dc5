// Adam and AdamW: steps scaled by running moments of the gradient, PyTorch's rules bit for bit.
#pragma once

#include <array>

#include <tandem/optim/optimizer.h>

namespace tandem::optim {

struct AdamOptions {
  double lr = 1e-3;
  std::array<double, 2> betas{0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0;
  bool amsgrad = false;
  bool maximize = false;
};

struct AdamWOptions {
  double lr = 1e-3;
  std::array<double, 2> betas{0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 1e-2;
  bool amsgrad = false;
  bool maximize = false;
};

///   g = g + weight_decay p
///   m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
///   p = p - lr / (1 - beta1^t) m / (sqrt(v / (1 - beta2^t)) + eps)
/// amsgrad: the largest v so far instead of v. t counts the steps of each parameter.
class Adam : public Optimizer {
 public:
  /// Throws UsageError for negative lr, eps or weight_decay, betas outside [0, 1), an empty list, a
  /// parameter given twice.
  explicit Adam(std::vector<Tensor> parameters, const AdamOptions& options = {});
  explicit Adam(std::vector<ParamGroup> groups, const AdamOptions& defaults = {});

  const char* name() const override { return "Adam"; }
  std::span<const char* const> state_names() const override;

 protected:
  Adam() = default;

 private:
  void check_options(const Options& options) const override;
  UpdateOp rule() const override;
  void prepare(const Options& options, ParamState& state, UpdateItem& item) const override;
  /// Is weight decay taken off the parameter itself instead of added to the gradient?
  virtual bool decoupled() const { return false; }
};

/// Adam with decoupled weight decay: p = p (1 - lr weight_decay), then Adam without decay.
class AdamW : public Adam {
 public:
  explicit AdamW(std::vector<Tensor> parameters, const AdamWOptions& options = {});
  explicit AdamW(std::vector<ParamGroup> groups, const AdamWOptions& defaults = {});

  const char* name() const override { return "AdamW"; }

 private:
  bool decoupled() const override { return true; }
};

}  // namespace tandem::optim
