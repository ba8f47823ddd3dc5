// How many threads a CPU device computes with: a switch of the whole process.
//
// By default one, that of the caller, and N devices use N cores. A single device on a machine of
// many cores may have helpers: work that is large enough is cut into parts, and results do not
// depend on into how many. Next: docs/devices.md; how it is done is in core/cpu/team.h.
#pragma once

namespace tandem {

inline constexpr int kMostThreadsPerDevice = 256;

/// Threads of each CPU device, the caller's included; so N replicas use up to N times as many. At
/// first 1, or the environment variable TANDEM_THREADS_PER_DEVICE. May be called at any time, but
/// waits for the kernels that run: helpers that are too many end, those that are missing start with
/// the next large kernel. Throws UsageError for n < 1 and n > kMostThreadsPerDevice.
void set_threads_per_device(int n);
int threads_per_device();

}  // namespace tandem
