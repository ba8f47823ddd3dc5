// Memory: one caching pool per logical device, with statistics a person can read.
//
// Every block belongs to a category (what it is for), taken from the innermost CategoryScope of the
// allocating thread. Out of memory, real or over the device's limit, throws OutOfMemory with all
// the numbers. Pools are thread safe: a graph may be freed on another thread than the one that
// built it. Under AddressSanitizer a CPU's pool caches nothing, so a use after free is seen.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <tandem/core/device.h>
#include <tandem/core/error.h>

namespace tandem {

enum class Category : std::uint8_t {
  parameter,
  gradient,
  optimizer,
  activation,  // the default
  input,
  output,
  staging,
  workspace
};
inline constexpr int kCategories = 8;

const char* name(Category category);

/// Memory allocated by this thread while the scope lives is counted under `category`.
class CategoryScope {
 public:
  explicit CategoryScope(Category category);
  ~CategoryScope();
  CategoryScope(const CategoryScope&) = delete;
  CategoryScope& operator=(const CategoryScope&) = delete;

 private:
  Category before_;
};

/// Bytes, except where a name says otherwise. `allocated` counts the blocks in use (requests are
/// rounded up to the pool's size class); `reserved` all the pool holds, cached blocks included.
struct MemoryStats {
  std::int64_t allocated = 0;
  std::int64_t peak_allocated = 0;
  std::int64_t reserved = 0;
  std::int64_t peak_reserved = 0;
  std::int64_t allocation_count = 0;         // since the start
  std::int64_t system_allocation_count = 0;  // of these, how many had to ask the system
  std::array<std::int64_t, kCategories> by_category{};
  std::array<std::int64_t, kCategories> peak_by_category{};

  std::int64_t of(Category c) const { return by_category[std::size_t(c)]; }
  std::int64_t peak_of(Category c) const { return peak_by_category[std::size_t(c)]; }
};

class OutOfMemory : public Error {
 public:
  OutOfMemory(Device device, std::int64_t asked, std::int64_t limit, const MemoryStats& stats);

  Device device;
  std::int64_t asked;  // bytes of the request that failed
  std::int64_t limit;  // of the logical device; 0: none
  MemoryStats stats;   // when it failed
};

/// Where a pool gets its blocks from: a backend.
class RawMemory {
 public:
  virtual ~RawMemory() = default;
  /// 64-byte aligned at least; nullptr when there is no more.
  virtual void* raw_allocate(std::size_t bytes) = 0;
  virtual void raw_free(void* data) noexcept = 0;
  /// A sanitizer watches the system's blocks: keep none, or it cannot see who uses a freed one.
  virtual bool watched() const noexcept { return false; }
  /// `data` goes into the pool's cache, or is about to come out of it. Under the pool's lock.
  virtual void released(void*) noexcept {}
  virtual void reused(void*) {}
  /// The system has no more, and this pool's cache is empty: did others who share the memory give
  /// theirs back? Under the pool's lock.
  virtual bool others_made_room() noexcept { return false; }
};

/// The caching pool of one logical device. Thread safe. Free blocks are kept by size class (four
/// per power of two); a request that the system refuses is tried again after the cache is returned.
class Pool {
 public:
  Pool(Device device, RawMemory& raw, std::int64_t limit);

  /// `bytes` and `category` are remembered by the caller and given back to release().
  void* allocate(std::int64_t bytes, Category category);
  void release(void* data, std::int64_t bytes, Category category) noexcept;
  void relabel(std::int64_t bytes, Category from, Category to) noexcept;

  MemoryStats stats() const;
  void reset_peak();
  void empty_cache();
  /// Unless somebody uses the pool just now. Did it give anything back?
  bool try_empty_cache() noexcept;
  void set_limit(std::int64_t bytes);
  std::int64_t limit() const;

 private:
  struct SizeClass {
    std::vector<void*> free;  // capacity for all its blocks: release() never allocates
    std::size_t blocks = 0;   // free or in use
  };
  bool within_limit(std::int64_t more) const {
    return limit_ == 0 || stats_.reserved + more <= limit_;
  }
  void* ask_system(std::int64_t size, SizeClass& c);
  void return_cache() noexcept;
  void count(std::int64_t bytes, Category category) noexcept;

  Device device_;
  RawMemory& raw_;
  mutable std::mutex mutex_;
  std::int64_t limit_;
  MemoryStats stats_;
  std::vector<SizeClass> classes_;
};

namespace memory {

MemoryStats stats(Device device);
/// Peaks start again from what is in use now.
void reset_peak(Device device);
/// Returns cached blocks to the system.
void empty_cache(Device device);
/// Bytes the device may reserve; 0 removes the limit.
void set_limit(Device device, std::int64_t bytes);
/// A table for people: a line per device, a column per category in use; MiB, peaks if asked for.
std::string table(const std::vector<Device>& devices, bool peak = false);
/// In one line: "cpu:0 12.3 MiB (peak 40.1) | cpu:1 8.0 MiB (peak 9.5)".
std::string line(const std::vector<Device>& devices);

}  // namespace memory
}  // namespace tandem
