// Events of one logical device: points in a stream that other streams and the host can wait for.
//
// A mark is one of them in use. It goes back to the pool when its last owner drops it, so a mark
// is never recorded again while somebody could wait for it. Thread safe.
// Next: memory.h, staging.h (what marks protect), transfer.cpp (edges between devices).
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <mutex>
#include <vector>

#include <tandem/core/device.h>

namespace tandem::gpu {

using Mark = std::shared_ptr<CUevent_st>;

class EventPool : public std::enable_shared_from_this<EventPool> {
 public:
  /// `timed`: their times can be read, which costs the GPU a little.
  EventPool(Device device, int gpu, bool timed = false)
      : device_(device), gpu_(gpu), flags_(timed ? cudaEventDefault : cudaEventDisableTiming) {}
  ~EventPool();
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;

  /// What was submitted to `stream`, a stream of this pool's GPU, so far.
  Mark record(cudaStream_t stream);

 private:
  cudaEvent_t take();
  void give_back(cudaEvent_t event) noexcept;

  Device device_;
  int gpu_;
  unsigned flags_;
  std::mutex mutex_;
  std::vector<cudaEvent_t> free_;  // capacity for all there are: giving back never allocates
  std::size_t made_ = 0;
};

/// What is submitted to `stream` from now on runs after `mark`; streams of any GPU.
void wait(cudaStream_t stream, const Mark& mark, Device device);

}  // namespace tandem::gpu
