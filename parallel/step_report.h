// What a step did: seconds and bytes of each phase on each device. Always on; a few clock readings
// per phase. Print it, or read the numbers: net.last_step().
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <iosfwd>
#include <vector>

#include <tandem/core/backend.h>

namespace tandem::parallel {

enum class Phase : std::uint8_t { replicate, scatter, forward, gather, backward, reduce };
inline constexpr int kPhases = 6;

const char* name(Phase phase);

/// Of one phase on one device. `bytes` crossed between devices, counted at the rank that is not the
/// first device (or, for inputs and outputs, at the rank they belong to); views and compute: 0.
struct PhaseFigures {
  double seconds = 0;
  std::int64_t bytes = 0;
};

/// How long something took on a device. On a CPU it is known at once; on a GPU, which works behind
/// the host's back, it lies between two points of the device's stream.
struct Lap {
  Device device{};
  double host_seconds = 0;  // a CPU's
  Event begin{}, end{};     // a GPU's

  /// Waits for a GPU to get to the end.
  double seconds() const;
};

class Stopwatch {
 public:
  explicit Stopwatch(Device device);
  Lap stop();

 private:
  using Clock = std::chrono::steady_clock;
  Lap lap_;
  Clock::time_point start_;
};

/// The last forward and the last backward of one DataParallel. On CPUs phases do not overlap in it:
/// what a rank spends summing buckets counts as reduce, not as backward. A GPU's sums are all rank
/// 0's, and are made beside backward: each is timed on its own stream, including where it waits for
/// a rank's gradients, and what is still left of them when backward has ended is in no other phase.
struct StepReport {
  std::vector<Device> devices;
  std::array<std::vector<PhaseFigures>, kPhases> phases;  // [phase][rank]

  explicit StepReport(std::vector<Device> list = {});
  const PhaseFigures& at(Phase phase, int rank) const {
    return phases[std::size_t(phase)][std::size_t(rank)];
  }
  PhaseFigures& at(Phase phase, int rank) { return phases[std::size_t(phase)][std::size_t(rank)]; }
  /// Back to zero, for the phases given.
  void clear(std::initializer_list<Phase> list);
  /// Each rank from its own thread. `sign` -1 takes it away from the phase.
  void add(Phase phase, int rank, Lap lap, int sign = 1);
  /// Adds up what GPUs were still busy with when it was measured; waits for them.
  void settle();

 private:
  struct Pending {
    Phase phase;
    int sign;
    Lap lap;
  };
  std::vector<std::vector<Pending>> pending_;  // [rank]
};

/// A table: a line per phase, milliseconds and KiB per device.
std::ostream& operator<<(std::ostream& out, const StepReport& report);

/// Adds the time from construction to destruction to a phase. Where a GPU cannot say it, the figure
/// is left out: what went wrong will be reported by the work itself.
class PhaseTimer {
 public:
  PhaseTimer(StepReport& report, Phase phase, int rank)
      : report_(report), phase_(phase), rank_(rank), watch_(report.devices[std::size_t(rank)]) {}
  ~PhaseTimer() { report_.add(phase_, rank_, watch_.stop()); }
  PhaseTimer(const PhaseTimer&) = delete;
  PhaseTimer& operator=(const PhaseTimer&) = delete;

 private:
  StepReport& report_;
  Phase phase_;
  int rank_;
  Stopwatch watch_;
};

}  // namespace tandem::parallel
