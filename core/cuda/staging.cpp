#include <tandem/core/cuda/staging.h>

#include <algorithm>
#include <utility>

#include <tandem/core/cuda/check.h>
#include <tandem/core/cuda/pinned.h>

namespace tandem::gpu {

Staging::~Staging() {
  clear();
}

Staging::Buffer Staging::take(std::size_t bytes) {
  const std::size_t size = bytes <= kSmall ? kSmall : kLarge;
  Buffer buffer;
  {
    const std::lock_guard lock(mutex_);
    Ring& ring = size == kSmall ? small_ : large_;
    const bool idle =
        !ring.idle.empty() &&
        (!ring.idle.front().busy || cudaEventQuery(ring.idle.front().busy.get()) == cudaSuccess);
    if (!idle) (void)cudaGetLastError();  // "not ready" is no error
    if (!idle && (ring.made < kMost || ring.idle.empty())) {
      ring.idle.reserve(ring.made + 1);
      try {
        std::byte* const data = allocate_host(size, device_, gpu_);
        ++ring.made;
        return {data, size, nullptr};
      } catch (const DeviceError&) {
        if (ring.idle.empty()) throw;  // else the oldest one will do, when it is done
      }
    }
    buffer = std::move(ring.idle.front());
    ring.idle.erase(ring.idle.begin());
    if (idle) {
      buffer.busy.reset();
      return buffer;
    }
  }
  const cudaError_t waited = cudaEventSynchronize(buffer.busy.get());
  if (waited == cudaSuccess) {
    buffer.busy.reset();
    return buffer;
  }
  give_back(std::move(buffer));
  TANDEM_CUDA_CHECK(device_, waited);
  return {};
}

void Staging::give_back(Buffer buffer) noexcept {
  const std::lock_guard lock(mutex_);
  Ring& ring = buffer.bytes == kSmall ? small_ : large_;
  ring.idle.push_back(std::move(buffer));
}

void Staging::clear() noexcept {
  const std::lock_guard lock(mutex_);
  for (Ring* ring : {&small_, &large_}) {
    for (Buffer& buffer : ring->idle) {
      if (buffer.busy) ignored(cudaEventSynchronize(buffer.busy.get()));
      ignored(cudaFreeHost(buffer.data));
    }
    ring->made -= ring->idle.size();
    ring->idle.clear();
  }
}

StagingLoan::~StagingLoan() {
  if (first_) ignored(cudaStreamSynchronize(first_));
  if (second_) ignored(cudaStreamSynchronize(second_));
  staging_.give_back(std::move(buffer_));
}

}  // namespace tandem::gpu
