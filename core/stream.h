// StreamGuard: a program's own CUDA stream in the place of a device's.
//
//   cudaStream_t mine = ...;                  // of the GPU that cuda:0 is on
//   {
//     StreamGuard guard(cuda(0), mine);
//     y = relu(x);                            // on `mine`, after all earlier work of cuda:0
//     my_kernel<<<grid, block, 0, mine>>>(y.array().data<float>());
//   }                                         // later work of cuda:0 runs after what is on `mine`
//
// Memory that is freed or reused meanwhile is ordered too. Worker threads of a DataParallel call
// carry the guard. On a CPU there is nothing to guard. SideStreams turns the same switch for the
// library's own work beside backward (parallel/reduce.h). Next: backend.h.
#pragma once

#include <span>
#include <vector>

#include <tandem/core/device.h>
#include <tandem/core/thread_state.h>

namespace tandem {

/// Work of this thread on `device` goes onto `stream` while the guard lives. Guards nest: of those
/// for a device the innermost counts, its work begins after what the one around it has been given,
/// and what that one is given later begins after it. A guard leaves other devices alone.
/// REQUIRES: `stream` is a cudaStream_t of the device's GPU, not null. Guards end in reverse order,
/// on the thread that made them.
class StreamGuard {
 public:
  StreamGuard(Device device, void* stream);
  ~StreamGuard();
  StreamGuard(const StreamGuard&) = delete;
  StreamGuard& operator=(const StreamGuard&) = delete;

 private:
  StreamState state_;
};

/// Work of this thread on `devices` goes onto their side streams (Backend::side_stream) while it
/// lives. It orders nothing: fork_side_stream() and join_side_stream() do, and a copy between two
/// of the devices orders their side streams. Threads that have such a scope share the streams.
/// Memory that is used within it must live until the join.
class SideStreams {
 public:
  explicit SideStreams(std::span<const Device> devices);
  ~SideStreams();
  SideStreams(const SideStreams&) = delete;
  SideStreams& operator=(const SideStreams&) = delete;

 private:
  const StreamState* before_;
  std::vector<StreamState> states_;
};

/// The stream that this thread's guards (or SideStreams) have put in the place of the device's own;
/// null: none.
void* guarded_stream(Device device);

}  // namespace tandem
