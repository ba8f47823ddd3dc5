// Pinned host memory through which copies go, so that nobody waits: the host fills a buffer and
// goes on, the GPU fetches it in stream order. A buffer comes back when the work that uses it is
// done. One per logical device; thread safe.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <mutex>
#include <vector>

#include <tandem/core/cuda/events.h>

namespace tandem::gpu {

class Staging {
 public:
  static constexpr std::size_t kSmall = std::size_t(64) << 10;  // bytes of a buffer
  static constexpr std::size_t kLarge = std::size_t(4) << 20;
  static constexpr std::size_t kMost = 8;  // buffers of each size; then the host waits

  Staging(Device device, int gpu) : device_(device), gpu_(gpu) {}
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  struct Buffer {
    std::byte* data = nullptr;
    std::size_t bytes = 0;
    Mark busy{};
  };

  /// A buffer of at least min(bytes, kLarge). Waits for the oldest one if all are busy.
  Buffer take(std::size_t bytes);
  /// `buffer.busy` is the last work that uses it.
  void give_back(Buffer buffer) noexcept;
  /// Waits for all buffers and returns them to the system.
  void clear() noexcept;

 private:
  struct Ring {
    std::vector<Buffer> idle{};  // the oldest first; capacity for all: giving back never allocates
    std::size_t made = 0;
  };

  Device device_;
  int gpu_;
  std::mutex mutex_;
  Ring small_, large_;
};

/// A buffer for the length of a scope. Unless done() was called, the destructor waits for the
/// streams that touched it: an exception came in between.
class StagingLoan {
 public:
  StagingLoan(Staging& staging, std::size_t bytes)
      : staging_(staging), buffer_(staging.take(bytes)) {}
  ~StagingLoan();
  StagingLoan(const StagingLoan&) = delete;
  StagingLoan& operator=(const StagingLoan&) = delete;

  std::byte* data() const { return buffer_.data; }
  std::size_t bytes() const { return buffer_.bytes; }
  /// Work that uses the buffer goes onto `stream`.
  void touched_by(cudaStream_t stream) { (first_ ? second_ : first_) = stream; }
  /// All of it is done when `mark` is.
  void done(Mark mark) {
    buffer_.busy = std::move(mark);
    first_ = second_ = nullptr;
  }

 private:
  Staging& staging_;
  Staging::Buffer buffer_;
  cudaStream_t first_ = nullptr, second_ = nullptr;
};

}  // namespace tandem::gpu
