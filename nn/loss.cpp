// Losses: cross entropy and negative log likelihood are one recorded op each, reduction included.
#include <tandem/nn/loss.h>

#include <tandem/core/array_ops.h>
#include <tandem/core/autograd.h>
#include <tandem/core/backend.h>
#include <tandem/core/ops/pointwise.h>
#include <tandem/core/ops/reduce.h>

namespace tandem::nn {

namespace {

void check_class_loss(const char* op, const Tensor& x, const Tensor& target) {
  check(x.defined() && target.defined(), "[", op, "] undefined ", x.defined() ? "target" : "input");
  check(x.dim() == 2, "[", op, "] expected an input (N, C): got ", x.shape());
  check(is_floating(x.dtype()), "[", op, "] the input must be of a floating type: it is ",
        x.dtype());
  check(target.dtype() == int64, "[", op, "] the target must be int64 class indices: got ",
        target.dtype(), " of shape ", target.shape(), ". Convert it with to(int64)");
  check(target.dim() == 1 && target.size(0) == x.size(0), "[", op,
        "] one target for each row is needed: the input is ", x.shape(), ", the target ",
        target.shape());
  check(target.device() == x.device(), "[", op, "] the input is on ", x.device(),
        ", the target on ", target.device(), ". Move it with target.to(input.device())");
}

/// (N) -> (N), or () for mean and sum.
Array reduce_loss(Array loss, Reduction reduction) {
  if (reduction == Reduction::none) return loss;
  const double rows = double(loss.numel());
  Array total = reduce<SumRule>(loss);
  return reduction == Reduction::sum ? total : map<WithRight<Div>>(total, {rows});
}

/// The gradient of each row's loss (N) from that of the reduced loss.
Array unreduce_grad(const Array& dy, std::int64_t rows, Reduction reduction) {
  if (reduction == Reduction::none) return dy;
  const Array each = reduction == Reduction::sum ? dy : map<WithRight<Div>>(dy, {double(rows)});
  return each.expand({rows});
}

/// The common half of both losses. `x` is what the gradient belongs to, `logp` the logarithms of
/// probabilities: x itself, or its log softmax.
Tensor class_loss(const char* op, const Tensor& x, const Array& logp, bool through_softmax,
                  const Tensor& target, Reduction reduction) {
  Array loss = Array::empty({x.size(0)}, x.dtype(), x.device());
  backend(x.device()).nll(logp, target.array(), loss);
  auto closure = [saved = Saved::if_(through_softmax, logp), target = Saved(target.array()),
                  like = logp.shape(), dtype = x.dtype(), through_softmax,
                  reduction](const Array& dy, const Wanted&) {
    const Array dloss = unreduce_grad(dy, like[0], reduction);
    Array dlogp = Array::empty(like, dtype, dy.device());
    backend(dy.device()).nll_grad(target.get(), dloss, dlogp);
    return through_softmax ? softmax_grad(true, saved.get(), dlogp, 1) : dlogp;
  };
  return record(op, reduce_loss(std::move(loss), reduction), {x}, std::move(closure));
}

}  // namespace

Tensor cross_entropy(const Tensor& logits, const Tensor& target, const LossOptions& options) {
  check_class_loss("cross_entropy", logits, target);
  return class_loss("cross_entropy", logits, softmax(true, logits.array(), 1), true, target,
                    options.reduction);
}

Tensor nll_loss(const Tensor& logp, const Tensor& target, const LossOptions& options) {
  check_class_loss("nll_loss", logp, target);
  return class_loss("nll_loss", logp, logp.array(), false, target, options.reduction);
}

Tensor mse_loss(const Tensor& x, const Tensor& target, const LossOptions& options) {
  check(x.defined() && target.defined(), "[mse_loss] undefined ", x.defined() ? "target" : "input");
  check(x.shape() == target.shape(), "[mse_loss] shapes differ: input ", x.shape(), ", target ",
        target.shape(), ". Reshape one of them; nothing is broadcast here");
  const Tensor difference = x - target;
  const Tensor squares = difference * difference;
  if (options.reduction == Reduction::none) return squares;
  return options.reduction == Reduction::sum ? sum(squares) : mean(squares);
}

}  // namespace tandem::nn
