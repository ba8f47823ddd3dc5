// Autocast: while the guard lives, matrix products and convolutions compute in a 16-bit type, and
// what needs the range or the precision (losses, softmax, exp, sums) in float32.
//
//   amp::GradScaler scaler({.enabled = dtype == float16});   // bfloat16 needs none
//   for (auto&& [x, y] : loader) {
//     optimizer.zero_grad();
//     Tensor loss;
//     {
//       const amp::Autocast autocast(cpu, dtype);
//       loss = nn::cross_entropy(net(x), y);                 // also for a DataParallel net
//     }
//     scaler.scale(loss).backward();                         // outside: PyTorch's advice
//     scaler.step(optimizer);
//     scaler.update();
//   }
//
// Parameters stay float32, and so do their gradients and the optimizer's state. A 16-bit copy of a
// weight is made once for each guard. The guard concerns the thread that makes it; replicas of
// parallel/ inherit it, with its type. Which op does what: core/autocast.h.
// Next: grad_scaler.h.
#pragma once

#include <optional>

#include <tandem/core/autocast.h>
#include <tandem/core/device.h>
#include <tandem/core/dtype.h>

namespace tandem::amp {

struct AutocastOptions {
  bool enabled = true;  // false: off for this kind, also inside a guard that is on
  bool cache = true;    // keep 16-bit copies of weights until the outermost guard ends
};

/// On (or off) for devices of one kind; guards nest, the innermost counts. Backward is never
/// affected. Throws UsageError for a dtype other than float16 and bfloat16.
class Autocast {
 public:
  Autocast(DeviceKind kind, DType dtype, const AutocastOptions& options = {});
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

  /// The fast type for a kind of device on this thread; none: off.
  static std::optional<DType> dtype(DeviceKind kind);
  /// Drops the copies of weights. Copies of weights that change are dropped anyway.
  static void clear_cache();

 private:
  AutocastState before_;
  CastCache cache_;  // used by the outermost guard
};

}  // namespace tandem::amp
