// Runs a planted program and its clean twin, and says by what the defect was noticed. The clean
// twin must pass 20 times without any report. With CUDASIM_TABLE=file a line "title | stage | how"
// is added to the file instead of failing where nothing was noticed (sweep.sh).
#include "planted/host_support.h"
#include "runtime/cudasim.h"

#include <cstdio>
#include <cstdlib>

// Reports must not end the process, and those that look alike must not be suppressed, since the
// twins look alike. TSAN_OPTIONS=symbolize=1 makes them readable, and slow.
#if defined(__SANITIZE_THREAD__)
constexpr bool kTsan = true;
extern "C" const char* __tsan_default_options() {
  return "suppress_equal_stacks=0:suppress_equal_addresses=0:exitcode=0:history_size=4:"
         "report_signal_unsafe=0:symbolize=0";
}
#else
constexpr bool kTsan = false;
#endif

namespace planted {
namespace {

constexpr int kCleanRuns = 20, kDefectRuns = 5;

// What one run gave rise to: "" or "wrong result", "error cudaErrorInvalidValue", ...
std::string observe(Program program, bool defect, const cudasim::Config& config) {
  cudasim::Session session(config);
  std::string error;
  bool right = true;
  const std::string fault = cudasim::catch_fault([&] {
    try {
      right = program(defect);
    } catch (const std::exception& e) {
      error = e.what();
    }
  });
  if (!fault.empty()) return "fault: " + fault;
  if (auto all = cudasim::violations(); !all.empty()) return "report: " + all.front();
  if (!error.empty()) return "error: " + error;
  if (auto all = cudasim::leaks(); !all.empty()) return "leak: " + all.front();
  if (cudasim::data_races() > 0) return "data race";
  return right ? "" : "wrong result";
}

void write_table(const char* title, const char* stage, const std::string& how) {
  const char* path = std::getenv("CUDASIM_TABLE");
  if (!path) return;
  if (std::FILE* f = std::fopen(path, "a")) {
    std::fprintf(f, "%s | %s | %s\n", title, stage, how.empty() ? "-" : how.c_str());
    std::fclose(f);
  }
}

const char* name_of(cudasim::Schedule schedule) {
  switch (schedule) {
    case cudasim::Schedule::lazy:
      return "lazy";
    case cudasim::Schedule::random:
      return "random";
    case cudasim::Schedule::threads:
      return "threads";
  }
  return "?";
}

}  // namespace

void examine(const char* title, Program program, Caught caught) {
  cudasim::Config config = cudasim::config_from_environment({.devices = 3, .memory = 1 << 20});
  if (kTsan) config.schedule = cudasim::Schedule::threads;
  const bool lazy = config.schedule == cudasim::Schedule::lazy;
  for (int run = 0; run < kCleanRuns; ++run) {
    const std::string noticed = observe(program, false, config);
    REQUIRE_MESSAGE(noticed.empty(), "clean twin, run " << run << ": " << noticed);
  }
  std::string noticed;
  for (int run = 0; run < kDefectRuns && noticed.empty(); ++run)
    noticed = observe(program, true, config);
  write_table(title, kTsan ? "tsan" : name_of(config.schedule), noticed);
  if (kTsan && caught != Caught::lazy) CHECK(noticed == "data race");
  if (lazy && caught != Caught::tsan) CHECK(noticed != "");
}

}  // namespace planted
