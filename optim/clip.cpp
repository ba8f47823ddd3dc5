// Clipping: norm per gradient, norm of the norms on the first device, one factor for all.
#include <tandem/optim/clip.h>

#include <cmath>

#include <tandem/core/array_ops.h>
#include <tandem/core/autograd.h>
#include <tandem/core/error.h>
#include <tandem/core/memory.h>

namespace tandem::optim {

namespace {

/// (sum |x|^p)^(1/p), or max |x|; no dimensions. 16-bit floats are summed in float32.
Array norm(const Array& x, double p) {
  if (x.numel() == 0) return Array::zeros({}, x.dtype(), x.device());
  if (p == kInfinity) return reduce<MaxRule>(map<Abs>(x));
  if (p == 2) return map<Sqrt>(reduce<SumOfSquaresRule>(x));
  if (p == 1) return reduce<SumRule>(map<Abs>(x));
  const Array powers = map<WithRight<Pow>>(map<Abs>(x), {p});
  return map<WithRight<Pow>>(reduce<SumRule>(powers), {1 / p});
}

/// float32, or float64 if a gradient has that.
DType norm_dtype(const std::vector<Array>& grads) {
  DType dtype = float32;
  for (const Array& g : grads) dtype = promote(dtype, g.dtype());
  return dtype;
}

Array total_norm(const std::vector<Array>& grads, double p) {
  const DType dtype = norm_dtype(grads);
  const Device device = grads.front().device();
  std::vector<Array> norms;
  norms.reserve(grads.size());
  for (const Array& g : grads) {
    const Array wide = size_of(g.dtype()) < 4 ? g.to(float32) : g;
    norms.push_back(norm(wide, p).to(dtype).to(device).reshape({1}));
  }
  return norm(concat(norms, 0), p);
}

}  // namespace

Tensor clip_grad_norm_(const std::vector<Tensor>& parameters, double max_norm, double norm_type,
                       const ClipOptions& options) {
  check(max_norm >= 0, "[clip_grad_norm_] max_norm must not be negative: ", max_norm);
  check(norm_type > 0, "[clip_grad_norm_] norm_type must be above 0: ", norm_type);
  const CategoryScope scope(Category::workspace);
  std::vector<Array> grads;
  for (const Tensor& p : parameters) {
    if (p.defined() && p.impl()->grad.defined()) grads.push_back(p.impl()->grad);
  }
  if (grads.empty()) return Tensor(Array::zeros({}, float32, thread_state().default_device));

  const Array total = total_norm(grads, norm_type);
  check(!options.error_if_nonfinite || std::isfinite(total.item()), "[clip_grad_norm_] the norm ",
        norm_type, " of the gradients is ", total.item(), ". Nothing was changed");
  // min(1, max_norm / (total + 1e-6)); NaN stays NaN
  const Array padded = map<WithRight<Add>>(total, {1e-6});
  const Array factor = map<Clamp>(map<WithLeft<Div>>(padded, {max_norm}), {0, 1});
  for (Array& g : grads) zip_<Mul>(g, factor.to(g.dtype()).to(g.device()));
  return Tensor(total);
}

}  // namespace tandem::optim
