#include <tandem/core/cuda/pinned.h>

#include <algorithm>
#include <bit>

#include <tandem/core/backend.h>
#include <tandem/core/cuda/check.h>

namespace tandem::gpu {
namespace {

constexpr std::size_t kSmallest = 4096;  // CUDA gives whole pages

bool has_run(const Mark& mark) {
  const bool done = cudaEventQuery(mark.get()) == cudaSuccess;
  if (!done) (void)cudaGetLastError();  // "not ready" is no error
  return done;
}

}  // namespace

Pinned& Pinned::all() {
  static auto* pool = new Pinned;
  return *pool;
}

void Pinned::ask_by(Device device, int gpu) {
  const std::lock_guard lock(mutex_);
  if (gpu_ >= 0) return;
  device_ = device;
  gpu_ = gpu;
}

std::shared_ptr<std::byte> Pinned::take(std::int64_t bytes) {
  const std::size_t size = std::bit_ceil(std::max(std::size_t(bytes), kSmallest));
  Device device;
  int gpu = 0;
  std::byte* data = nullptr;
  {
    const std::lock_guard lock(mutex_);
    device = device_;
    gpu = std::max(gpu_, 0);
    const OnDevice on(gpu);
    Ring& ring = rings_[size];
    data = reuse(ring);
    if (data == nullptr) {
      ring.free.reserve(ring.made + 1);
      ++ring.made;
    }
  }
  if (data == nullptr) {
    try {
      data = allocate_host(size, device, gpu);
      blocks_.add(data, size);
    } catch (...) {
      if (data != nullptr) ignored(cudaFreeHost(data));
      const std::lock_guard lock(mutex_);
      --rings_[size].made;
      throw;
    }
  }
  return {data, [this, size](std::byte* block) { give_back(block, size); }};
}

// The block that has been free for longest, if its copies have run.
std::byte* Pinned::reuse(Ring& ring) {
  if (ring.free.empty()) return nullptr;
  std::byte* const oldest = ring.free.front();
  const std::vector<Mark> marks = blocks_.marks(oldest);
  if (!std::all_of(marks.begin(), marks.end(), has_run)) return nullptr;
  blocks_.clear(oldest);
  ring.free.erase(ring.free.begin());
  return oldest;
}

void Pinned::give_back(std::byte* data, std::size_t size) noexcept {
  const std::lock_guard lock(mutex_);
  rings_[size].free.push_back(data);
}

void Pinned::empty_cache() noexcept {
  const std::lock_guard lock(mutex_);
  const OnDevice on(std::max(gpu_, 0), std::nothrow);
  for (auto& [size, ring] : rings_) {
    for (std::byte* data : ring.free) {
      for (const Mark& mark : blocks_.take(data)) ignored(cudaEventSynchronize(mark.get()));
      blocks_.remove(data);
      ignored(cudaFreeHost(data));
    }
    ring.made -= ring.free.size();
    ring.free.clear();
  }
}

std::byte* allocate_host(std::size_t bytes, Device device, int gpu) {
  const OnDevice on(gpu);
  void* data = nullptr;
  cudaError_t status = cudaHostAlloc(&data, bytes, cudaHostAllocPortable);
  if (status == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    backend(device).pool().empty_cache();
    Pinned::all().empty_cache();
    status = cudaHostAlloc(&data, bytes, cudaHostAllocPortable);
  }
  check_status(status, "cudaHostAlloc", device);
  return static_cast<std::byte*>(data);
}

}  // namespace tandem::gpu
