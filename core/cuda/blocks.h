// The blocks of one logical device's pool, and who may still be using them.
//
// Note [Memory in stream order]
//   A block is freed by the host while the work that uses it may not have run. That is fine as long
//   as all work of a device goes onto one stream, the compute stream: whoever gets the block next
//   submits later to the same stream. Two things break the rule, and each leaves a mark on a block:
//     - record_use(): another stream reads it;
//     - a user's stream (StreamGuard), or the side stream, is the thread's current one while the
//       block is freed.
//   What the side stream uses besides is freed after its join.
//   A block with marks is reused only after the taker's stream has been told to wait for them, and
//   goes back to CUDA only after the host has waited. Copies between devices need no marks: their
//   edges order both streams (transfer.cpp).
//
// Thread safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <vector>

#include <tandem/core/array.h>
#include <tandem/core/cuda/events.h>

namespace tandem::gpu {

class Blocks {
 public:
  void add(void* data, std::size_t bytes);
  void remove(void* data) noexcept;
  /// The block that `inside` lies in must not be reused before `mark`.
  void mark(const void* inside, Mark mark);
  /// The marks on a block, which stay there until clear(): a wait for them may fail.
  std::vector<Mark> marks(const void* data);
  void clear(const void* data) noexcept { take(data); }
  /// Takes the marks off a block.
  std::vector<Mark> take(const void* data) noexcept;

 private:
  struct Block {
    std::size_t bytes = 0;
    std::vector<Mark> marks{};
  };
  std::mutex mutex_;
  std::map<const std::byte*, Block, std::greater<>> blocks_;  // by falling address
  std::atomic<std::size_t> marked_{0};                        // marks in all
};

/// Bytes for the work that is submitted while the array lives: in stream order it outlives them.
Array workspace(std::int64_t bytes, Device device);

}  // namespace tandem::gpu
