// Both norms are the four functions of core/normal.h on x seen as (outer, C, inner).
#include <tandem/core/ops/norm.h>

#include <array>

#include <tandem/core/array_ops.h>
#include <tandem/core/autocast.h>
#include <tandem/core/normal.h>
#include <tandem/core/ops/operands.h>

namespace tandem {
namespace {

/// x (N, C, ...) as the kernels see it, (outer, C, inner), and back: channels-last images as
/// (N H W, C, 1), others as (N, C, inner).
struct ByChannel {
  Shape shape;
  MemoryFormat format;

  explicit ByChannel(const Array& x) : shape(x.shape()), format(nearest_format(x)) {}

  Array split(const Array& x) const {
    const Array dense = x.to(format);
    const std::int64_t channels = shape[1];
    if (format == MemoryFormat::channels_last) {
      const std::int64_t pixels = shape[0] * shape[2] * shape[3];
      return dense.permute({0, 2, 3, 1}).view_or_undefined({pixels, channels, 1});
    }
    std::int64_t inner = 1;
    for (int d = 2; d < shape.dim(); ++d) inner *= shape[d];
    return dense.view_or_undefined({shape[0], channels, inner});
  }
  Array join(const Array& y) const {
    if (format == MemoryFormat::contiguous) return y.view_or_undefined(shape);
    return y.view_or_undefined({shape[0], shape[2], shape[3], shape[1]}).permute({0, 3, 1, 2});
  }
};

/// A weight or bias as the kernels want it; undefined stays undefined.
Array coefficients(const Array& p, const Shape& shape, DType x) {
  if (!p.defined()) return {};
  return p.contiguous().view_or_undefined({p.numel()}).to(normal_type(x)).view_or_undefined(shape);
}

Array value(const Tensor& t) {
  return t.defined() ? t.array() : Array{};
}

void check_real(const char* op, const Array& x) {
  check_arithmetic(op, x.dtype());
  check(is_floating(x.dtype()), "[", op, "] x is ", x.dtype(),
        ". Expected a floating type: convert it with to(float32)");
}

/// `which` of `op`, if it is there, has `shape` and a type that goes with x.
void check_beside(const char* op, const char* which, const Array& x, const Array& p,
                  const Shape& shape) {
  if (!p.defined()) return;
  check(p.shape() == shape, "[", op, "] ", which, " is ", p.shape(), ". Expected ", shape,
        " for x ", x.shape());
  check(p.dtype() == x.dtype() || p.dtype() == normal_type(x.dtype()), "[", op, "] x is ",
        x.dtype(), ", ", which, " ", p.dtype(), ". Convert them to one type with to(dtype)");
}

// ---- what the parts of a batch tell each other

// Numbers travel between the parts as double, whatever the device has.
std::vector<double> numbers_of(const Array& statistic) {
  if (statistic.dtype() == DType::float64) return statistic.to_vector<double>();
  const std::vector<float> numbers = statistic.to_vector<float>();
  return {numbers.begin(), numbers.end()};
}
Array statistic_of(const double* numbers, const Array& like) {
  if (like.dtype() == DType::float64) {
    return Array::from_host(numbers, like.shape(), DType::float64, like.device());
  }
  const std::vector<float> rounded(numbers, numbers + like.numel());
  return Array::from_host(rounded.data(), like.shape(), DType::float32, like.device());
}

struct BatchMoments {
  double count = 0;  // values per channel
  Moments moments;
};

// Two parts a and b, with d = mean_b - mean_a:
// mean = mean_a + d n_b / n, m2 = m2_a + m2_b + d^2 n_a n_b / n
BatchMoments combined(WholeBatch& whole, const BatchMoments& mine) {
  std::vector<double> numbers = numbers_of(mine.moments.mean);
  const std::size_t channels = numbers.size();
  const std::vector<double> m2 = numbers_of(mine.moments.m2);
  numbers.insert(numbers.end(), m2.begin(), m2.end());
  numbers.push_back(mine.count);
  std::vector<double> sum(2 * channels, 0);
  double count = 0;
  for (const std::vector<double>& part : whole.forward(std::move(numbers))) {
    const double n = part.back(), total = count + n;
    for (std::size_t c = 0; c < channels && total > 0; ++c) {
      const double d = part[c] - sum[c];
      sum[c] += d * n / total;
      sum[channels + c] += part[channels + c] + d * d * count * n / total;
    }
    count = total;
  }
  const Array& like = mine.moments.mean;
  return {count, {statistic_of(sum.data(), like), statistic_of(sum.data() + channels, like)}};
}

NormalSums combined(WholeBatch& whole, const NormalSums& mine) {
  std::vector<double> numbers = numbers_of(mine.g);
  const std::size_t channels = numbers.size();
  const std::vector<double> gx = numbers_of(mine.gx);
  numbers.insert(numbers.end(), gx.begin(), gx.end());
  std::vector<double> sum(2 * channels, 0);
  for (const std::vector<double>& part : whole.backward(std::move(numbers))) {
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
  }
  return {statistic_of(sum.data(), mine.g), statistic_of(sum.data() + channels, mine.g)};
}

// ---- batch norm

/// r = (1 - momentum) r + momentum now, in place, computed in the type of statistics.
void follow(const Tensor& running, const Array& now, double momentum) {
  if (!running.defined()) return;
  Array r = running.array();
  const Array next = zip<Add>(scale(r.to(now.dtype()), 1 - momentum), scale(now, momentum));
  copy(r, next.to(r.dtype()));
}

/// A copy that no later write of the running statistics changes.
Array statistic(const Tensor& running, DType dtype) {
  const Array& r = running.array();
  return r.dtype() == dtype ? r.clone() : r.to(dtype);
}

struct BatchNormGrad {
  Saved x, weight;  // x (outer, C, inner)
  ByChannel view;
  Array mean, var;
  BatchNormArguments options;
  double count;  // values per channel of the whole batch
  DType weight_type, bias_type;

