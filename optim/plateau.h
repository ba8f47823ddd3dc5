// ReduceLROnPlateau: lowers the lr when a metric has stopped getting better.
#pragma once

#include <cstdint>
#include <vector>

#include <tandem/optim/schedule.h>

namespace tandem::optim {

enum class PlateauMode : std::uint8_t { min, max };
enum class ThresholdMode : std::uint8_t { rel, abs };

struct ReduceLROnPlateauOptions {
  PlateauMode mode = PlateauMode::min;  // is the metric better when it is smaller, or larger?
  double factor = 0.1;                  // lr = lr factor
  std::int64_t patience = 10;           // steps without progress that are forgiven
  double threshold = 1e-4;              // less progress than this is none
  ThresholdMode threshold_mode = ThresholdMode::rel;
  std::int64_t cooldown = 0;  // steps after a reduction in which nothing counts as bad
  PerGroup min_lr = 0;        // of all groups, or of each
  double eps = 1e-8;          // a change of lr not larger than this is not made
};

/// Better than the best so far, where e is the threshold:
///   min: rel metric < best (1 - e), abs metric < best - e
///   max: rel metric > best (1 + e), abs metric > best + e
/// After `patience` steps without, the next one multiplies the lr of every group by `factor`, down
/// to min_lr. Numbers are PyTorch's. A NaN metric is never better.
class ReduceLROnPlateau : public Schedule {
 public:
  explicit ReduceLROnPlateau(Optimizer& optimizer, const ReduceLROnPlateauOptions& options = {});

  /// After an epoch, with the metric to watch.
  void step(double metric);
  double best() const { return progress_.best; }

  ScheduleState state() const override;
  void load_state(const ScheduleState& state) override;

 private:
  struct Progress {
    double best = 0;
    std::int64_t bad = 0;       // steps without progress
    std::int64_t cooldown = 0;  // steps of cooldown that are left
  };
  template <class F>
  static void fields(ReduceLROnPlateauOptions& options, Progress& progress, std::vector<double>& lr,
                     F& f);
  void check_options(const ReduceLROnPlateauOptions& options) const;
  bool is_better(double metric) const;
  void reduce();

  ReduceLROnPlateauOptions options_;
  Progress progress_;
};

}  // namespace tandem::optim
