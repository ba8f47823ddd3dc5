// What the benchmarks share: contenders that take turns within one run, on the cores they are
// given, so that a slow moment of the machine hits all of them; and the lines that tools/bench.sh
// collects.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include <sched.h>

namespace bench {

/// The processors that this program may use; taskset(1) chooses them.
inline std::vector<int> processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> found;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return {0};
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &set)) found.push_back(i);
  }
  return found;
}

/// Keeps this thread, and those it starts from now on, on the first `count` of some processors.
inline void pin(const std::vector<int>& processors, int count) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int i = 0; i < std::min(count, int(processors.size())); ++i) {
    CPU_SET(processors[std::size_t(i)], &set);
  }
  if (sched_setaffinity(0, sizeof set, &set) != 0) throw std::runtime_error("cannot pin threads");
}

/// Processor time of this thread, which a busy machine disturbs least.
inline double cpu_seconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

inline double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ptrdiff_t(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Something to time, and the median milliseconds of its calls in each round.
struct Contender {
  std::string name;
  std::function<void()> call;
  std::vector<double> ms{};

  double median_ms() const { return median(ms); }
};

/// Rounds in which all take turns: for each `warm` calls that do not count, then `calls` that do.
inline void take_turns(std::vector<Contender>& contenders, int rounds, int warm, int calls) {
  using Clock = std::chrono::steady_clock;
  for (int round = 0; round < rounds; ++round) {
    for (Contender& c : contenders) {
      for (int i = 0; i < warm; ++i) c.call();
      std::vector<double> ms;
      for (int i = 0; i < calls; ++i) {
        const auto start = Clock::now();
        c.call();
        ms.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
      }
      c.ms.push_back(median(ms));
    }
  }
}

/// The median over the rounds of a's time divided by b's.
inline double ratio(const Contender& a, const Contender& b) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < a.ms.size(); ++i) ratios.push_back(a.ms[i] / b.ms[i]);
  return median(ratios);
}

/// A line for tools/bench.sh.
inline void print_ratio(const std::string& name, double value) {
  std::printf("ratio %s %.4f\n", name.c_str(), value);
  std::fflush(stdout);
}

}  // namespace bench
