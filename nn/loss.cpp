// Losses. Those with class indices are one recorded op each, reduction included; the others are
// compositions.
#include <tandem/nn/loss.h>

#include <array>

#include <tandem/core/array_ops.h>
#include <tandem/core/autocast.h>
#include <tandem/core/autograd.h>
#include <tandem/core/backend.h>
#include <tandem/core/ops/operands.h>
#include <tandem/core/ops/pointwise.h>
#include <tandem/core/ops/reduce.h>
#include <tandem/core/ops/softmax.h>
#include <tandem/core/ops/views.h>

namespace tandem::nn {

namespace {

// ---- classes

/// What a loss with class indices is asked for.
struct ClassRule {
  const char* op;
  bool through_softmax;  // the input is logits, not logarithms of probabilities
  Array weight;          // (C) or undefined, in the type that is computed in
  std::int64_t ignore_index;
  Reduction reduction;
  double smoothing;
};

// 16-bit losses are added up in float32.
DType wide(DType dtype) {
  return dtype == DType::float64 ? DType::float64 : DType::float32;
}

int class_dim(const Tensor& x) {
  return x.dim() == 1 ? 0 : 1;
}

void check_input(const char* op, const Tensor& x, const Tensor& target) {
  check(x.defined() && target.defined(), "[", op, "] undefined ", x.defined() ? "target" : "input");
  check(x.dim() > 0, "[", op, "] expected an input (N, C), (N, C, d1, ...) or (C): got ",
        x.shape());
  check(is_floating(x.dtype()), "[", op, "] the input must be of a floating type: it is ",
        x.dtype());
  check(target.device() == x.device(), "[", op, "] the input is on ", x.device(),
        ", the target on ", target.device(), ". Move it with target.to(input.device())");
}

void check_classes(const char* op, const Tensor& x, const Tensor& target) {
  check(target.dtype() == int64, "[", op, "] the target must be int64 class indices: got ",
        target.dtype(), " of shape ", target.shape(), " for an input ", x.shape(),
        ". Convert it with to(int64)");
  Shape rows;
  for (int d = 0; d < x.dim(); ++d) {
    if (d != class_dim(x)) rows.push_back(x.size(d));
  }
  check(target.shape() == rows, "[", op,
        "] one target for each row is needed: the input (N, C), (N, C, d1, ...) or (C) is ",
        x.shape(), ", so the target is ", rows, ": got ", target.shape());
}

Array checked_weight(const char* op, const Tensor& weight, const Tensor& x) {
  if (!weight.defined()) return {};
  const std::int64_t classes = x.size(class_dim(x));
  check(weight.shape() == Shape{classes} && is_floating(weight.dtype()), "[", op,
        "] the weight must be floating, one for each of the ", classes, " classes: got ",
        weight.dtype(), " ", weight.shape());
  check(weight.device() == x.device(), "[", op, "] the input is on ", x.device(),
        ", the weight on ", weight.device(), ". Move it with weight.to(input.device())");
  return weight.array().to(wide(x.dtype())).clone();  // backward reads it: later writes do no harm
}

// (N, C, d1, ...) as (N, d1, ..., C), and back.
Array classes_last(const Array& x) {
  if (x.dim() < 3) return x;
  std::vector<int> order{0};
  for (int d = 2; d < x.dim(); ++d) order.push_back(d);
  order.push_back(1);
  return x.permute(order);
}
Array classes_second(const Array& x) {
  if (x.dim() < 3) return x;
  std::vector<int> order{0, x.dim() - 1};
  for (int d = 1; d + 1 < x.dim(); ++d) order.push_back(d);
  return x.permute(order);
}

// x (M), but 0 in rows that are ignored.
Array unless_ignored(const ClassRule& rule, const Array& labels, const Array& x) {
  const Array ignored = zip<Eq>(labels, constant(rule.ignore_index, int64, x.device()));
  return where(ignored, constant(0.0, x.dtype(), x.device()), x);
}

// (1 - e) loss_i - (e / C) sum_c w_c lp_ic
Array smoothed(const ClassRule& rule, const Array& logp, const Array& labels, const Array& loss) {
  Array all = logp.to(loss.dtype());
  if (rule.weight.defined()) all = zip<Mul>(all, rule.weight);
  const Array spread = scale(reduce<SumRule>(all, {1}), -rule.smoothing / double(logp.size(1)));
  return zip<Add>(scale(loss, 1 - rule.smoothing), unless_ignored(rule, labels, spread));
}

// The gradient of smoothed() with respect to lp; g (M) is that of its result.
Array smoothed_grad(const ClassRule& rule, const Array& dlogp, const Array& labels,
                    const Array& g) {
  const Array each = scale(g, -rule.smoothing / double(dlogp.size(1)));
  Array spread = unless_ignored(rule, labels, each).unsqueeze(1);
  if (rule.weight.defined()) spread = zip<Mul>(spread, rule.weight);
  return zip<Add>(dlogp.to(g.dtype()), spread).to(dlogp.dtype());
}

// The gradient of each row's loss (M) from that of the reduced loss; `total` is what a mean divides
// by.
Array unreduced(const ClassRule& rule, const Array& dy, std::int64_t rows, const Array& total) {
  if (rule.reduction == Reduction::none) return dy.reshape({rows});
  return (rule.reduction == Reduction::sum ? dy : zip<Div>(dy, total)).expand({rows});
}

// The common half of cross_entropy and nll_loss. Rows are the positions of the target.
Tensor class_loss(ClassRule rule, const Tensor& x, const Tensor& target) {
  const DType type = wide(x.dtype());
  const Array in = classes_last(x.array()), labels = target.array().reshape({target.numel()});
  const Shape matrix{target.numel(), in.shape().back()}, shape = in.shape();
  const Array logp = (rule.through_softmax ? softmax(true, in, -1) : in).reshape(matrix);
  Array loss = Array::empty({matrix[0]}, type, x.device());
  Array row_weight = Array::empty({matrix[0]}, type, x.device());
  backend(x.device()).nll(logp, labels, rule.weight, rule.ignore_index, loss, row_weight);
  if (rule.smoothing > 0) loss = smoothed(rule, logp, labels, loss);

  Array total;  // what a mean divides by
  if (rule.reduction == Reduction::none) {
    loss = loss.reshape(target.shape());
  } else {
    loss = reduce<SumRule>(loss);
  }
  if (rule.reduction == Reduction::mean) {
    total = reduce<SumRule>(row_weight);
    loss = zip<Div>(loss, total);
  }
  auto closure = [rule, saved = Saved::if_(rule.through_softmax, logp), labels = Saved(labels),
                  row_weight, total, matrix, shape, dtype = x.dtype(),
                  type](const Array& dy, const Wanted&) {
    const Array g = unreduced(rule, dy.to(type), matrix[0], total);
    Array dlogp = Array::empty(matrix, dtype, dy.device());
    backend(dy.device())
        .nll_grad(labels.get(), row_weight, rule.ignore_index,
                  rule.smoothing > 0 ? scale(g, 1 - rule.smoothing) : g, dlogp);
    if (rule.smoothing > 0) dlogp = smoothed_grad(rule, dlogp, labels.get(), g);
    if (rule.through_softmax) dlogp = softmax_grad(true, saved.get(), dlogp, 1);
    return classes_second(dlogp.reshape(shape));
  };
  return record(rule.op, loss.to(x.dtype()), {x}, std::move(closure));
}

// loss_i = -sum_c w_c ((1 - e) q_ic + e / C) lp_ic
Tensor probability_loss(const Tensor& logits, const Tensor& target,
                        const CrossEntropyOptions& options) {
  check(options.ignore_index < 0, "[cross_entropy] ignore_index ", options.ignore_index,
        " with probabilities as the target: only class indices can be ignored");
  const int dim = class_dim(logits);
  const double e = options.label_smoothing;
  const Tensor q = e > 0 ? target * (1 - e) + e / double(logits.size(dim)) : target;
  Tensor terms = log_softmax(logits, dim) * q;
  if (options.weight.defined()) {
    const Array weight = checked_weight("cross_entropy", options.weight, logits);
    Shape shape{weight.size(0)};
    for (int d = dim + 1; d < logits.dim(); ++d) shape.push_back(1);
    terms = terms * Tensor(weight.to(terms.dtype()).reshape(shape));
  }
  const Tensor loss = -sum(terms, {dim});
  if (options.reduction == Reduction::none) return loss;
  return options.reduction == Reduction::sum ? sum(loss) : mean(loss);
}

// ---- elements

void check_pair(const char* op, const Tensor& x, const Tensor& target) {
  check(x.defined() && target.defined(), "[", op, "] undefined ", x.defined() ? "target" : "input");
  check(x.shape() == target.shape(), "[", op, "] shapes differ: input ", x.shape(), ", target ",
        target.shape(), ". Reshape one of them; nothing is broadcast here");
}

Tensor reduced(const Tensor& losses, Reduction reduction) {
  if (reduction == Reduction::none) return losses;
  return reduction == Reduction::sum ? sum(losses) : mean(losses);
}

// The rule BceWithLogits (zip_rules.h); t may broadcast to x.
Tensor binary_loss(const Tensor& x, const Tensor& t) {
  constexpr const char* op = "binary_cross_entropy_with_logits";
  constexpr ZipOp rule = zip_op<BceWithLogits>;
  return record(
      op, zip(rule, op, x.array(), t.array()), {x, t},
      [x = Saved(x.array()), t = Saved(t.array())](const Array& dy, const Wanted& wanted) {
        const Array &a = x.get(), &b = t.get();
        std::array<Array, 2> grads;
        if (wanted[0]) grads[0] = zip_grad(rule, op, 0, a, b, dy);
        if (wanted[1]) grads[1] = sum_to(zip_grad(rule, op, 1, a, b, dy), b.shape());
        return grads;
      });
}

}  // namespace

Tensor cross_entropy(const Tensor& logits, const Tensor& target,
                     const CrossEntropyOptions& options) {
  if (const Recast to = recast(CastGroup::full, {logits, target})) {
    return cross_entropy(to(logits), to(target), options);
  }
  constexpr const char* op = "cross_entropy";
  check_input(op, logits, target);
  check(options.label_smoothing >= 0 && options.label_smoothing <= 1, "[", op,
        "] label_smoothing must be between 0 and 1: got ", options.label_smoothing);
  if (is_floating(target.dtype()) && target.shape() == logits.shape()) {
    return probability_loss(logits, target, options);
  }
  check_classes(op, logits, target);
  return class_loss({op, true, checked_weight(op, options.weight, logits), options.ignore_index,
                     options.reduction, options.label_smoothing},
                    logits, target);
}

Tensor nll_loss(const Tensor& logp, const Tensor& target, const NllLossOptions& options) {
  if (const Recast to = recast(CastGroup::full, {logp})) return nll_loss(to(logp), target, options);
  constexpr const char* op = "nll_loss";
  check_input(op, logp, target);
  check_classes(op, logp, target);
  return class_loss({op, false, checked_weight(op, options.weight, logp), options.ignore_index,
                     options.reduction, 0},
                    logp, target);
}

Tensor mse_loss(const Tensor& x, const Tensor& target, const LossOptions& options) {
  if (const Recast to = recast(CastGroup::full, {x, target})) {
    return mse_loss(to(x), to(target), options);
  }
  check_pair("mse_loss", x, target);
  const Tensor difference = x - target;
  return reduced(difference * difference, options.reduction);
}

Tensor l1_loss(const Tensor& x, const Tensor& target, const LossOptions& options) {
  if (const Recast to = recast(CastGroup::full, {x, target})) {
    return l1_loss(to(x), to(target), options);
  }
  check_pair("l1_loss", x, target);
  return reduced(abs(x - target), options.reduction);
}

// A positive weight p adds (p - 1) target log p, and -log sigmoid(x) is the loss of x for target 1.
Tensor binary_cross_entropy_with_logits(const Tensor& logits, const Tensor& target,
                                        const BceOptions& options) {
  if (const Recast to = recast(CastGroup::full, {logits, target})) {
    return binary_cross_entropy_with_logits(to(logits), to(target), options);
  }
  constexpr const char* op = "binary_cross_entropy_with_logits";
  check_pair(op, logits, target);
  check(is_floating(logits.dtype()), "[", op, "] the logits must be of a floating type: they are ",
        logits.dtype());
  const Tensor t = target.to(logits.dtype());
  Tensor loss = binary_loss(logits, t);
  if (options.pos_weight.defined()) {
    const Tensor one(constant(1.0, logits.dtype(), logits.device()));
    loss = loss + (options.pos_weight - 1.0) * t * binary_loss(logits, one);
  }
  if (options.weight.defined()) loss = loss * options.weight;
  return reduced(loss, options.reduction);
}

}  // namespace tandem::nn
