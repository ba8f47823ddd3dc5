#include <tandem/core/memory.h>

#include <algorithm>
#include <bit>
#include <iomanip>

#include <tandem/core/backend.h>
#include <tandem/core/thread_state.h>

namespace tandem {
namespace {

constexpr std::int64_t kSmallest = 64;

// Size classes: 64 * (4 + q) / 4 * 2^k for q = 0..3, rounded up to 64: at most a quarter is wasted.
int class_of(std::int64_t bytes) {
  const std::uint64_t units =
      std::uint64_t((std::max(bytes, kSmallest) + kSmallest - 1) / kSmallest);
  if (units <= 4) return int(units) - 1;
  const int log = std::bit_width(units - 1) - 1;  // units in (2^log, 2^(log+1)]
  const std::uint64_t step = std::uint64_t(1) << (log - 2);
  const int quarter = int((units - (std::uint64_t(1) << log) + step - 1) / step);  // 1..4
  return 4 * (log - 1) + quarter - 1;
}

std::int64_t class_bytes(int c) {
  if (c < 4) return kSmallest * (c + 1);
  const int log = c / 4 + 1, quarter = c % 4 + 1;
  return kSmallest * ((std::int64_t(1) << log) + quarter * (std::int64_t(1) << (log - 2)));
}

std::string mib(std::int64_t bytes) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(1) << double(bytes) / (1 << 20) << " MiB";
  return out.str();
}

std::string describe(Device device, std::int64_t asked, std::int64_t limit,
                     const MemoryStats& stats) {
  std::ostringstream out;
  out << "[memory] out of memory on " << device << ": asked for " << asked << " bytes ("
      << mib(asked) << "); in use " << mib(stats.allocated);
  const char* separator = " (";
  for (int c = 0; c < kCategories; ++c) {
    if (stats.by_category[std::size_t(c)] == 0) continue;
    out << separator << name(Category(c)) << " " << mib(stats.by_category[std::size_t(c)]);
    separator = ", ";
  }
  out << (stats.allocated > 0 ? ")" : "") << "; reserved " << mib(stats.reserved)
      << ", of which free " << mib(stats.reserved - stats.allocated) << "; limit "
      << (limit > 0 ? mib(limit) : std::string("none"))
      << ". Use a smaller batch, more devices, or memory::set_limit()";
  return out.str();
}

}  // namespace

const char* name(Category category) {
  static constexpr const char* names[] = {"parameter", "gradient", "optimizer", "activation",
                                          "input",     "output",   "staging",   "workspace"};
  return names[std::size_t(category)];
}

OutOfMemory::OutOfMemory(Device d, std::int64_t bytes, std::int64_t lim, const MemoryStats& s)
    : Error(describe(d, bytes, lim, s)), device(d), asked(bytes), limit(lim), stats(s) {}

Pool::Pool(Device device, RawMemory& raw, std::int64_t limit)
    : device_(device), raw_(raw), limit_(limit), classes_(4 * 50) {}

void* Pool::allocate(std::int64_t bytes, Category category) {
  // A shape whose bytes overflow comes as a negative number: no memory can hold it either way.
  const bool possible = bytes >= 0 && bytes < (std::int64_t(1) << 50);
  const std::lock_guard lock(mutex_);
  if (!possible) throw OutOfMemory(device_, bytes, limit_, stats_);
  const int c = class_of(bytes);
  const std::int64_t size = class_bytes(c);
  SizeClass& size_class = classes_[std::size_t(c)];
  void* data = nullptr;
  if (!size_class.free.empty()) {
    data = size_class.free.back();
    raw_.reused(data);
    size_class.free.pop_back();
  } else {
    data = ask_system(size, size_class);
    if (data == nullptr) {
      return_cache();
      data = ask_system(size, size_class);
    }
    if (data == nullptr && within_limit(size) && raw_.others_made_room()) {
      data = ask_system(size, size_class);
    }
    if (data == nullptr) throw OutOfMemory(device_, bytes, limit_, stats_);
  }
  ++stats_.allocation_count;
  count(size, category);
  return data;
}

void* Pool::ask_system(std::int64_t size, SizeClass& c) {
  if (!within_limit(size)) return nullptr;
  if (c.free.capacity() <= c.blocks) c.free.reserve(2 * c.blocks + 16);
  void* data = raw_.raw_allocate(std::size_t(size));
  if (data == nullptr) return nullptr;
  ++c.blocks;
  stats_.reserved += size;
  stats_.peak_reserved = std::max(stats_.peak_reserved, stats_.reserved);
  ++stats_.system_allocation_count;
  return data;
}

