// ReduceLROnPlateau: the only schedule with a history; it is three numbers.
#include <tandem/optim/plateau.h>

#include <algorithm>
#include <limits>

#include <tandem/core/error.h>

namespace tandem::optim {

ReduceLROnPlateau::ReduceLROnPlateau(Optimizer& optimizer, const ReduceLROnPlateauOptions& options)
    : Schedule(optimizer, "ReduceLROnPlateau"), options_(options) {
  check_options(options_);
  const double infinity = std::numeric_limits<double>::infinity();
  progress_.best = options_.mode == PlateauMode::min ? infinity : -infinity;
}

void ReduceLROnPlateau::check_options(const ReduceLROnPlateauOptions& o) const {
  check(o.factor >= 0 && o.factor < 1, "[", name_, "] factor must be in [0, 1): ", o.factor);
  check(o.patience >= 0, "[", name_, "] patience must not be negative: ", o.patience);
  check(o.cooldown >= 0, "[", name_, "] cooldown must not be negative: ", o.cooldown);
  check(o.threshold >= 0, "[", name_, "] threshold must not be negative: ", o.threshold);
  check(o.eps >= 0, "[", name_, "] eps must not be negative: ", o.eps);
  check_per_group(name_, "min_lr", o.min_lr, optimizer_);
  for (std::size_t i = 0; i < o.min_lr.size(); ++i) {
    check(o.min_lr[i] >= 0, "[", name_, "] min_lr must not be negative: ", o.min_lr[i]);
  }
}

bool ReduceLROnPlateau::is_better(double metric) const {
  const double best = progress_.best, e = options_.threshold;
  const bool rel = options_.threshold_mode == ThresholdMode::rel;
  if (options_.mode == PlateauMode::min) return metric < (rel ? best * (1 - e) : best - e);
  return metric > (rel ? best * (1 + e) : best + e);
}

void ReduceLROnPlateau::step(double metric) {
  check_groups();
  ++step_;
  if (is_better(metric)) {
    progress_.best = metric;
    progress_.bad = 0;
  } else {
    ++progress_.bad;
  }
  if (progress_.cooldown > 0) {
    --progress_.cooldown;
    progress_.bad = 0;
  }
  if (progress_.bad > options_.patience) {
    reduce();
    progress_.cooldown = options_.cooldown;
    progress_.bad = 0;
  }
  for (std::size_t i = 0; i < last_lr_.size(); ++i) last_lr_[i] = optimizer_.group(i)["lr"];
}

void ReduceLROnPlateau::reduce() {
  for (std::size_t i = 0; i < optimizer_.group_count(); ++i) {
    double& lr = optimizer_.group(i)["lr"];
    const double reduced = std::max(lr * options_.factor, options_.min_lr[i]);
    if (lr - reduced > options_.eps) lr = reduced;
  }
}

template <class F>
void ReduceLROnPlateau::fields(ReduceLROnPlateauOptions& options, Progress& progress,
                               std::vector<double>& lr, F& f) {
  f("mode", options.mode);
  f("factor", options.factor);
  f("patience", options.patience);
  f("threshold", options.threshold);
  f("threshold_mode", options.threshold_mode);
  f("cooldown", options.cooldown);
  f("min_lr", options.min_lr);
  f("eps", options.eps);
  f("best", progress.best);
  f("bad_steps", progress.bad);
  f("cooldown_left", progress.cooldown);
  f("lr", lr);
}

ScheduleState ReduceLROnPlateau::state() const {
  ScheduleState state{.type = name_, .params = {}, .step = step_};
  ReduceLROnPlateauOptions options = options_;  // fields() serves readers and writers alike
  Progress progress = progress_;
  std::vector<double> lr = last_lr_;
  NumberWriter writer{state.params};
  fields(options, progress, lr, writer);
  return state;
}

void ReduceLROnPlateau::load_state(const ScheduleState& state) {
  check_groups();
  check(state.type == name_, "[load_state] the state is that of a ", state.type, ", this is a ",
        name_);
  check(state.step >= 0, "[load_state] a negative step: ", state.step);
  NamedNumbers numbers = state.params;
  ReduceLROnPlateauOptions options;
  Progress progress;
  std::vector<double> lr = last_lr_;
  NumberReader reader{numbers};
  fields(options, progress, lr, reader);
  reader.check_all_taken();
  check_options(options);

  options_ = options;
  progress_ = progress;
  step_ = state.step;
  last_lr_ = lr;
  for (std::size_t i = 0; i < lr.size(); ++i) optimizer_.group(i)["lr"] = lr[i];
}

}  // namespace tandem::optim
