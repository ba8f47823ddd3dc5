// The formulas of the schedules: lr (and momentum) as a function of options and step, nothing else.
//
// A rule is its options. Whoever knows them and the step knows the lr: schedules keep no history,
// a checkpoint needs a few numbers, and resuming cannot drift. Next: schedule.h, which applies them
// to an optimizer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <variant>

#include <tandem/optim/named_numbers.h>

namespace tandem::optim {

class Optimizer;

inline constexpr double kRequired = std::numeric_limits<double>::quiet_NaN();

/// lr = base gamma^(step / step_size), the quotient rounded down.
struct StepLROptions {
  std::int64_t step_size = 0;  // required
  double gamma = 0.1;
};

/// lr = eta_min + (base - eta_min) (1 + cos(pi step / T_max)) / 2. It rises again after T_max.
struct CosineAnnealingLROptions {
  std::int64_t T_max = 0;  // required
  double eta_min = 0;
};

/// lr = base (start_factor + (end_factor - start_factor) min(step, total_iters) / total_iters)
struct LinearLROptions {
  double start_factor = 1.0 / 3;
  double end_factor = 1;
  std::int64_t total_iters = 5;
};

enum class Anneal : std::uint8_t { cos, linear };

/// Up from max_lr / div_factor to max_lr, then down to max_lr / div_factor / final_div_factor; the
/// base lr does not count. Momentum (SGD) or beta1 (Adam) moves the other way, from max_momentum to
/// base_momentum and back. Phases end at steps
///   pct_start total - 1,                         total - 1
///   pct_start total - 1, 2 pct_start total - 2,  total - 1   (three_phase: up, down alike, out)
/// and between a phase's start and end, with x from 0 to 1:
///   cos: end + (start - end) (1 + cos(pi x)) / 2;   linear: start + (end - start) x
struct OneCycleLROptions {
  PerGroup max_lr = kRequired;
  std::int64_t total_steps = 0;  // or epochs times steps_per_epoch
  std::int64_t epochs = 0;
  std::int64_t steps_per_epoch = 0;
  double pct_start = 0.3;
  Anneal anneal_strategy = Anneal::cos;
  bool cycle_momentum = true;
  PerGroup base_momentum = 0.85;
  PerGroup max_momentum = 0.95;
  double div_factor = 25;
  double final_div_factor = 1e4;
  bool three_phase = false;

  std::int64_t total() const { return total_steps != 0 ? total_steps : epochs * steps_per_epoch; }
};

using ScheduleRule =
    std::variant<StepLROptions, CosineAnnealingLROptions, LinearLROptions, OneCycleLROptions>;

/// What a rule asks of one parameter group.
struct ScheduleValues {
  double lr = 0;
  std::optional<double> momentum{};
};

/// "StepLR", "CosineAnnealingLR", ...
const char* name(const ScheduleRule& rule);

/// Of group `group`, whose lr was `base` before the schedule. Throws UsageError for a step past
/// OneCycleLR's total. Step `total` itself, which a loop reaches after its last update, keeps the
/// values of the step before; PyTorch continues the formula there, even to a negative lr.
ScheduleValues values_at(const ScheduleRule& rule, std::size_t group, double base,
                         std::int64_t step);

/// Not negative, infinite or NaN.
bool is_size(double x);

/// Throws UsageError if the options make no sense, or none for this optimizer.
void check_rule(const ScheduleRule& rule, const Optimizer& optimizer);

/// A rule's options as numbers by name, and back; see NumberWriter and NumberReader.
void write_rule(const ScheduleRule& rule, NumberWriter& to);
void read_rule(ScheduleRule& rule, NumberReader& from);

/// Throws UsageError unless `x` has one number or one for each group.
void check_per_group(const char* schedule, const char* option, const PerGroup& x,
                     const Optimizer& optimizer);

}  // namespace tandem::optim
