#include <tandem/parallel/step_report.h>

#include <iomanip>
#include <ostream>
#include <sstream>

namespace tandem::parallel {

const char* name(Phase phase) {
  static constexpr const char* names[] = {"replicate", "scatter",  "forward",
                                          "gather",    "backward", "reduce"};
  return names[std::size_t(phase)];
}

double Lap::seconds() const {
  return begin.state && end.state ? backend(device).seconds_between(begin, end) : host_seconds;
}

// A figure is not worth a step: without it the work goes on, or reports by itself what is wrong.
static Event point_in_time(Device device) {
  try {
    return backend(device).record_time();
  } catch (const Error&) {
    return {};
  }
}

Stopwatch::Stopwatch(Device device) : lap_{.device = device} {
  if (device.kind == DeviceKind::cpu) {
    start_ = Clock::now();
  } else {
    lap_.begin = point_in_time(device);
  }
}

Lap Stopwatch::stop() {
  if (lap_.device.kind == DeviceKind::cpu) {
    lap_.host_seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  } else {
    lap_.end = point_in_time(lap_.device);
  }
  return std::move(lap_);
}

StepReport::StepReport(std::vector<Device> list)
    : devices(std::move(list)), pending_(devices.size()) {
  for (auto& figures : phases) figures.resize(devices.size());
}

void StepReport::clear(std::initializer_list<Phase> list) {
  for (Phase p : list) {
    for (PhaseFigures& f : phases[std::size_t(p)]) f = {};
    for (auto& list_of_rank : pending_) {
      std::erase_if(list_of_rank, [p](const Pending& x) { return x.phase == p; });
    }
  }
}

void StepReport::add(Phase phase, int rank, Lap lap, int sign) {
  if (lap.begin.state) {
    pending_[std::size_t(rank)].push_back({phase, sign, std::move(lap)});
  } else {
    at(phase, rank).seconds += sign * lap.host_seconds;
  }
}

void StepReport::settle() {
  for (std::size_t rank = 0; rank < pending_.size(); ++rank) {
    std::vector<double> seconds;  // all of them, before any counts: a GPU may not tell
    for (const Pending& x : pending_[rank]) seconds.push_back(x.sign * x.lap.seconds());
    for (std::size_t i = 0; i < seconds.size(); ++i) {
      at(pending_[rank][i].phase, int(rank)).seconds += seconds[i];
    }
    pending_[rank].clear();
  }
}

std::ostream& operator<<(std::ostream& out, const StepReport& report) {
  std::ostringstream table;
  table << std::fixed << std::left << std::setw(10) << "phase" << std::right;
  for (Device d : report.devices)
    table << std::setw(12) << d.str() + " ms" << std::setw(10) << "KiB";
  table << "\n";
  for (int p = 0; p < kPhases; ++p) {
    table << std::left << std::setw(10) << name(Phase(p)) << std::right;
    for (const PhaseFigures& f : report.phases[std::size_t(p)]) {
      table << std::setprecision(3) << std::setw(12) << f.seconds * 1e3 << std::setprecision(1)
            << std::setw(10) << double(f.bytes) / 1024;
    }
    table << "\n";
  }
  return out << table.str();
}

}  // namespace tandem::parallel
