// See kernel_launch.h.
#include "runtime/kernel_launch.h"

#include "runtime/state.h"

#include <algorithm>

namespace cudasim {
namespace {

bool reachable(const State& s, int device, int owner) {
  return owner == device || s.devices[device].reaches[owner];
}

std::shared_ptr<const KernelMemory> snapshot(State& s, int device) {
  if (s.devices[device].kernel_memory) return s.devices[device].kernel_memory;
  auto memory = std::make_shared<KernelMemory>();
  memory->device = device;
  auto add = [&](const Allocation& a, std::uint8_t* written) {
    if (!a.live) return;
    char* const bytes = bytes_at(s, a.begin);
    memory->ranges.push_back({reinterpret_cast<std::uint64_t>(a.begin), a.size,
                              reinterpret_cast<std::byte*>(bytes), written});
  };
  for (std::size_t i = 0; i < s.devices.size(); ++i) {
    const Device& owner = s.devices[i];
    if (!reachable(s, device, static_cast<int>(i))) continue;
    for (const auto& [begin, a] : owner.allocations) add(a, owner.written + (begin - owner.arena));
  }
  for (const auto& [begin, a] : s.pinned) add(a, nullptr);
  std::sort(memory->ranges.begin(), memory->ranges.end(),
            [](const auto& a, const auto& b) { return a.begin < b.begin; });
  return s.devices[device].kernel_memory = memory;
}

// Why a kernel of `device` must not touch [address, address + size).
std::string obstacle(const State& s, int device, std::uint64_t address, std::size_t size) {
  const auto* p = reinterpret_cast<const char*>(address);
  const Place place = locate(s, p);
  if (place.forgotten) return "freed memory (" + describe(s, p) + ")";
  const Allocation* a = place.allocation;
  if (place.home == Home::pageable || !a || p >= a->begin + a->size)
    return "outside any allocation";
  if (!a->live) return "freed memory (" + describe(s, a->begin) + ")";
  if (place.home == Home::device && !reachable(s, device, place.device))
    return "memory of device " + std::to_string(place.device) + " without peer access";
  if (p + size > a->begin + a->size)
    return "across the end of an allocation of " + std::to_string(a->size) + " bytes";
  return "memory that was allocated after the kernel had started";
}

// The limits of every compute capability in use (CUDA programming guide, table of technical
// specifications).
cudaError_t refuse(const LaunchShape& shape) {
  const dim3 g = shape.grid, b = shape.block;
  const bool empty = !g.x || !g.y || !g.z || !b.x || !b.y || !b.z;
  const std::uint64_t threads = std::uint64_t{b.x} * b.y * b.z;
  const bool large = threads > 1024 || b.z > 64 || g.x > 2147483647u || g.y > 65535 || g.z > 65535;
  if (empty || large) return cudaErrorInvalidConfiguration;
  if (shape.dynamic_shared > shape.shared_limit) return cudaErrorInvalidValue;
  return cudaSuccess;
}

void account_for(State& s, int device, const KernelOutcome& outcome) {
  s.statistics.instructions_run += outcome.instructions;
  for (const std::string& text : outcome.objections) violation(s, text);
  if (outcome.error != cudaSuccess) s.devices[device].lost = outcome.error;
}

}  // namespace

const KernelMemory::Range* KernelMemory::find(std::uint64_t address, std::size_t size,
                                              std::string& reason) const {
  auto after = std::upper_bound(ranges.begin(), ranges.end(), address,
                                [](std::uint64_t a, const Range& r) { return a < r.begin; });
  if (after != ranges.begin()) {
    const Range& range = *std::prev(after);
    if (address - range.begin < range.size && address + size <= range.begin + range.size)
      return &range;
  }
  Quiet quiet;
  State& s = state();
  Lock lock(s.mutex, std::defer_lock);
  if (!s.gated()) lock.lock();  // else whoever runs the kernel holds it
  reason = obstacle(s, device, address, size);
  return nullptr;
}

cudaError_t launch_kernel(const std::string& name, const LaunchShape& shape, cudaStream_t handle,
                          std::function<KernelOutcome(const KernelMemory&)> run) {
  return api("cudaLaunchKernel", [&](State& s, Lock& lock) {
    CUstream_st* stream = find_stream(s, handle, "a kernel launch");
    if (!stream || stream->device != this_thread().device) return cudaErrorInvalidResourceHandle;
    if (cudaError_t error = refuse(shape)) return error;
    ++s.statistics.kernels_launched;
    const int device = stream->device;
    auto memory = std::make_shared<std::shared_ptr<const KernelMemory>>();
    auto outcome = std::make_shared<KernelOutcome>();
    enqueue(s, lock, *stream,
            {.kind = Operation::Kind::work,
             .what = name,
             .check =
                 [&s, device, memory] {
                   *memory = snapshot(s, device);
                   return std::string();
                 },
             .run =
                 [run = std::move(run), memory, outcome] {
                   Loud loud;
                   *outcome = run(**memory);
                 },
             .after = [&s, device, outcome] { account_for(s, device, *outcome); }});
    return cudaSuccess;
  });
}

cudaError_t api_call(const char* function, const std::function<cudaError_t()>& body) {
  return api(function, [&](State&, Lock&) { return body(); });
}

}  // namespace cudasim
