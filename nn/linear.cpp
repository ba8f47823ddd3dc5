// Linear: weights drawn first, then the bias, as PyTorch draws them.
#include <tandem/nn/linear.h>

#include <cmath>

#include <tandem/core/memory.h>
#include <tandem/core/ops/factories.h>
#include <tandem/core/ops/linalg.h>
#include <tandem/nn/describe.h>
#include <tandem/nn/init.h>

namespace tandem::nn {

Linear::Linear(std::int64_t in_features, std::int64_t out_features, const LinearOptions& options) {
  check(in_features >= 0 && out_features >= 0, "[Linear] negative size: in_features ", in_features,
        ", out_features ", out_features);
  const CategoryScope scope(Category::parameter);
  weight = empty({out_features, in_features});
  // The bound is 1 / sqrt(in) in the end, but PyTorch gets there by kaiming_uniform_'s formula,
  // and the last bit of the double decides the bits of the weights.
  init::kaiming_uniform_(weight, {.a = std::sqrt(5.0)});
  weight.requires_grad_();
  if (!options.bias) return;
  bias = zeros({out_features});
  if (in_features > 0) {
    const double bound = 1 / std::sqrt(double(in_features));
    init::uniform_(bias, -bound, bound);
  }
  bias.requires_grad_();
}

Tensor Linear::forward(const Tensor& x) {
  return linear(x, weight, bias);
}

void Linear::visit(Visitor& v) {
  v("weight", weight);
  v("bias", bias);
}

std::string Linear::describe() const {
  return str("Linear(in_features=", in_features(), ", out_features=", out_features(),
             ", bias=", true_or_false(bias.defined()), ")");
}

}  // namespace tandem::nn