void Pool::count(std::int64_t bytes, Category category) noexcept {
  stats_.allocated += bytes;
  stats_.peak_allocated = std::max(stats_.peak_allocated, stats_.allocated);
  std::int64_t& mine = stats_.by_category[std::size_t(category)];
  std::int64_t& peak = stats_.peak_by_category[std::size_t(category)];
  mine += bytes;
  peak = std::max(peak, mine);
}

void Pool::release(void* data, std::int64_t bytes, Category category) noexcept {
  const std::lock_guard lock(mutex_);
  const int c = class_of(bytes);
  const std::int64_t size = class_bytes(c);
  count(-size, category);
  SizeClass& size_class = classes_[std::size_t(c)];
  if (raw_.watched()) {
    --size_class.blocks;
    stats_.reserved -= size;
    raw_.raw_free(data);
  } else {
    raw_.released(data);
    size_class.free.push_back(data);
  }
}

void Pool::relabel(std::int64_t bytes, Category from, Category to) noexcept {
  const std::lock_guard lock(mutex_);
  const std::int64_t size = class_bytes(class_of(bytes));
  count(-size, from);
  count(size, to);
}

void Pool::return_cache() noexcept {
  for (std::size_t c = 0; c < classes_.size(); ++c) {
    SizeClass& size_class = classes_[c];
    for (void* data : size_class.free) raw_.raw_free(data);
    stats_.reserved -= class_bytes(int(c)) * std::int64_t(size_class.free.size());
    size_class.blocks -= size_class.free.size();
    size_class.free.clear();
  }
}

MemoryStats Pool::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

void Pool::reset_peak() {
  const std::lock_guard lock(mutex_);
  stats_.peak_allocated = stats_.allocated;
  stats_.peak_reserved = stats_.reserved;
  stats_.peak_by_category = stats_.by_category;
}

void Pool::empty_cache() {
  const std::lock_guard lock(mutex_);
  return_cache();
}

bool Pool::try_empty_cache() noexcept {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return false;
  const std::int64_t before = stats_.reserved;
  return_cache();
  return stats_.reserved < before;
}

void Pool::set_limit(std::int64_t bytes) {
  check(bytes >= 0, "[memory] a limit of ", bytes, " bytes; 0 means no limit");
  const std::lock_guard lock(mutex_);
  limit_ = bytes;
}

std::int64_t Pool::limit() const {
  const std::lock_guard lock(mutex_);
  return limit_;
}

namespace memory {

MemoryStats stats(Device device) {
  return backend(device).pool().stats();
}
void reset_peak(Device device) {
  backend(device).pool().reset_peak();
}
void empty_cache(Device device) {
  backend(device).pool().empty_cache();
}
void set_limit(Device device, std::int64_t bytes) {
  backend(device).pool().set_limit(bytes);
}

std::string table(const std::vector<Device>& devices, bool peak) {
  std::array<bool, kCategories> used{};
  std::vector<MemoryStats> all;
  for (Device d : devices) {
    all.push_back(stats(d));
    for (int c = 0; c < kCategories; ++c) {
      used[std::size_t(c)] |= all.back().peak_by_category[std::size_t(c)] > 0;
    }
  }
  std::ostringstream out;
  out << std::fixed << std::setprecision(3) << std::left << std::setw(8)
      << (peak ? "peak MiB" : "MiB") << std::right;
  for (int c = 0; c < kCategories; ++c) {
    if (used[std::size_t(c)]) out << std::setw(12) << name(Category(c));
  }
  out << std::setw(12) << "total" << std::setw(12) << "reserved"
      << "\n";
  auto cell = [&](std::int64_t bytes) { out << std::setw(12) << double(bytes) / (1 << 20); };
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const MemoryStats& s = all[i];
    out << std::left << std::setw(8) << devices[i].str() << std::right;
    for (int c = 0; c < kCategories; ++c) {
      if (used[std::size_t(c)]) cell(peak ? s.peak_of(Category(c)) : s.of(Category(c)));
    }
    cell(peak ? s.peak_allocated : s.allocated);
    cell(peak ? s.peak_reserved : s.reserved);
    out << "\n";
  }
  return out.str();
}

std::string line(const std::vector<Device>& devices) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(1);
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const MemoryStats s = stats(devices[i]);
    out << (i == 0 ? "" : " | ") << devices[i] << " " << mib(s.allocated) << " (peak "
        << double(s.peak_allocated) / (1 << 20) << ")";
  }
  return out.str();
}

}  // namespace memory
}  // namespace tandem
