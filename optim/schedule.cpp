// Schedules: which rule is on, what it gives each group, and what a checkpoint keeps of it.
#include <tandem/optim/schedule.h>

#include <algorithm>
#include <utility>

#include <tandem/core/error.h>

namespace tandem::optim {

namespace {

std::vector<double> current_lr(const Optimizer& optimizer) {
  std::vector<double> lr;
  for (std::size_t i = 0; i < optimizer.group_count(); ++i) {
    lr.push_back(optimizer.group(i)["lr"]);
  }
  return lr;
}

bool has_updated(const Optimizer& optimizer) {
  for (std::size_t i = 0; i < optimizer.parameter_count(); ++i) {
    if (optimizer.state(i).step > 0) return true;
  }
  return false;
}

/// "" for the only rule of a schedule, "0.", "1.", ... for those of a SequentialLR.
std::string prefix(const char* schedule, std::size_t rule) {
  return schedule == std::string("SequentialLR") ? str(rule, '.') : "";
}

}  // namespace

Schedule::Schedule(Optimizer& optimizer, const char* name)
    : optimizer_(optimizer), name_(name), last_lr_(current_lr(optimizer)) {}

void Schedule::check_groups() const {
  check(optimizer_.group_count() == last_lr_.size(), "[", name_, "] the optimizer has ",
        optimizer_.group_count(), " parameter groups, it had ", last_lr_.size(),
        " when the schedule was made. Add groups first");
}

PlannedSchedule::PlannedSchedule(Optimizer& optimizer, const char* name,
                                 std::vector<ScheduleRule> rules,
                                 std::vector<std::int64_t> milestones)
    : Schedule(optimizer, name), plan_{std::move(rules), std::move(milestones), last_lr_} {
  check_plan(plan_);
  apply(plan_, 0);
}

void PlannedSchedule::check_plan(const Plan& plan) const {
  check(!plan.rules.empty(), "[", name_, "] no schedules given");
  check(plan.milestones.size() + 1 == plan.rules.size(), "[", name_, "] ", plan.rules.size(),
        " schedules need ", plan.rules.size() - 1, " milestones, got ", plan.milestones.size());
  for (std::size_t i = 0; i < plan.milestones.size(); ++i) {
    const std::int64_t before = i == 0 ? 0 : plan.milestones[i - 1];
    check(plan.milestones[i] > before, "[", name_,
          "] milestones must be positive and rise: ", plan.milestones[i],
          i == 0 ? " is the first" : str(" comes after ", before));
  }
  for (const ScheduleRule& rule : plan.rules) check_rule(rule, optimizer_);
}

void PlannedSchedule::apply(const Plan& plan, std::int64_t step) {
  const auto next = std::upper_bound(plan.milestones.begin(), plan.milestones.end(), step);
  const ScheduleRule& rule = plan.rules[std::size_t(next - plan.milestones.begin())];
  const std::int64_t start = next == plan.milestones.begin() ? 0 : *std::prev(next);

  std::vector<ScheduleValues> values;  // of all groups, before anything changes
  for (std::size_t i = 0; i < plan.base_lr.size(); ++i) {
    values.push_back(values_at(rule, i, plan.base_lr[i], step - start));
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    Options& group = optimizer_.group(i);
    group["lr"] = last_lr_[i] = values[i].lr;
    if (values[i].momentum) {
      group[group.contains("momentum") ? "momentum" : "beta1"] = *values[i].momentum;
    }
  }
}

void PlannedSchedule::step() {
  check_groups();
  apply(plan_, step_ + 1);
  ++step_;
  if (step_ == 1 && !has_updated(optimizer_)) {
    warn_once(str("[", name_, "] step() before the optimizer has updated anything: the first lr ",
                  "goes unused. Call optimizer.step() first, then the schedule's"));
  }
}

std::string PlannedSchedule::type() const {
  if (name_ != std::string("SequentialLR")) return name_;
  std::string parts;
  for (const ScheduleRule& rule : plan_.rules) {
    parts += (parts.empty() ? "" : ", ") + std::string(optim::name(rule));
  }
  return str(name_, '(', parts, ')');
}

ScheduleState PlannedSchedule::state() const {
  ScheduleState state{.type = type(), .params = {}, .step = step_};
  for (std::size_t i = 0; i < plan_.rules.size(); ++i) {
    NumberWriter writer{state.params, prefix(name_, i)};
    write_rule(plan_.rules[i], writer);
  }
  NumberWriter writer{state.params};
  writer("milestone", plan_.milestones);
  writer("base_lr", plan_.base_lr);
  return state;
}

void PlannedSchedule::load_state(const ScheduleState& state) {
  check_groups();
  check(state.type == type(), "[load_state] the state is that of a ", state.type, ", this is a ",
        type());
  check(state.step >= 0, "[load_state] a negative step: ", state.step);
  Plan plan = plan_;
  NamedNumbers numbers = state.params;
  for (std::size_t i = 0; i < plan.rules.size(); ++i) {
    NumberReader reader{numbers, prefix(name_, i)};
    read_rule(plan.rules[i], reader);
  }
  NumberReader reader{numbers};
  reader("milestone", plan.milestones);
  reader("base_lr", plan.base_lr);
  reader.check_all_taken();
  check_plan(plan);
  for (double lr : plan.base_lr) {
    check(is_size(lr), "[load_state] a base_lr of ", lr, "; it must be finite and not negative");
  }
  apply(plan, state.step);
  plan_ = std::move(plan);
  step_ = state.step;
}

StepLR::StepLR(Optimizer& optimizer, const StepLROptions& options)
    : PlannedSchedule(optimizer, "StepLR", {options}, {}) {}

CosineAnnealingLR::CosineAnnealingLR(Optimizer& optimizer, const CosineAnnealingLROptions& options)
    : PlannedSchedule(optimizer, "CosineAnnealingLR", {options}, {}) {}

LinearLR::LinearLR(Optimizer& optimizer, const LinearLROptions& options)
    : PlannedSchedule(optimizer, "LinearLR", {options}, {}) {}

OneCycleLR::OneCycleLR(Optimizer& optimizer, const OneCycleLROptions& options)
    : PlannedSchedule(optimizer, "OneCycleLR", {options}, {}) {}

SequentialLR::SequentialLR(Optimizer& optimizer, const SequentialLROptions& options)
    : PlannedSchedule(optimizer, "SequentialLR", options.schedules, options.milestones) {}

}  // namespace tandem::optim
