// The memory of the simulated devices. The addresses of a device are an arena that nobody may
// touch, so a host program that dereferences a device pointer faults at once (fault.cpp names it);
// the bytes lie elsewhere, and only operations that have passed the checks get there. Fresh memory
// is full of NaN (0xFF), freed memory of 0xFE; between allocations lie red zones, and an address is
// never given out twice. What was freed long ago takes no memory.
#include "runtime/state.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace cudasim {
namespace {

constexpr std::size_t kAlign = 256, kRedZone = 256, kPage = 4096;
constexpr int kFresh = 0xFF, kFreed = 0xFE;
// Addresses are not reused, so there have to be far more of them than bytes.
constexpr std::size_t kArena = std::size_t{64} << 30, kLeastArena = std::size_t{1} << 30;
constexpr std::size_t kStep = std::size_t{16} << 20;  // by which an arena's bytes grow
// What was freed lately can still be named, and is full of kFreed.
constexpr std::size_t kFreedBytesKept = std::size_t{16} << 20, kFreedKept = 512;

std::size_t round_up(std::size_t n, std::size_t to) {
  return (n + to - 1) / to * to;
}

void* try_to_reserve(std::size_t bytes) {
  constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  // not mmap(): ThreadSanitizer would touch its shadow of all these addresses
  const long p = syscall(SYS_mmap, nullptr, bytes, PROT_NONE, flags, -1, 0);
  return p == -1 ? nullptr : reinterpret_cast<void*>(p);
}

char* reserve(std::size_t bytes) {
  void* const p = try_to_reserve(bytes);
  if (p) return static_cast<char*>(p);
  std::fprintf(stderr, "cudasim: no address space for %zu bytes\n", bytes);
  std::abort();
}

const Allocation* at_or_before(const std::map<const char*, Allocation>& all, const void* p) {
  auto after = all.upper_bound(static_cast<const char*>(p));
  return after == all.begin() ? nullptr : &std::prev(after)->second;
}

void make_accessible(char* p, std::size_t bytes) {
  if (mprotect(p, bytes, PROT_READ | PROT_WRITE) == 0) return;
  std::fprintf(stderr, "cudasim: no memory for %zu bytes more\n", bytes);
  std::abort();
}

void open_up_to(Device& d, std::size_t end) {
  if (end <= d.open) return;
  const std::size_t more = std::min(round_up(end, kStep), d.arena_size) - d.open;
  make_accessible(d.bytes + d.open, more);
  make_accessible(reinterpret_cast<char*>(d.written) + d.open, more);
  d.open += more;
}

std::size_t span_of(const Allocation& a) {
  return round_up(a.size, kAlign) + kRedZone;
}

// The pages of [begin, end), which lie in `range`, are given back if they lie in it as a whole.
void give_back_pages(const Device& d, const char* begin, const char* end,
                     const std::pair<const char* const, const char*>& range) {
  const auto offset = [&](const char* p) { return static_cast<std::size_t>(p - d.arena); };
  const std::size_t from =
      std::max(offset(begin) / kPage * kPage, round_up(offset(range.first), kPage));
  const std::size_t to =
      std::min(round_up(offset(end), kPage), offset(range.second) / kPage * kPage);
  if (from >= to) return;
  madvise(d.bytes + from, to - from, MADV_DONTNEED);
  madvise(d.written + from, to - from, MADV_DONTNEED);
}

// Joins [begin, end) with its neighbours that are forgotten.
void forget(Device& d, const char* begin, const char* end) {
  auto after = d.forgotten.lower_bound(begin);
  auto range = after;
  if (after != d.forgotten.begin() && std::prev(after)->second == begin) {
    range = std::prev(after);
    range->second = end;
  } else {
    range = d.forgotten.emplace_hint(after, begin, end);
  }
  if (after != d.forgotten.end() && after->first == end) {
    range->second = after->second;
    d.forgotten.erase(after);
  }
  give_back_pages(d, begin, end, *range);
}

void forget_old(Device& d) {
  while (d.freed_bytes > kFreedBytesKept || d.freed.size() > kFreedKept) {
    const auto oldest = d.allocations.find(d.freed.front());
    const std::size_t span = span_of(oldest->second);
    forget(d, oldest->first, oldest->first + span);
    d.freed_bytes -= span;
    d.allocations.erase(oldest);
    d.freed.pop_front();
  }
}

bool is_forgotten(const Device& d, const char* p) {
  const auto after = d.forgotten.upper_bound(p);
  return after != d.forgotten.begin() && p < std::prev(after)->second;
}

cudaError_t allocate(State& s, void** out, std::size_t size) {
  if (!out) return cudaErrorInvalidValue;
  *out = nullptr;
  if (size == 0) return cudaSuccess;
  const int index = this_thread().device;
  Device& device = s.devices[index];
  const std::size_t taken = round_up(size, kAlign);
  if (taken < size || device.used + taken > s.config.memory) return cudaErrorMemoryAllocation;
  if (device.top + taken + kRedZone > device.arena_size) {
    std::fprintf(stderr, "cudasim: device %d has no addresses left; they are not reused\n", index);
    std::abort();
  }
  char* const begin = device.arena + device.top;
  device.top += taken + kRedZone;
  device.used += taken;
  device.allocations.emplace(begin, Allocation{begin, size, ++s.allocations_made, index});
  open_up_to(device, device.top);
  std::memset(bytes_at(s, begin), kFresh, size);
  memory_changed(s);
  *out = begin;
  return cudaSuccess;
}

cudaError_t release(State& s, Lock& lock, void* p) {
  if (!p) return cudaSuccess;
  const Place place = locate(s, p);
  const bool known = place.home == Home::device && place.allocation &&
                     place.allocation->begin == p && place.allocation->live;
  if (!known) return cudaErrorInvalidValue;  // freed before, or never allocated
  if (s.config.free_waits) wait_for_device(s, lock, place.device);
  Device& device = s.devices[place.device];
  Allocation& allocation = device.allocations.at(static_cast<const char*>(p));
  if (!allocation.live) return cudaErrorInvalidValue;  // another thread was faster
  allocation.live = false;
  device.used -= round_up(allocation.size, kAlign);
  std::memset(bytes_at(s, p), kFreed, allocation.size);
  device.freed.push_back(allocation.begin);
  device.freed_bytes += span_of(allocation);
  forget_old(device);
  memory_changed(s);
  return cudaSuccess;
}

// Every pinned allocation has pages of its own, with an inaccessible one behind them.
cudaError_t allocate_pinned(State& s, void** out, std::size_t size) {
  if (!out) return cudaErrorInvalidValue;
  *out = nullptr;
  if (size == 0) return cudaSuccess;
  const std::size_t pages = round_up(size, kPage);
  char* const begin = reserve(pages + kPage);
  make_accessible(begin, pages);
  std::memset(begin, kFresh, size);
  s.pinned.emplace(begin, Allocation{begin, size, ++s.pinned_made, this_thread().device});
  memory_changed(s);
  *out = begin;
  return cudaSuccess;
}

cudaError_t release_pinned(State& s, void* p) {
  if (!p) return cudaSuccess;
  auto it = s.pinned.find(static_cast<const char*>(p));
  if (it == s.pinned.end() || !it->second.live) return cudaErrorInvalidValue;
  it->second.live = false;
  const std::size_t pages = round_up(it->second.size, kPage);
  mprotect(p, pages, PROT_NONE);
  madvise(p, pages, MADV_DONTNEED);
  memory_changed(s);
  return cudaSuccess;
}

}  // namespace

