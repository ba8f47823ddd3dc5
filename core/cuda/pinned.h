// Pinned host memory that arrays lie in (Tensor::pin_memory), for copies which a GPU makes while
// the host goes on. One pool for all GPUs: each of them may read it. For copies of other arrays see
// staging.h.
//
// A block that is freed may still be read by copies, which have left marks on it (blocks.h). It is
// used again when they have run; until then somebody else gets another block, and nobody waits.
// Thread safe.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include <tandem/core/cuda/blocks.h>

namespace tandem::gpu {

class Pinned {
 public:
  /// Never destroyed, so static arrays may die late.
  static Pinned& all();

  /// Which GPU asks CUDA for memory: the first that is used, so that no other is woken up for it.
  void ask_by(Device device, int gpu);
  /// At least `bytes`. Throws DeviceError when there is no more.
  std::shared_ptr<std::byte> take(std::int64_t bytes);
  /// The block that `inside` lies in must not be used again before `mark`.
  void mark(const void* inside, Mark mark) { blocks_.mark(inside, std::move(mark)); }
  /// Returns what is free to the system, waiting for copies that read it.
  void empty_cache() noexcept;

 private:
  struct Ring {                      // blocks of one size
    std::vector<std::byte*> free{};  // the oldest first; capacity for all: giving back never
    std::size_t made = 0;            // allocates
  };
  std::byte* reuse(Ring& ring);
  void give_back(std::byte* data, std::size_t size) noexcept;

  std::mutex mutex_;
  Device device_{DeviceKind::cuda, 0};
  int gpu_ = -1;
  std::map<std::size_t, Ring> rings_;
  Blocks blocks_;
};

/// Host memory from CUDA. Asked again after the caches of `device` and of pinned memory have been
/// returned; then throws DeviceError.
std::byte* allocate_host(std::size_t bytes, Device device, int gpu);

}  // namespace tandem::gpu
