// SGD: stochastic gradient descent with momentum, PyTorch's rule bit for bit.
#pragma once

#include <limits>

#include <tandem/optim/optimizer.h>

namespace tandem::optim {

struct SGDOptions {
  double lr = std::numeric_limits<double>::quiet_NaN();  // required
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
  bool maximize = false;
};

///   d = g + weight_decay p
///   b = momentum b + (1 - dampening) d, the first time b = d
///   p = p - lr (nesterov ? d + momentum b : b)
class SGD : public Optimizer {
 public:
  /// Throws UsageError for a missing or negative lr, negative momentum or weight_decay, nesterov
  /// without momentum or with dampening, an empty list, a parameter given twice.
  SGD(std::vector<Tensor> parameters, const SGDOptions& options);
  SGD(std::vector<ParamGroup> groups, const SGDOptions& defaults);

  const char* name() const override { return "SGD"; }
  std::span<const char* const> state_names() const override;

 private:
  void check_options(const Options& options) const override;
  UpdateOp rule() const override;
  void prepare(const Options& options, ParamState& state, UpdateItem& item) const override;
};

}  // namespace tandem::optim
