// The threads of a CPU device: the one that calls, and helpers that it shares large work with.
//
// Note [Parts of a kernel]
//   Kernels cut their work with the functions below. Results must not depend on the number of
//   threads: either every element is computed by itself, and any cut will do; or the cut depends on
//   the shape alone and is the same with one thread. A part allocates and throws as its caller
//   would (it has the caller's thread state), but works on this device alone and takes no locks.
//
// There is one team per logical device, so N devices have N times as many threads. A team does one
// piece of work at a time: whoever comes to a device while its team is busy, another thread or a
// part itself, does its own parts alone.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>

#include <tandem/core/device.h>

namespace tandem::host {

/// For how many parts work of so many nanoseconds of one thread is enough: 1 to
/// threads_per_device(). Less than that per part costs more than the wake-up of a helper (5 to 50
/// microseconds if it sleeps, one if it still looks).
int parts_for(double nanoseconds);

/// f(0) ... f(parts - 1), each once, in any order, on the team of a CPU device. All have ended when
/// it returns. If some throw, parts that have not begun are left out, and it throws what the first
/// of those that threw did.
void run_parts(Device device, int parts, const std::function<void(int)>& f);

template <class F>
void for_each_part(Device device, int parts, const F& f) {
  if (parts > 1) return run_parts(device, parts, std::cref(f));
  for (int i = 0; i < parts; ++i) f(i);
}

/// f(begin, end) for ranges that make up [0, n): as many as the work is worth, one if it is little.
/// Cuts are at multiples of `grain`.
template <class F>
void for_each_range(Device device, std::int64_t n, double nanoseconds, const F& f,
                    std::int64_t grain = 1) {
  const std::int64_t grains = (n + grain - 1) / grain;
  const std::int64_t parts = std::min<std::int64_t>(parts_for(nanoseconds), grains);
  if (parts <= 1) return f(std::int64_t(0), n);
  for_each_part(device, int(parts), [&](int i) {
    f(grains * i / parts * grain, std::min(n, grains * (i + 1) / parts * grain));
  });
}

}  // namespace tandem::host
