// How a thread that is about to sleep waits a moment longer.
#pragma once

#include <chrono>
#include <thread>

namespace tandem {

/// Looks until done() or the time is up: for whoever is about to sleep. Yields instead of pausing:
/// if threads outnumber cores, a pausing one keeps the core from the one that has work.
template <class Done>
bool look_for(std::chrono::microseconds time, Done done) {
  if (time.count() == 0) return done();
  const auto end = std::chrono::steady_clock::now() + time;
  while (!done()) {
    if (std::chrono::steady_clock::now() >= end) return done();
    std::this_thread::yield();
  }
  return true;
}

}  // namespace tandem
