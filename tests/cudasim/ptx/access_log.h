// Finds data races: remembers for every byte who wrote and who read it last, and when.
//
// Two accesses of one byte race if at least one is a plain write and nothing orders them. Within a
// block a barrier orders them, within a warp also __syncwarp(); between blocks of a launch nothing
// does. Time is counted in epochs: a number that grows with every block and every barrier, so that
// "since the last barrier" means "same epoch" and "another block" means "before this block's first
// epoch".
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace cudasim::ptx {

// An access in 64 bits:   epoch (37) | warp epoch (13) | thread (10) | flags (4).   0: nobody yet.
namespace tag {
constexpr std::uint64_t kManyLanes = 1;   // several threads of one warp in this epoch
constexpr std::uint64_t kManyWarps = 2;   // threads of several warps in this epoch
constexpr std::uint64_t kManyBlocks = 4;  // several blocks
constexpr std::uint64_t kAtomic = 8;
constexpr std::uint64_t kFlags = 15;
constexpr int kThreadAt = 4, kWarpEpochAt = 14, kEpochAt = 27, kLanesBits = 5;

constexpr std::uint64_t make(std::uint64_t epoch, std::uint64_t warp_epoch, std::uint64_t thread) {
  return epoch << kEpochAt | (warp_epoch & 0x1fff) << kWarpEpochAt | thread << kThreadAt;
}
constexpr std::uint64_t epoch(std::uint64_t t) {
  return t >> kEpochAt;
}
constexpr std::uint64_t warp_epoch(std::uint64_t t) {
  return t >> kWarpEpochAt & 0x1fff;
}
constexpr std::uint64_t thread(std::uint64_t t) {
  return t >> kThreadAt & 0x3ff;
}
constexpr std::uint64_t warp(std::uint64_t t) {
  return t >> (kThreadAt + kLanesBits) & 0x1f;
}
}  // namespace tag

enum class Access { Read, Write, Atomic };

// The memory of one byte: its last write and its last read.
struct ByteLog {
  std::uint64_t write = 0;
  std::uint64_t read = 0;

  // Records an access by `me` (a tag without flags) and returns the tag it races with, or 0.
  // `first` is the first epoch of the block that runs.
  template <Access access>
  std::uint64_t record(std::uint64_t me, std::uint64_t first);

 private:
  static bool unordered(std::uint64_t other, std::uint64_t me, std::uint64_t first);
  static std::uint64_t joined(std::uint64_t other, std::uint64_t me, std::uint64_t first);
};

// Is `other` neither ours nor ordered before us?
inline bool ByteLog::unordered(std::uint64_t other, std::uint64_t me, std::uint64_t first) {
  if (other == 0) return false;
  if (tag::epoch(other) < first || other & tag::kManyBlocks) return true;
  if (tag::epoch(other) != tag::epoch(me)) return false;
  if (other & tag::kManyWarps || tag::warp(other) != tag::warp(me)) return true;
  if (!(other & tag::kManyLanes) && tag::thread(other) == tag::thread(me)) return false;
  return tag::warp_epoch(other) >= tag::warp_epoch(me);
}

// The tag that stands for `other` and `me` together, where they need not be ordered (reads,
// atomics).
inline std::uint64_t ByteLog::joined(std::uint64_t other, std::uint64_t me, std::uint64_t first) {
  if (other == 0) return me;
  if (tag::epoch(other) < first) return me | tag::kManyBlocks;
  std::uint64_t flags = other & tag::kManyBlocks;
  if (tag::epoch(other) == tag::epoch(me)) {
    flags |= other & tag::kFlags;
    if (tag::warp(other) != tag::warp(me)) {
      flags |= tag::kManyWarps;
    } else if (tag::thread(other) != tag::thread(me)) {
      flags |= tag::kManyLanes;
    }
  }
  return me | (flags & ~tag::kAtomic);
}

template <Access access>
std::uint64_t ByteLog::record(std::uint64_t me, std::uint64_t first) {
  std::uint64_t rival = 0;
  if constexpr (access == Access::Read) {
    if (unordered(write, me, first)) rival = write;
    read = joined(read, me, first);
  } else if constexpr (access == Access::Write) {
    if (unordered(write, me, first)) {
      rival = write;
    } else if (unordered(read, me, first)) {
      rival = read;
    }
    write = me;
  } else {
    if (!(write & tag::kAtomic) && unordered(write, me, first)) {
      rival = write;
    } else if (unordered(read, me, first)) {
      rival = read;
    }
    write = (write & tag::kAtomic ? joined(write, me, first) : me) | tag::kAtomic;
  }
  return rival;
}

// The logs of one allocation, in pages that appear when they are touched. Lives as long as the
// launch.
class AccessLog {
 public:
  explicit AccessLog(std::size_t bytes) : pages_((bytes + kPage - 1) / kPage) {}

  // The logs from `offset` on; accesses are aligned and never cross a page.
  ByteLog* at(std::size_t offset) {
    auto& page = pages_[offset / kPage];
    if (!page) page = std::make_unique<ByteLog[]>(kPage);
    return &page[offset % kPage];
  }

 private:
  static constexpr std::size_t kPage = 1024;
  std::vector<std::unique_ptr<ByteLog[]>> pages_;
};

}  // namespace cudasim::ptx
