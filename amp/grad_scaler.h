// GradScaler: keeps float16 gradients from vanishing. Loss times a large number before backward,
// gradients divided by it after; steps whose gradients overflowed are skipped.
//
//   amp::GradScaler scaler;
//   for (auto&& [x, y] : loader) {
//     optimizer.zero_grad();
//     Tensor loss = ...;                    // under amp::Autocast
//     scaler.scale(loss).backward();
//     scaler.unscale_(optimizer);           // only if gradients are clipped or looked at
//     optim::clip_grad_norm_(net.parameters(), 1.0);
//     scaler.step(optimizer);               // or skips
//     scaler.update();                      // once for all optimizers
//   }
//
// With gradients accumulated over several backwards, unscale_, step and update belong to the last.
// Rules, defaults and names are PyTorch's; bfloat16 has float32's range and needs no scaler. Not
// thread safe: it belongs to the thread that steps the optimizers. Next: grad_scaler.cpp.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <tandem/core/tensor.h>
#include <tandem/optim/clip.h>
#include <tandem/optim/named_numbers.h>
#include <tandem/optim/optimizer.h>

namespace tandem::amp {

struct GradScalerOptions {
  double init_scale = 65536;
  double growth_factor = 2;             // after growth_interval steps without overflow; above 1
  double backoff_factor = 0.5;          // after a step with one; in (0, 1)
  std::int64_t growth_interval = 2000;  // steps
  bool enabled = true;                  // false: everything passes through, step() just steps
  double min_scale = 0x1p-14;           // the scale does not fall below it; PyTorch's falls to 0
  std::int64_t max_skips = 50;          // in a row; then update() stops with a reason. 0: never
};

/// What step() did. A schedule that counts batches must not move on after a skipped one.
struct ScaledStep {
  bool skipped = false;           // gradients were not finite: parameters and state are untouched
  optim::GradReport gradients{};  // after the scale was taken out, before any clipping
};

/// Each optimizer goes through three stages between two update()s:
///
///            ready                 unscaled       stepped
///   unscale_ takes the scale out   error          error
///   step     unscale_, then steps  steps          error
///   update   error, unless another optimizer's gradients were checked; else all are ready again
///
/// All errors are UsageErrors that say what to do, and change nothing.
class GradScaler {
 public:
  /// Throws UsageError for options that make no sense, naming them.
  explicit GradScaler(const GradScalerOptions& options = {});

  /// x times the scale, of x's dtype.
  Tensor scale(const Tensor& x);
  std::vector<Tensor> scale(const std::vector<Tensor>& xs);

  /// Gradients times float32(1 / scale), in place; finds out whether all were finite, and their
  /// norm, in the same pass. For whoever clips or inspects gradients between backward and step:
  ///   const auto g = scaler.unscale_(optimizer);
  ///   optim::clip_grads_with_norm_(parameters, 1.0, g.norm);   // no second pass to find the norm
  /// Also an error: before any scale(); float16 gradients (keep parameters in float32).
  optim::GradReport unscale_(optim::Optimizer& optimizer);

  /// optimizer.step() if all its gradients were finite, on whatever devices they are. Also an
  /// error: before any scale(); no parameter has a gradient.
  ScaledStep step(optim::Optimizer& optimizer);

  /// The next scale. If any gradient of any optimizer was not finite: scale backoff_factor, and the
  /// count of good steps starts again. Else, at the growth_interval-th good step in a row: scale
  /// growth_factor, unless that is infinite in float32. Throws Error after max_skips skips in a
  /// row, naming the first gradient that was not finite.
  void update();
  /// Sets the scale instead; the count of good steps goes on.
  void update(double new_scale);

  /// 1 if disabled.
  double get_scale() const { return options_.enabled ? double(scale_) : 1.0; }
  bool is_enabled() const { return options_.enabled; }
  const GradScalerOptions& options() const { return options_; }
  /// Good steps since the scale last changed.
  std::int64_t growth_tracker() const { return growth_tracker_; }
  /// How many update()s in a row, up to the last, found gradients that were not finite.
  std::int64_t skips_in_a_row() const { return skips_; }

  /// PyTorch's state_dict: scale, growth_factor, backoff_factor, growth_interval, _growth_tracker.
  /// Empty if disabled. Throws UsageError between unscale_ or step and update.
  optim::NamedNumbers state() const;
  /// Throws UsageError, and changes nothing, for an empty state (a disabled scaler's), a missing or
  /// unknown number, or one that makes no sense. Disabled: does nothing.
  void load_state(const optim::NamedNumbers& state);

 private:
  /// An optimizer that is no longer ready.
  struct Record {
    bool stepped = false;
    optim::GradReport gradients{};
  };
  void check_scaled(const char* op) const;
  void check_gradients(const char* op, const optim::Optimizer& optimizer) const;
  Record& unscale(const char* op, optim::Optimizer& optimizer);
  void note_skip(const optim::Optimizer& optimizer, const optim::GradReport& gradients);
  void back_off();
  void grow();

  GradScalerOptions options_;
  float scale_;
  std::int64_t growth_tracker_ = 0;
  std::int64_t skips_ = 0;
  bool used_ = false;  // was scale() called?
  std::map<const optim::Optimizer*, Record> records_;
  std::string first_bad_;  // of this iteration: which gradient was not finite
};

}  // namespace tandem::amp
