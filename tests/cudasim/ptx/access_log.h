// Finds data races: remembers for every byte who wrote and who read it last, and when.
//
// Two accesses of one byte race if at least one is a plain write and nothing orders them. Within a
// block a barrier orders them, within a warp also __syncwarp(); between blocks of a launch nothing
// does. Time is counted in epochs: a number that grows with every block and every barrier, so that
// "since the last barrier" means "same epoch" and "another block" means "before this block's first
// epoch".
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
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

// The memory of one byte, or of several with the same past: the last write and the last read.
struct ByteLog {
  std::uint64_t write, read;

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

// The logs of one access.
struct Logs {
  ByteLog* first;
  std::size_t count;
};

// The logs of a kilobyte. One log stands for four bytes, until an access is smaller than that: up
// to then all four were always accessed together. Likewise for two.
class LogPage {
 public:
  static constexpr std::size_t kBytes = 1024;

  void clear() { std::fill_n(logs_, kBytes >> grain_, ByteLog{}); }
  void clear_all() {
    grain_ = kWord;
    clear();
  }

  template <std::size_t kSize>
  Logs at(std::size_t offset) {
    if constexpr (kSize < std::size_t{1} << kWord) {
      if (kSize < std::size_t{1} << grain_) split(std::countr_zero(kSize));
    }
    return {&logs_[offset >> grain_], kSize >> grain_};
  }

 private:
  static constexpr int kWord = 2;

  void split(int grain) {
    const std::size_t parts = std::size_t{1} << (grain_ - grain);
    for (std::size_t k = kBytes >> grain_; k-- > 0;) {
      const ByteLog whole = logs_[k];
      std::fill_n(&logs_[k * parts], parts, whole);
    }
    grain_ = grain;
  }

  int grain_ = kWord;  // one log for 2^grain_ bytes
  ByteLog logs_[kBytes];
};

// Pages that this thread has used before: a fresh one costs more than a short kernel.
class LogPages {
 public:
  static std::unique_ptr<LogPage> take();
  static void give_back(std::unique_ptr<LogPage> page);

 private:
  static constexpr std::size_t kMost = 4096;
  static std::vector<std::unique_ptr<LogPage>>& spare() {
    static thread_local std::vector<std::unique_ptr<LogPage>> pages;
    return pages;
  }
};

inline std::unique_ptr<LogPage> LogPages::take() {
  if (spare().empty()) spare().push_back(std::make_unique_for_overwrite<LogPage>());
  std::unique_ptr<LogPage> page = std::move(spare().back());
  spare().pop_back();
  page->clear_all();
  return page;
}

inline void LogPages::give_back(std::unique_ptr<LogPage> page) {
  if (page && spare().size() < kMost) spare().push_back(std::move(page));
}

// The logs of one allocation, in pages that appear when they are touched. Lives as long as the
// launch.
class AccessLog {
 public:
  explicit AccessLog(std::size_t bytes) : pages_((bytes + LogPage::kBytes - 1) / LogPage::kBytes) {}
  AccessLog(AccessLog&&) = default;
  ~AccessLog() {
    for (auto& page : pages_) LogPages::give_back(std::move(page));
  }

  // The logs of an access of kSize bytes at `offset`: aligned, so that it never crosses a page.
  template <std::size_t kSize>
  Logs at(std::size_t offset) {
    auto& page = pages_[offset / LogPage::kBytes];
    if (!page) page = LogPages::take();
    return page->at<kSize>(offset % LogPage::kBytes);
  }

  void clear() {
    for (auto& page : pages_)
      if (page) page->clear();
  }

 private:
  std::vector<std::unique_ptr<LogPage>> pages_;
};

}  // namespace cudasim::ptx
