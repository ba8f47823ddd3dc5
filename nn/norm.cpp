// Normalizing layers: state here, formulas in core/ops/norm.h.
#include <tandem/nn/norm.h>

#include <tandem/core/array_ops.h>
#include <tandem/core/memory.h>
#include <tandem/core/ops/factories.h>
#include <tandem/core/ops/norm.h>
#include <tandem/core/thread_state.h>
#include <tandem/nn/describe.h>

namespace tandem::nn {

BatchNorm::BatchNorm(const char* name, int min_dim, int max_dim, std::int64_t features,
                     const BatchNormOptions& options)
    : eps(options.eps),
      momentum(options.momentum.value_or(0)),
      cumulative(!options.momentum),
      name_(name),
      min_dim_(min_dim),
      max_dim_(max_dim),
      features_(features) {
  check(features >= 0, "[", name, "] a negative number of features: ", features);
  const CategoryScope scope(Category::parameter);
  if (options.affine) {
    weight = ones({features}).requires_grad_();
    bias = zeros({features}).requires_grad_();
  }
  if (!options.track_running_stats) return;
  running_mean = zeros({features});
  running_var = ones({features});
  num_batches_tracked = zeros({}, {.dtype = int64});
}

// How much of the next batch goes into the running statistics.
double BatchNorm::next_momentum() const {
  const bool counts = cumulative && num_batches_tracked.defined();
  return counts ? 1 / (num_batches_tracked.item<double>() + 1) : momentum;
}

Tensor BatchNorm::forward(const Tensor& x) {
  check(x.defined(), "[", name_, "] x is undefined");
  check(x.dim() >= min_dim_ && x.dim() <= max_dim_ && x.size(1) == features_, "[", name_,
        "] expected x (N, ", features_, max_dim_ == 2 ? ")" : ", ...)", " with ", min_dim_,
        min_dim_ == max_dim_ ? "" : str(" to ", max_dim_), " dimensions: got ", x.shape());
  const bool tracks = running_mean.defined();
  BatchNormArguments options{.training = training || !tracks, .momentum = 0, .eps = eps};
  if (options.training) options.whole = whole_batch();
  if (training) options.momentum = next_momentum();
  const Tensor y = batch_norm(x, running_mean, running_var, weight, bias, options);
  if (training && num_batches_tracked.defined()) {
    const NoGrad no_grad;
    num_batches_tracked.add_(ones({}, {.dtype = int64, .device = num_batches_tracked.device()}));
  }
  return y;
}

void BatchNorm::visit(Visitor& v) {
  v("weight", weight);
  v("bias", bias);
  v.buffer("running_mean", running_mean);
  v.buffer("running_var", running_var);
  v.buffer("num_batches_tracked", num_batches_tracked);
  v("eps", eps);
  v("momentum", momentum);
  v("cumulative", cumulative);
}

std::string BatchNorm::describe() const {
  const std::string rate = cumulative ? "None" : str(momentum);
  return str(name_, "(", features_, ", eps=", eps, ", momentum=", rate,
             ", affine=", true_or_false(weight.defined()),
             ", track_running_stats=", true_or_false(running_mean.defined()), ")");
}

LayerNorm::LayerNorm(const Shape& normalized_shape, const LayerNormOptions& options)
    : eps(options.eps), normalized_(normalized_shape) {
  check(normalized_shape.dim() > 0, "[LayerNorm] needs at least one dimension to normalize over");
  if (!options.elementwise_affine) return;
  const CategoryScope scope(Category::parameter);
  weight = ones(normalized_shape).requires_grad_();
  bias = zeros(normalized_shape).requires_grad_();
}

Tensor LayerNorm::forward(const Tensor& x) {
  return layer_norm(x, normalized_, weight, bias, eps);
}

void LayerNorm::visit(Visitor& v) {
  v("weight", weight);
  v("bias", bias);
  v("eps", eps);
}

std::string LayerNorm::describe() const {
  std::string sizes;
  for (int d = 0; d < normalized_.dim(); ++d) {
    sizes += str(d > 0 ? ", " : "", normalized_[d]);
  }
  return str("LayerNorm((", sizes, normalized_.dim() == 1 ? ",), eps=" : "), eps=", eps,
             ", elementwise_affine=", true_or_false(weight.defined()), ")");
}

}  // namespace tandem::nn
