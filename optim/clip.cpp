// Clipping: a norm per gradient, the norm of the norms on the host, one factor for all.
#include <tandem/optim/clip.h>

#include <algorithm>
#include <cmath>

#include <tandem/core/array_ops.h>
#include <tandem/core/autograd.h>
#include <tandem/core/error.h>
#include <tandem/core/memory.h>
#include <tandem/core/rescale.h>

namespace tandem::optim {

namespace {

/// The gradients there are, and whose they are.
struct Gradients {
  std::vector<Array> arrays;
  std::vector<std::size_t> owners;

  explicit Gradients(const std::vector<Tensor>& parameters) {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const Tensor& p = parameters[i];
      if (!p.defined() || !p.impl()->grad.defined()) continue;
      arrays.push_back(p.impl()->grad);
      owners.push_back(i);
    }
  }
};

/// (sum |x|^p)^(1/p) for the 0-dim result of a sum; values are >= 0.
double plain_norm(const Array& values, double p) {
  if (p == 1) return reduce<SumRule>(values).item();
  const Array powers = map<WithRight<Pow>>(values, {p});
  return std::pow(reduce<SumRule>(powers).item(), 1 / p);
}

/// Norms other than 2, in float32 or float64. Where powers of finite numbers leave the range of the
/// type: max |x| times the norm of |x| / max |x|.
Measure measure(const Array& x, double p) {
  if (x.numel() == 0) return {};
  const Array values = map<Abs>(x.to(promote(x.dtype(), float32)));
  const double largest = reduce<MaxRule>(values).item();
  if (!std::isfinite(largest)) return {largest, false};
  if (p == kInfinity || largest == 0) return {largest, true};
  const double norm = plain_norm(values, p);
  if (std::isfinite(norm) && norm > 1e-15) return {norm, true};
  return {largest * plain_norm(map<WithRight<Div>>(values, {largest}), p), true};
}

std::vector<Measure> measure_all(std::vector<Array>& grads, double p) {
  if (p == 2) return rescale_(grads, 1);
  std::vector<Measure> measures;
  measures.reserve(grads.size());
  for (const Array& g : grads) measures.push_back(measure(g, p));
  return measures;
}

/// total = (sum norm_i^p)^(1/p), as largest (sum (norm_i / largest)^p)^(1/p)
GradReport report_of(const std::vector<Measure>& measures, const Gradients& grads, double p) {
  GradReport report{.gradients = std::int64_t(measures.size())};
  double largest = 0;
  for (std::size_t i = 0; i < measures.size(); ++i) {
    const Measure& m = measures[i];
    const bool first_bad = !m.finite && !report.nonfinite;
    if (first_bad || (!report.nonfinite && (report.worst < 0 || m.norm > largest))) {
      report.worst = std::int64_t(grads.owners[i]);
    }
    report.nonfinite |= !m.finite;
    if (std::isnan(m.norm) || m.norm > largest) largest = std::isnan(largest) ? largest : m.norm;
  }
  report.norm = largest;
  if (p == kInfinity || largest == 0 || !std::isfinite(largest)) return report;
  double sum = 0;
  for (const Measure& m : measures) sum += std::pow(m.norm / largest, p);
  report.norm = largest * std::pow(sum, 1 / p);
  return report;
}

/// Gradients times min(1, max_norm / (norm + 1e-6)). PyTorch multiplies by 1 as well, which changes
/// no bit.
bool clip(std::vector<Array>& grads, double max_norm, double norm) {
  const double factor = max_norm / (norm + 1e-6);
  if (factor >= 1) return false;  // NaN is not
  rescale_(grads, factor);
  return !grads.empty();
}

}  // namespace

GradReport clip_grad_norm_(const std::vector<Tensor>& parameters, double max_norm, double norm_type,
                           const ClipOptions& options) {
  check(max_norm >= 0, "[clip_grad_norm_] max_norm must not be negative: ", max_norm);
  check(norm_type > 0, "[clip_grad_norm_] norm_type must be above 0: ", norm_type);
  const CategoryScope scope(Category::workspace);
  Gradients grads(parameters);
  GradReport report = report_of(measure_all(grads.arrays, norm_type), grads, norm_type);
  check(!options.error_if_nonfinite || !report.nonfinite,
        "[clip_grad_norm_] the gradient of "
        "parameter ",
        report.worst, " has infinite or NaN elements; the norm ", norm_type,
        " of all gradients is ", report.norm, ". Nothing was changed");
  report.clipped = clip(grads.arrays, max_norm, report.norm);
  return report;
}

bool clip_grads_with_norm_(const std::vector<Tensor>& parameters, double max_norm, double norm) {
  check(max_norm >= 0, "[clip_grads_with_norm_] max_norm must not be negative: ", max_norm);
  check(!(norm < 0), "[clip_grads_with_norm_] a norm is not negative: ", norm);
  Gradients grads(parameters);
  return clip(grads.arrays, max_norm, norm);
}

GradReport clip_grad_value_(const std::vector<Tensor>& parameters, double limit) {
  check(limit >= 0, "[clip_grad_value_] the limit must not be negative: ", limit);
  const CategoryScope scope(Category::workspace);
  Gradients grads(parameters);
  const std::vector<Measure> measures = measure_all(grads.arrays, kInfinity);
  GradReport report = report_of(measures, grads, kInfinity);
  for (std::size_t i = 0; i < measures.size(); ++i) {
    if (measures[i].norm <= limit) continue;  // NaN is not
    Array& g = grads.arrays[i];
    copy(g, map<Clamp>(g, {-limit, limit}));
    report.clipped = true;
  }
  return report;
}

GradReport rescale_grads_(const std::vector<Tensor>& parameters, double factor) {
  Gradients grads(parameters);
  return report_of(rescale_(grads.arrays, factor), grads, 2);
}

}  // namespace tandem::optim
