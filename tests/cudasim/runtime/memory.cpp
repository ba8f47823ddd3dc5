// The memory of the simulated devices. Each device is one arena of address space that nobody may
// touch, except while an operation runs that is allowed to; so a host program that dereferences a
// device pointer faults at once (fault.cpp names it). Fresh memory is full of NaN (0xFF), freed
// memory of 0xFE; between allocations lie red zones, and an address is never given out twice.
#include "runtime/state.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace cudasim {
namespace {

constexpr std::size_t kAlign = 256, kRedZone = 256, kPage = 4096;
constexpr int kFresh = 0xFF, kFreed = 0xFE;
// Addresses are not reused, so there have to be more of them than bytes. ThreadSanitizer pays for
// every page of address space.
std::size_t arena_size(std::size_t memory) {
  const std::size_t least = under_thread_sanitizer() ? std::size_t{64} << 20 : std::size_t{1} << 30;
  return std::max(least, 4 * memory);
}

std::size_t round_up(std::size_t n, std::size_t to) {
  return (n + to - 1) / to * to;
}

void* reserve(std::size_t bytes, int protection) {
  void* p = mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) {
    std::fprintf(stderr, "cudasim: no address space for %zu bytes\n", bytes);
    std::abort();
  }
  return p;
}

const Allocation* at_or_before(const std::map<const char*, Allocation>& all, const void* p) {
  auto after = all.upper_bound(static_cast<const char*>(p));
  return after == all.begin() ? nullptr : &std::prev(after)->second;
}

// A write by the simulator itself, into one device's arena.
template <class Write>
void with_arena(State& s, int device, Write&& write) {
  open_arenas(s, {device}, true);
  write();
  open_arenas(s, {device}, false);
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
  with_arena(s, index, [&] { std::memset(begin, kFresh, size); });
  *out = begin;
  return cudaSuccess;
}

cudaError_t release(State& s, Lock& lock, void* p) {
  if (!p) return cudaSuccess;
  const Place place = locate(s, p);
  const bool known = place.home == Home::device && place.allocation &&
                     place.allocation->begin == p && place.allocation->live;
  if (!known) return cudaErrorInvalidValue;  // freed before, or never allocated
  wait_for_device(s, lock, place.device);
  Device& device = s.devices[place.device];
  Allocation& allocation = device.allocations.at(static_cast<const char*>(p));
  if (!allocation.live) return cudaErrorInvalidValue;  // another thread was faster
  allocation.live = false;
  device.used -= round_up(allocation.size, kAlign);
  with_arena(s, place.device, [&] { std::memset(p, kFreed, allocation.size); });
  return cudaSuccess;
}

// Every pinned allocation has pages of its own, with an inaccessible one behind them.
cudaError_t allocate_pinned(State& s, void** out, std::size_t size) {
  if (!out) return cudaErrorInvalidValue;
  *out = nullptr;
  if (size == 0) return cudaSuccess;
  const std::size_t pages = round_up(size, kPage);
  char* const begin = static_cast<char*>(reserve(pages + kPage, PROT_NONE));
  mprotect(begin, pages, PROT_READ | PROT_WRITE);
  std::memset(begin, kFresh, size);
  s.pinned.emplace(begin, Allocation{begin, size, ++s.pinned_made, this_thread().device});
  *out = begin;
  return cudaSuccess;
}

cudaError_t release_pinned(State& s, void* p) {
  if (!p) return cudaSuccess;
  auto it = s.pinned.find(static_cast<const char*>(p));
  if (it == s.pinned.end() || !it->second.live) return cudaErrorInvalidValue;
  it->second.live = false;
  mprotect(p, round_up(it->second.size, kPage), PROT_NONE);
  return cudaSuccess;
}

}  // namespace

void create_devices(State& s) {
  for (int i = 0; i < s.config.devices; ++i) {
    Device& device = s.devices.emplace_back();
    device.arena_size = round_up(arena_size(s.config.memory), kPage);
    device.arena = static_cast<char*>(
        reserve(device.arena_size, s.gated() ? PROT_NONE : PROT_READ | PROT_WRITE));
    device.written = static_cast<std::uint8_t*>(reserve(device.arena_size, PROT_READ | PROT_WRITE));
    device.top = kRedZone;
    device.reaches.assign(s.config.devices, false);
  }
}

void release_memory(State& s) {
  for (Device& device : s.devices) {
    munmap(device.arena, device.arena_size);
    munmap(device.written, device.arena_size);
  }
  s.devices.clear();
  for (auto& [begin, allocation] : s.pinned)
    munmap(allocation.begin, round_up(allocation.size, kPage) + kPage);
  s.pinned.clear();
}

void open_arenas(State& s, const std::vector<int>& devices, bool open) {
  if (!s.gated()) return;
  for (int i : devices) {
    Device& device = s.devices[i];
    mprotect(device.arena, round_up(device.top, kPage), open ? PROT_READ | PROT_WRITE : PROT_NONE);
  }
}

Place locate(const State& s, const void* p) {
  for (std::size_t i = 0; i < s.devices.size(); ++i)
    if (s.devices[i].holds(p))
      return {Home::device, static_cast<int>(i), at_or_before(s.devices[i].allocations, p)};
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
  if (place.allocation && !place.allocation->live) return "uses " + describe(s, p);
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
