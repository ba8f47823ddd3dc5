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

StepReport::StepReport(std::vector<Device> list) : devices(std::move(list)) {
  for (auto& figures : phases) figures.resize(devices.size());
}

void StepReport::clear(std::initializer_list<Phase> list) {
  for (Phase p : list) {
    for (PhaseFigures& f : phases[std::size_t(p)]) f = {};
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
