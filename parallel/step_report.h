// What a step did: seconds and bytes of each phase on each device. Always on; a few clock readings
// per phase. Print it, or read the numbers: net.last_step().
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <iosfwd>
#include <vector>

#include <tandem/core/device.h>

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

/// The last forward and the last backward of one DataParallel. Phases do not overlap in it: what a
/// rank spends summing buckets counts as reduce, not as backward.
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
};

/// A table: a line per phase, milliseconds and KiB per device.
std::ostream& operator<<(std::ostream& out, const StepReport& report);

/// Adds the time from construction to stop() (or destruction) to a phase.
class PhaseTimer {
 public:
  explicit PhaseTimer(PhaseFigures& figures) : figures_(figures) {}
  ~PhaseTimer() { stop(); }
  PhaseTimer(const PhaseTimer&) = delete;
  PhaseTimer& operator=(const PhaseTimer&) = delete;
  void stop() {
    if (!running_) return;
    running_ = false;
    figures_.seconds += std::chrono::duration<double>(Clock::now() - start_).count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  PhaseFigures& figures_;
  Clock::time_point start_ = Clock::now();
  bool running_ = true;
};

}  // namespace tandem::parallel
