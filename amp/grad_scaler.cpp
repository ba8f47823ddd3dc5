// The scaler's rules. The scale is a float32 number on the host: step() must know whether gradients
// were finite before it can step, so there is nothing to gain from keeping it on a device.
#include <tandem/amp/grad_scaler.h>

#include <algorithm>
#include <cmath>

#include <tandem/core/autograd.h>
#include <tandem/core/error.h>
#include <tandem/core/ops/pointwise.h>

namespace tandem::amp {

namespace {

void check_options(const GradScalerOptions& o) {
  check(o.init_scale > 0 && std::isfinite(float(o.init_scale)),
        "[GradScaler] init_scale must be above 0 and finite in float32: ", o.init_scale);
  check(o.growth_factor > 1, "[GradScaler] growth_factor must be above 1: ", o.growth_factor);
  check(o.backoff_factor > 0 && o.backoff_factor < 1,
        "[GradScaler] backoff_factor must be in (0, 1): ", o.backoff_factor);
  check(o.growth_interval > 0, "[GradScaler] growth_interval must be above 0: ", o.growth_interval);
  check(o.min_scale >= 0, "[GradScaler] min_scale must not be negative: ", o.min_scale);
  check(o.max_skips >= 0, "[GradScaler] max_skips must not be negative: ", o.max_skips);
}

std::vector<Tensor> parameters_of(const optim::Optimizer& optimizer) {
  std::vector<Tensor> all;
  for (const optim::ParamGroup& group : optimizer.param_groups()) {
    all.insert(all.end(), group.params.begin(), group.params.end());
  }
  return all;
}

}  // namespace

GradScaler::GradScaler(const GradScalerOptions& options)
    : options_(options), scale_(float(options.init_scale)) {
  check_options(options);
}

Tensor GradScaler::scale(const Tensor& x) {
  if (!options_.enabled) return x;
  check(x.defined() && is_floating(x.dtype()), "[GradScaler] scale() needs a floating tensor");
  Tensor scaled = mul(x, double(scale_));
  used_ = true;
  return scaled;
}

std::vector<Tensor> GradScaler::scale(const std::vector<Tensor>& xs) {
  std::vector<Tensor> scaled;
  for (const Tensor& x : xs) scaled.push_back(scale(x));
  return scaled;
}

void GradScaler::check_scaled(const char* op) const {
  check(used_, "[GradScaler] ", op,
        "() before any scale(): gradients of an unscaled loss would be "
        "divided by ",
        scale_, ". Call scaler.scale(loss).backward()");
}

void GradScaler::check_gradients(const char* op, const optim::Optimizer& optimizer) const {
  const std::vector<Tensor> parameters = parameters_of(optimizer);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Array& grad = parameters[i].impl()->grad;
    check(!grad.defined() || grad.dtype() != float16, "[GradScaler] ", op,
          "(): the gradient of parameter ", i, " of ", optimizer.name(),
          " is float16. Keep "
          "parameters in float32; Autocast casts them where that is safe");
  }
}

// inv = float32(1 / scale); g = g inv
GradScaler::Record& GradScaler::unscale(const char* op, optim::Optimizer& optimizer) {
  check_gradients(op, optimizer);
  const double inverse = double(float(1.0 / double(scale_)));
  Record record;
  record.gradients = optim::rescale_grads_(parameters_of(optimizer), inverse);
  if (record.gradients.nonfinite) note_skip(optimizer, record.gradients);
  return records_[&optimizer] = record;
}

optim::GradReport GradScaler::unscale_(optim::Optimizer& optimizer) {
  if (!options_.enabled) return optim::rescale_grads_(parameters_of(optimizer), 1);
  check_scaled("unscale_");
  const auto at = records_.find(&optimizer);
  check(at == records_.end(), "[GradScaler] unscale_(): the gradients of this ", optimizer.name(),
        at != records_.end() && at->second.stepped
            ? " were used by step() already. Call unscale_() between backward() and step()"
            : " were unscaled already since the last update(). With accumulated gradients, call "
              "unscale_() once, after the last backward()");
  return unscale("unscale_", optimizer).gradients;
}