void create_devices(State& s) {
  for (int i = 0; i < s.config.devices; ++i) {
    Device& device = s.devices.emplace_back();
    device.arena_size = kArena;
    while (!(device.arena = static_cast<char*>(try_to_reserve(device.arena_size))) &&
           device.arena_size > kLeastArena)
      device.arena_size /= 2;
    if (!device.arena) device.arena = reserve(device.arena_size);  // says so
    device.bytes = reserve(device.arena_size);
    device.written = reinterpret_cast<std::uint8_t*>(reserve(device.arena_size));
    device.top = kRedZone;
    device.reaches.assign(s.config.devices, false);
  }
}

void release_memory(State& s) {
  for (Device& device : s.devices) {
    munmap(device.arena, device.arena_size);
    munmap(device.bytes, device.arena_size);
    munmap(device.written, device.arena_size);
  }
  s.devices.clear();
  for (auto& [begin, allocation] : s.pinned)
    munmap(allocation.begin, round_up(allocation.size, kPage) + kPage);
  s.pinned.clear();
}

void memory_changed(State& s) {
  for (Device& device : s.devices) device.kernel_memory.reset();
}

char* bytes_at(const State& s, const void* p) {
  const char* const at = static_cast<const char*>(p);
  for (const Device& device : s.devices)
    if (device.holds(p)) return device.bytes + (at - device.arena);
  return const_cast<char*>(at);
}

