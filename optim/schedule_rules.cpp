// The formulas of the schedules, their checks, and their options as numbers by name.
#include <tandem/optim/schedule_rules.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <span>
#include <utility>

#include <tandem/core/error.h>
#include <tandem/optim/optimizer.h>

namespace tandem::optim {

namespace {

// ---- formulas

ScheduleValues values(const StepLROptions& o, std::size_t, double base, std::int64_t step) {
  return {base * std::pow(o.gamma, double(step / o.step_size))};
}

ScheduleValues values(const CosineAnnealingLROptions& o, std::size_t, double base,
                      std::int64_t step) {
  const double angle = std::numbers::pi * double(step) / double(o.T_max);
  return {o.eta_min + (base - o.eta_min) * (1 + std::cos(angle)) / 2};
}

ScheduleValues values(const LinearLROptions& o, std::size_t, double base, std::int64_t step) {
  const double done = double(std::min(step, o.total_iters)) / double(o.total_iters);
  return {base * (o.start_factor + (o.end_factor - o.start_factor) * done)};
}

struct Phase {
  double end_step;
  double start_lr, end_lr;
  double start_momentum, end_momentum;
};

double anneal(Anneal strategy, double start, double end, double x) {
  if (strategy == Anneal::linear) return start + (end - start) * x;
  return end + (start - end) / 2 * (1 + std::cos(std::numbers::pi * x));
}

ScheduleValues values(const OneCycleLROptions& o, std::size_t group, double, std::int64_t step) {
  const double t = double(step), total = double(o.total());
  check(t <= total, "[OneCycleLR] step ", step, " is past the end: the cycle has ", o.total(),
        " steps. Give the number of optimizer steps of the whole training");
  const double top = o.max_lr[group], initial = top / o.div_factor;
  const double least = initial / o.final_div_factor;
  const double high = o.max_momentum[group], low = o.base_momentum[group];
  const Phase up{o.pct_start * total - 1, initial, top, high, low};
  const Phase phases2[] = {up, {total - 1, top, least, low, high}};
  const Phase phases3[] = {up,
                           {2 * o.pct_start * total - 2, top, initial, low, high},
                           {total - 1, initial, least, high, high}};
  const std::span<const Phase> phases =
      o.three_phase ? std::span<const Phase>(phases3) : std::span<const Phase>(phases2);

  std::size_t i = 0;
  double start = 0;
  for (; i + 1 < phases.size() && t > phases[i].end_step; ++i) start = phases[i].end_step;
  const Phase& p = phases[i];
  const double x = p.end_step > start ? std::min(1.0, (t - start) / (p.end_step - start)) : 1;
  ScheduleValues v{anneal(o.anneal_strategy, p.start_lr, p.end_lr, x)};
  if (o.cycle_momentum) {
    v.momentum = anneal(o.anneal_strategy, p.start_momentum, p.end_momentum, x);
  }
  return v;
}

// ---- checks

void check_options(const StepLROptions& o, const Optimizer&) {
  check(o.step_size > 0, "[StepLR] step_size must be positive: ", o.step_size);
  check(is_size(o.gamma), "[StepLR] gamma must be finite and not negative: ", o.gamma);
}

void check_options(const CosineAnnealingLROptions& o, const Optimizer&) {
  check(o.T_max > 0, "[CosineAnnealingLR] T_max must be positive: ", o.T_max);
  check(is_size(o.eta_min),
        "[CosineAnnealingLR] eta_min must be finite and not negative: ", o.eta_min);
}

void check_options(const LinearLROptions& o, const Optimizer&) {
  for (const auto& [option, factor] :
       {std::pair("start_factor", o.start_factor), std::pair("end_factor", o.end_factor)}) {
    check(factor >= 0 && factor <= 1, "[LinearLR] ", option, " must be in [0, 1]: ", factor);
  }
  check(o.total_iters > 0, "[LinearLR] total_iters must be positive: ", o.total_iters);
}

void check_options(const OneCycleLROptions& o, const Optimizer& optimizer) {
  const bool by_epoch = o.epochs != 0 || o.steps_per_epoch != 0;
  check(o.total_steps != 0 || by_epoch,
        "[OneCycleLR] how long is the cycle? Give total_steps, or epochs and steps_per_epoch");
  check(o.total_steps >= 0, "[OneCycleLR] total_steps must be positive: ", o.total_steps);
  check(o.total_steps > 0 || (o.epochs > 0 && o.steps_per_epoch > 0),
        "[OneCycleLR] epochs and steps_per_epoch must both be positive: ", o.epochs, " and ",
        o.steps_per_epoch);
  check(o.pct_start >= 0 && o.pct_start <= 1,
        "[OneCycleLR] pct_start must be in [0, 1]: ", o.pct_start);
  check(o.div_factor > 0 && o.final_div_factor > 0 && is_size(o.div_factor) &&
            is_size(o.final_div_factor),
        "[OneCycleLR] div_factor and final_div_factor must be finite and positive: ", o.div_factor,
        " and ", o.final_div_factor);
  check_per_group("OneCycleLR", "max_lr", o.max_lr, optimizer);
  check_per_group("OneCycleLR", "base_momentum", o.base_momentum, optimizer);
  check_per_group("OneCycleLR", "max_momentum", o.max_momentum, optimizer);
  for (std::size_t i = 0; i < optimizer.group_count(); ++i) {
    check(!std::isnan(o.max_lr[i]), "[OneCycleLR] max_lr is required");
    check(is_size(o.max_lr[i]),
          "[OneCycleLR] max_lr must be finite and not negative: ", o.max_lr[i]);
    if (!o.cycle_momentum) continue;
    const Options& group = optimizer.group(i);
    check(group.contains("momentum") || group.contains("beta1"), "[OneCycleLR] ", optimizer.name(),
          " has neither momentum nor beta1 to cycle. Use {.cycle_momentum = false}");
    for (const double momentum : {o.base_momentum[i], o.max_momentum[i]}) {
      check(momentum >= 0 && momentum < 1,
            "[OneCycleLR] base_momentum and max_momentum must be in [0, 1): ", momentum);
    }
  }
}

// ---- options by name: f(name, member) for each

template <class F>
void fields(StepLROptions& o, F& f) {
  f("step_size", o.step_size);
  f("gamma", o.gamma);
}

template <class F>
void fields(CosineAnnealingLROptions& o, F& f) {
  f("T_max", o.T_max);
  f("eta_min", o.eta_min);
}

template <class F>
void fields(LinearLROptions& o, F& f) {
  f("start_factor", o.start_factor);
  f("end_factor", o.end_factor);
  f("total_iters", o.total_iters);
}

template <class F>
void fields(OneCycleLROptions& o, F& f) {
  f("max_lr", o.max_lr);
  f("total_steps", o.total_steps);
  f("epochs", o.epochs);
  f("steps_per_epoch", o.steps_per_epoch);
  f("pct_start", o.pct_start);
  f("anneal_strategy", o.anneal_strategy);
  f("cycle_momentum", o.cycle_momentum);
  f("base_momentum", o.base_momentum);
  f("max_momentum", o.max_momentum);
  f("div_factor", o.div_factor);
  f("final_div_factor", o.final_div_factor);
  f("three_phase", o.three_phase);
}

}  // namespace

const char* name(const ScheduleRule& rule) {
  static constexpr const char* names[] = {"StepLR", "CosineAnnealingLR", "LinearLR", "OneCycleLR"};
  return names[rule.index()];
}

ScheduleValues values_at(const ScheduleRule& rule, std::size_t group, double base,
                         std::int64_t step) {
  return std::visit([&](const auto& options) { return values(options, group, base, step); }, rule);
}

bool is_size(double x) {
  return x >= 0 && std::isfinite(x);
}

void check_rule(const ScheduleRule& rule, const Optimizer& optimizer) {
  std::visit([&](const auto& options) { check_options(options, optimizer); }, rule);
}

void check_per_group(const char* schedule, const char* option, const PerGroup& x,
                     const Optimizer& optimizer) {
  const std::size_t groups = optimizer.group_count();
  check(x.size() == 1 || x.size() == groups, "[", schedule, "] ", option, " has ", x.size(),
        " values, the optimizer ", groups, groups == 1 ? " group" : " groups");
}

void write_rule(const ScheduleRule& rule, NumberWriter& to) {
  ScheduleRule copy = rule;  // fields() serves readers and writers alike
  std::visit([&](auto& options) { fields(options, to); }, copy);
}

void read_rule(ScheduleRule& rule, NumberReader& from) {
  std::visit([&](auto& options) { fields(options, from); }, rule);
}

}  // namespace tandem::optim