  // Training: dx = weight invstd / n (n dy - sum dy - xhat sum(dy xhat)), where the sums are over
  // the whole batch. Else statistics are constants: dx = weight invstd dy.
  // dweight = sum(dy xhat), dbias = sum dy: of this part; who has several adds them up.
  std::array<Array, 3> operator()(const Array& dy, const Wanted& wanted) const {
    const Array g = view.split(dy);
    Normal by{mean, var, options.eps, {}, {}};
    NormalSums sums;
    const bool centered = wanted[0] && options.training;
    if (centered || wanted[1] || wanted[2]) sums = normalize_sums(x.get(), by, g);
    std::array<Array, 3> grads;
    if (wanted[1]) grads[1] = sums.gx.to(weight_type);
    if (wanted[2]) grads[2] = sums.g.to(bias_type);
    if (!wanted[0]) return grads;
    by.weight = coefficients(weight.get(), {g.size(1), 1}, g.dtype());
    const Array dx = centered ? train(g, by, sums) : constant(g, by);
    grads[0] = view.join(dx);
    return grads;
  }

 private:
  Array train(const Array& g, const Normal& by, NormalSums sums) const {
    if (options.whole) sums = combined(*options.whole, sums);
    for (Array* s : {&sums.g, &sums.gx}) {
      *s = scale(*s, 1 / count);
      if (by.weight.defined()) {
        *s = zip<Mul>(*s, by.weight.to(s->dtype()).view_or_undefined(s->shape()));
      }
    }
    return normalize_grad(x.get(), by, g, sums);
  }
  static Array constant(const Array& g, Normal by) {
    by.mean = Array::zeros(by.mean.shape(), by.mean.dtype(), g.device());
    return normalize(g, by);
  }
};

void check_batch_norm(const Array& x, std::initializer_list<const Tensor*> others, bool training) {
  const char* names[] = {"running_mean", "running_var", "weight", "bias"};
  check_real("batch_norm", x);
  check(x.dim() >= 2, "[batch_norm] expected x (N, C, ...): got ", x.shape());
  int i = 0;
  for (const Tensor* t : others) {
    const char* which = names[i++];
    check_beside("batch_norm", which, x, value(*t), {x.size(1)});
    const Array p = value(*t);
    check_same_device("batch_norm", {&x, &p});
    check(training || i > 2 || t->defined(), "[batch_norm] ", which,
          " is undefined, and without training there is nothing else to normalize with");
  }
}

/// The batch's statistics, which go into the running ones too.
BatchMoments batch_statistics(const Array& x, const Tensor& running_mean, const Tensor& running_var,
                              const BatchNormArguments& options) {
  BatchMoments batch{double(x.size(0) * x.size(2)), moments(x)};
  if (options.whole) batch = combined(*options.whole, batch);
  check(batch.count != 1,
        "[batch_norm] training needs more than one value per channel, and x seen as (N, C, inner) "
        "is ",
        x.shape(), ". Use a larger batch, or eval()");
  if (batch.count == 0) return batch;
  follow(running_mean, batch.moments.mean, options.momentum);
  follow(running_var, scale(batch.moments.m2, 1 / (batch.count - 1)), options.momentum);
  return batch;
}

}  // namespace

Tensor batch_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_var,
                  const Tensor& weight, const Tensor& bias, const BatchNormArguments& options) {
  const Array& in = operand("batch_norm", x, "x");
  check_batch_norm(in, {&running_mean, &running_var, &weight, &bias}, options.training);
  const ByChannel view(in);
  const Array x3 = view.split(in);
  const Shape per_channel{x3.size(1), 1};
  Normal by{{},
            {},
            options.eps,
            coefficients(value(weight), per_channel, in.dtype()),
            coefficients(value(bias), per_channel, in.dtype())};
  double count = 0;
  if (options.training) {
    BatchMoments batch = batch_statistics(x3, running_mean, running_var, options);
    count = batch.count;
    by.mean = std::move(batch.moments.mean);
    by.var = count > 0 ? scale(batch.moments.m2, 1 / count) : std::move(batch.moments.m2);
  } else {
    by.mean = statistic(running_mean, statistics_type(x3));
    by.var = statistic(running_var, statistics_type(x3));
  }
  const bool affine = tracked(weight) || tracked(bias);
  BatchNormGrad grad{Saved::if_(affine || (options.training && tracked(x)), x3),
                     Saved::if_(tracked(x), value(weight)),
                     view,
                     by.mean,
                     by.var,
                     options,
                     count,
                     value(weight).dtype(),
                     value(bias).dtype()};
  return record("batch_norm", view.join(normalize(x3, by)), {x, weight, bias}, std::move(grad));
}

