#include <tandem/core/cuda/events.h>

#include <tandem/core/cuda/check.h>

namespace tandem::gpu {

EventPool::~EventPool() {
  for (cudaEvent_t event : free_) ignored(cudaEventDestroy(event));
}

cudaEvent_t EventPool::take() {
  const std::lock_guard lock(mutex_);
  if (!free_.empty()) {
    const cudaEvent_t event = free_.back();
    free_.pop_back();
    return event;
  }
  if (free_.capacity() <= made_) free_.reserve(2 * made_ + 16);
  cudaEvent_t event = nullptr;
  TANDEM_CUDA_CHECK(device_, cudaEventCreateWithFlags(&event, flags_));
  ++made_;
  return event;
}

void EventPool::give_back(cudaEvent_t event) noexcept {
  const std::lock_guard lock(mutex_);
  free_.push_back(event);
}

Mark EventPool::record(cudaStream_t stream) {
  const OnDevice on(gpu_);
  const Mark mark(take(), [pool = shared_from_this()](cudaEvent_t e) { pool->give_back(e); });
  TANDEM_CUDA_CHECK(device_, cudaEventRecord(mark.get(), stream));
  return mark;
}

void wait(cudaStream_t stream, const Mark& mark, Device device) {
  if (mark) TANDEM_CUDA_CHECK(device, cudaStreamWaitEvent(stream, mark.get(), 0));
}

}  // namespace tandem::gpu