Place locate(const State& s, const void* p) {
  for (std::size_t i = 0; i < s.devices.size(); ++i) {
    const Device& d = s.devices[i];
    if (!d.holds(p)) continue;
    const bool forgotten = is_forgotten(d, static_cast<const char*>(p));
    return {Home::device, static_cast<int>(i), forgotten ? nullptr : at_or_before(d.allocations, p),
            forgotten};
  }
  const Allocation* pinned = at_or_before(s.pinned, p);
  if (pinned && static_cast<const char*>(p) < pinned->begin + pinned->size)
    return {Home::pinned, pinned->device, pinned};
  return {};
}

std::string describe(const State& s, const void* p) {
  const Place place = locate(s, p);
  if (place.home == Home::pageable) return "pageable host memory";
  const bool device = place.home == Home::device;
  std::string where = device ? "memory of device " + std::to_string(place.device)
                             : std::string("pinned host memory");
  if (place.forgotten) return where + ", freed long ago";
  if (!place.allocation) return where + ", before its first allocation";
  const Allocation& a = *place.allocation;
  return (a.live ? "" : "freed ") + where + ", " +
         std::to_string(static_cast<const char*>(p) - a.begin) + " bytes into " +
         (device ? "cudaMalloc #" : "cudaMallocHost #") + std::to_string(a.number) + " of " +
         std::to_string(a.size) + " bytes";
}

std::string objection(const State& s, const void* p, std::size_t n) {
  const Place place = locate(s, p);
  if (place.home == Home::pageable || n == 0) return "";
  if (place.forgotten || (place.allocation && !place.allocation->live))
    return "uses " + describe(s, p);
  const char* begin = static_cast<const char*>(p);
  const Allocation* a = place.allocation;
  if (!a || begin + n > a->begin + a->size)
    return "takes " + std::to_string(n) + " bytes from " + describe(s, p);
  return "";
}

void mark_written(State& s, const void* p, std::size_t n) {
  const Place place = locate(s, p);
  if (place.home != Home::device) return;
  Device& device = s.devices[place.device];
  std::memset(device.written + (static_cast<const char*>(p) - device.arena), 1, n);
}

void copy_written(State& s, void* to, const void* from, std::size_t n) {
  const Place target = locate(s, to), source = locate(s, from);
  if (target.home != Home::device) return;
  if (source.home != Home::device) return mark_written(s, to, n);
  Device &t = s.devices[target.device], &f = s.devices[source.device];
  std::memcpy(t.written + (static_cast<char*>(to) - t.arena),
              f.written + (static_cast<const char*>(from) - f.arena), n);
}

}  // namespace cudasim

using namespace cudasim;

extern "C" {

cudaError_t CUDARTAPI cudaMalloc(void** p, size_t size) {
  return api(__func__, [&](State& s, Lock&) { return allocate(s, p, size); });
}

cudaError_t CUDARTAPI cudaFree(void* p) {
  return api(__func__, [&](State& s, Lock& lock) { return release(s, lock, p); });
}

cudaError_t CUDARTAPI cudaMallocHost(void** p, size_t size) {
  return api(__func__, [&](State& s, Lock&) { return allocate_pinned(s, p, size); });
}

cudaError_t CUDARTAPI cudaHostAlloc(void** p, size_t size, unsigned int flags) {
  return api(__func__, [&](State& s, Lock&) {
    const unsigned known = cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined;
    return flags & ~known ? cudaErrorInvalidValue : allocate_pinned(s, p, size);
  });
}

cudaError_t CUDARTAPI cudaFreeHost(void* p) {
  return api(__func__, [&](State& s, Lock&) { return release_pinned(s, p); });
}

cudaError_t CUDARTAPI cudaMemGetInfo(size_t* free, size_t* total) {
  return api(__func__, [&](State& s, Lock&) {
    if (!free || !total) return cudaErrorInvalidValue;
    *total = s.config.memory;
    *free = s.config.memory - s.devices[this_thread().device].used;
    return cudaSuccess;
  });
}

cudaError_t CUDARTAPI cudaPointerGetAttributes(cudaPointerAttributes* out, const void* p) {
  return api(__func__, [&](State& s, Lock&) {
    if (!out) return cudaErrorInvalidValue;
    *out = {};
    out->type = cudaMemoryTypeUnregistered;
    out->device = -1;  // cudaInvalidDeviceId is -2; the documentation leaves this case open
    out->hostPointer = const_cast<void*>(p);
    const Place place = locate(s, p);
    if (place.home == Home::pageable || !place.allocation || !place.allocation->live)
      return cudaSuccess;
    out->device = place.device;
    out->devicePointer = const_cast<void*>(p);
    out->type = place.home == Home::pinned ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
    if (place.home == Home::device) out->hostPointer = nullptr;
    return cudaSuccess;
  });
}

}  // extern "C"