ScaledStep GradScaler::step(optim::Optimizer& optimizer) {
  if (!options_.enabled) {
    optimizer.step();
    return {};
  }
  check_scaled("step");
  const auto at = records_.find(&optimizer);
  check(at == records_.end() || !at->second.stepped,
        "[GradScaler] step() was called already for "
        "this ",
        optimizer.name(),
        " since the last update(). Call update() after the steps of all "
        "optimizers");
  const std::vector<Tensor> parameters = parameters_of(optimizer);
  check(std::any_of(parameters.begin(), parameters.end(),
                    [](const Tensor& p) { return p.impl()->grad.defined(); }),
        "[GradScaler] step(): no parameter of this ", optimizer.name(),
        " has a gradient. Was "
        "backward() called, and does the loss depend on its parameters?");
  Record& record = at == records_.end() ? unscale("step", optimizer) : at->second;
  const bool skip = record.gradients.nonfinite;
  if (!skip) optimizer.step();
  record.stepped = true;
  return {skip, record.gradients};
}

void GradScaler::note_skip(const optim::Optimizer& optimizer, const optim::GradReport& gradients) {
  if (!first_bad_.empty()) return;
  const Tensor p = parameters_of(optimizer).at(std::size_t(gradients.worst));
  first_bad_ = str("parameter ", gradients.worst, " of ", optimizer.name(), ", shape ", p.shape());
}

void GradScaler::update() {
  if (!options_.enabled) return;
  check_scaled("update");
  const bool checked = std::any_of(records_.begin(), records_.end(),
                                   [](auto& r) { return r.second.gradients.gradients > 0; });
  check(checked,
        "[GradScaler] update(): no gradients were checked since the last one. Call step(), "
        "or unscale_() if you step yourself");
  const std::string bad = std::exchange(first_bad_, {});
  records_.clear();
  if (bad.empty()) {
    grow();
    return;
  }
  back_off();
  check<Error>(options_.max_skips == 0 || skips_ < options_.max_skips,
               "[GradScaler] gradients were "
               "not finite in ",
               skips_, " steps in a row; the scale is down to ", scale_,
               " and not the "
               "cause. The first such gradient is that of ",
               bad,
               ". Look for a NaN in the data or the "
               "loss, or lower the learning rate");
}

void GradScaler::update(double new_scale) {
  if (!options_.enabled) return;
  check_scaled("update");
  check(new_scale > 0 && std::isfinite(float(new_scale)),
        "[GradScaler] update(): a scale is above "
        "0 and finite in float32: ",
        new_scale);
  scale_ = float(new_scale);
  records_.clear();
  first_bad_.clear();
}

void GradScaler::back_off() {
  ++skips_;
  growth_tracker_ = 0;
  const float lower = float(double(scale_) * options_.backoff_factor);
  const float least = float(options_.min_scale);
  scale_ = std::max(lower, std::min(least, scale_));  // a scale that was set below stays
}

void GradScaler::grow() {
  skips_ = 0;
  if (++growth_tracker_ < options_.growth_interval) return;
  growth_tracker_ = 0;
  const float higher = float(double(scale_) * options_.growth_factor);
  if (std::isfinite(higher)) scale_ = higher;
}

optim::NamedNumbers GradScaler::state() const {
  if (!options_.enabled) return {};
  check(records_.empty(), "[GradScaler] state() between ",
        "unscale_() or step() and update(): what "
        "was found out about the gradients would be lost. Save after update()");
  return {{"scale", double(scale_)},
          {"growth_factor", options_.growth_factor},
          {"backoff_factor", options_.backoff_factor},
          {"growth_interval", double(options_.growth_interval)},
          {"_growth_tracker", double(growth_tracker_)}};
}

void GradScaler::load_state(const optim::NamedNumbers& state) {
  if (!options_.enabled) return;
  check(!state.empty(),
        "[GradScaler] load_state(): the state is empty. Was it saved by a disabled "
        "scaler?");
  check(records_.empty(), "[GradScaler] load_state() between step() and update()");
  optim::NamedNumbers rest = state;
  optim::NumberReader read{rest};
  GradScalerOptions options = options_;
  std::int64_t tracker = 0;
  read("scale", options.init_scale);
  read("growth_factor", options.growth_factor);
  read("backoff_factor", options.backoff_factor);
  read("growth_interval", options.growth_interval);
  read("_growth_tracker", tracker);
  check(rest.empty(), "[GradScaler] load_state(): a scaler has no \"",
        rest.empty() ? "" : rest.begin()->first, "\"");
  check(tracker >= 0, "[GradScaler] load_state(): _growth_tracker is negative: ", tracker);
  check_options(options);
  scale_ = float(options.init_scale);
  options_ = options;
  growth_tracker_ = tracker;
}

}  // namespace tandem::amp
