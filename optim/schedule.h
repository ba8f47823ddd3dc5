// Schedules: change the lr of an optimizer's parameter groups from step to step.
//
//   optim::SGD optimizer(net.parameters(), {.lr = 0.1});
//   optim::StepLR schedule(optimizer, {.step_size = 30, .gamma = 0.1});
//   for (int epoch = 0; epoch < 90; ++epoch) {
//     for (auto&& [x, y] : loader) { ...; optimizer.step(); }
//     schedule.step();
//   }
//
// A step is whatever the caller counts: epochs, or (OneCycleLR) batches. Constructing a schedule
// sets the lr of step 0. Every lr is computed from the group's base lr, the one it had when the
// schedule was made: nothing accumulates, and of two schedules on one optimizer the last wins (use
// SequentialLR for one after the other). Names, defaults and numbers are PyTorch's. Not thread
// safe: a schedule belongs to the thread that steps the optimizer, which must outlive it.
// Next: schedule_rules.h (the formulas), plateau.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <tandem/optim/optimizer.h>
#include <tandem/optim/schedule_rules.h>

namespace tandem::optim {

/// All there is to save of a schedule.
struct ScheduleState {
  std::string type;       // "StepLR", "SequentialLR(LinearLR, CosineAnnealingLR)"
  NamedNumbers params{};  // its options and the base lr of every group: "gamma", "base_lr.0"
  std::int64_t step = 0;
};

class Schedule {
 public:
  virtual ~Schedule() = default;
  Schedule(const Schedule&) = delete;
  Schedule& operator=(const Schedule&) = delete;

  const char* name() const { return name_; }
  /// The lr that the schedule gave each group last.
  const std::vector<double>& last_lr() const { return last_lr_; }
  /// How often step() was called.
  std::int64_t step_count() const { return step_; }

  virtual ScheduleState state() const = 0;
  /// Continues where the saved schedule stood: step, options and base lr are the state's, and the
  /// optimizer gets the lr of that step. Throws UsageError, and changes nothing, if the state is of
  /// another type or of other groups.
  virtual void load_state(const ScheduleState& state) = 0;

 protected:
  Schedule(Optimizer& optimizer, const char* name);

  /// Throws UsageError if the optimizer got more groups since.
  void check_groups() const;

  Optimizer& optimizer_;
  const char* name_;
  std::vector<double> last_lr_;
  std::int64_t step_ = 0;
};

/// A schedule that is known in advance: one rule, or several one after the other.
class PlannedSchedule : public Schedule {
 public:
  /// To the next step, after optimizer.step(). Warns (once) if the optimizer has not updated
  /// anything before the first call: the lr of step 0 would go unused.
  void step();

  ScheduleState state() const override;
  void load_state(const ScheduleState& state) override;

 protected:
  struct Plan {
    std::vector<ScheduleRule> rules;
    std::vector<std::int64_t> milestones;  // rule i + 1 begins anew at milestone i
    std::vector<double> base_lr;           // of every group
  };
  PlannedSchedule(Optimizer& optimizer, const char* name, std::vector<ScheduleRule> rules,
                  std::vector<std::int64_t> milestones);

 private:
  std::string type() const;
  void check_plan(const Plan& plan) const;
  void apply(const Plan& plan, std::int64_t step);

  Plan plan_;
};

/// The lr falls by `gamma` every step_size steps.
class StepLR : public PlannedSchedule {
 public:
  StepLR(Optimizer& optimizer, const StepLROptions& options);
};

/// The lr follows a cosine from the base lr down to eta_min at T_max.
class CosineAnnealingLR : public PlannedSchedule {
 public:
  CosineAnnealingLR(Optimizer& optimizer, const CosineAnnealingLROptions& options);
};

/// The lr goes from start_factor to end_factor times the base lr in total_iters steps: a warm-up.
class LinearLR : public PlannedSchedule {
 public:
  explicit LinearLR(Optimizer& optimizer, const LinearLROptions& options = {});
};

/// The lr goes up and down once; momentum or beta1 the other way. A step is a batch.
class OneCycleLR : public PlannedSchedule {
 public:
  OneCycleLR(Optimizer& optimizer, const OneCycleLROptions& options);
};

struct SequentialLROptions {
  std::vector<ScheduleRule> schedules{};   // LinearLROptions{...}, CosineAnnealingLROptions{...}
  std::vector<std::int64_t> milestones{};  // rising; one fewer than schedules
};

/// One rule after the other: at each milestone the next one starts at its own step 0.
///   optim::SequentialLR schedule(
///       optimizer, {.schedules = {optim::LinearLROptions{.start_factor = 0.1, .total_iters = 3},
///                                 optim::CosineAnnealingLROptions{.T_max = 97}},
///                   .milestones = {3}});
class SequentialLR : public PlannedSchedule {
 public:
  SequentialLR(Optimizer& optimizer, const SequentialLROptions& options);
};

}  // namespace tandem::optim