// ---- layer norm

namespace {

struct LayerNormGrad {
  Saved x, weight;  // x (1, rows, n)
  Shape shape, normalized;
  Array mean, var;
  double eps;
  DType weight_type, bias_type;

  // With g = weight dy: dx = invstd (g - mean g - xhat mean(g xhat)), means over a row.
  // dweight = sum(dy xhat), dbias = sum dy, over the rows.
  std::array<Array, 3> operator()(const Array& dy, const Wanted& wanted) const {
    const Array g = dy.contiguous().view_or_undefined({1, mean.size(0), normalized.numel()});
    Normal by{mean, var, eps, {}, {}};
    std::array<Array, 3> grads;
    if (wanted[1]) {
      const Array xhat = normalize(x.get(), by).to(normal_type(g.dtype()));
      grads[1] = over_rows(zip<Mul>(g.to(xhat.dtype()), xhat), weight_type);
    }
    if (wanted[2]) grads[2] = over_rows(g.to(normal_type(g.dtype())), bias_type);
    if (!wanted[0]) return grads;
    const std::int64_t n = g.size(2);
    by.weight = coefficients(weight.get(), {1, n}, g.dtype());
    NormalSums sums = normalize_sums(x.get(), by, g);
    if (n > 0) sums = {scale(sums.g, 1 / double(n)), scale(sums.gx, 1 / double(n))};
    grads[0] = normalize_grad(x.get(), by, g, sums).view_or_undefined(shape);
    return grads;
  }

 private:
  Array over_rows(const Array& a, DType dtype) const {
    return reduce<SumRule>(a, {0, 1}).to(dtype).view_or_undefined(normalized);
  }
};

}  // namespace

Tensor layer_norm(const Tensor& x, const Shape& normalized, const Tensor& weight,
                  const Tensor& bias, double eps) {
  if (const Recast to = recast(CastGroup::full, {x, weight, bias})) {
    return layer_norm(to(x), normalized, to(weight), to(bias), eps);
  }
  const Array& in = operand("layer_norm", x, "x");
  check_real("layer_norm", in);
  const int lead = in.dim() - normalized.dim();
  check(normalized.dim() > 0 && lead >= 0 &&
            Shape(std::span(in.shape().begin() + lead, in.shape().end())) == normalized,
        "[layer_norm] x ", in.shape(), " does not end in ", normalized);
  const Array w = value(weight), b = value(bias);
  check_beside("layer_norm", "weight", in, w, normalized);
  check_beside("layer_norm", "bias", in, b, normalized);
  check_same_device("layer_norm", {&in, &w, &b});
  const std::int64_t n = normalized.numel();
  std::int64_t rows = 1;
  for (int d = 0; d < lead; ++d) rows *= in.size(d);
  const Array x3 = in.contiguous().view_or_undefined({1, rows, n});
  const Moments m = moments(x3);
  const Normal by{m.mean, n > 0 ? scale(m.m2, 1 / double(n)) : m.m2, eps,
                  coefficients(w, {1, n}, in.dtype()), coefficients(b, {1, n}, in.dtype())};
  const bool needs_x = tracked(x) || tracked(weight);
  LayerNormGrad grad{Saved::if_(needs_x, x3),
                     Saved::if_(tracked(x), w),
                     in.shape(),
                     normalized,
                     by.mean,
                     by.var,
                     eps,
                     w.dtype(),
                     b.dtype()};
  return record("layer_norm", normalize(x3, by).view_or_undefined(in.shape()), {x, weight, bias},
                std::move(grad));
}

}  // namespace tandem
