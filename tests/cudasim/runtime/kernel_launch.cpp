// See kernel_launch.h.
#include "runtime/kernel_launch.h"

#include "runtime/state.h"

#include <algorithm>

namespace cudasim {
namespace {

KernelMemory snapshot(const State& s, int device) {
  KernelMemory memory;
  auto add = [&](const Allocation& a, std::uint8_t* written, std::string objection) {
    if (!a.live) objection = "freed memory (" + describe(s, a.begin) + ")";
    memory.ranges.push_back(
        {reinterpret_cast<std::uint64_t>(a.begin), a.size, written, std::move(objection)});
  };
  for (std::size_t i = 0; i < s.devices.size(); ++i) {
    const Device& owner = s.devices[i];
    const bool reachable = static_cast<int>(i) == device || s.devices[device].reaches[i];
    const std::string objection =
        reachable ? "" : "memory of device " + std::to_string(i) + " without peer access";
    for (const auto& [begin, a] : owner.allocations)
      add(a, owner.written + (begin - owner.arena), objection);
  }
  for (const auto& [begin, a] : s.pinned) add(a, nullptr, "");
  std::sort(memory.ranges.begin(), memory.ranges.end(),
            [](const auto& a, const auto& b) { return a.begin < b.begin; });
  return memory;
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

std::vector<int> devices_open_to(const State& s, int device) {
  std::vector<int> open = {device};
  for (std::size_t i = 0; i < s.devices.size(); ++i)
    if (s.devices[device].reaches[i]) open.push_back(static_cast<int>(i));
  return open;
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
  reason = "outside any allocation";
  if (after == ranges.begin()) return nullptr;
  const Range& range = *std::prev(after);
  if (address >= range.begin + range.size) return nullptr;
  if (!range.objection.empty()) {
    reason = range.objection;
    return nullptr;
  }
  if (address + size > range.begin + range.size) {
    reason = "across the end of an allocation of " + std::to_string(range.size) + " bytes";
    return nullptr;
  }
  return &range;
}

cudaError_t launch_kernel(const std::string& name, const LaunchShape& shape, cudaStream_t handle,
                          std::function<KernelOutcome(const KernelMemory&)> run) {
  return api("cudaLaunchKernel", [&](State& s, Lock& lock) {
    CUstream_st* stream = find_stream(s, handle, "a kernel launch");
    if (!stream || stream->device != this_thread().device) return cudaErrorInvalidResourceHandle;
    if (cudaError_t error = refuse(shape)) return error;
    ++s.statistics.kernels_launched;
    const int device = stream->device;
    auto memory = std::make_shared<KernelMemory>();
    auto outcome = std::make_shared<KernelOutcome>();
    enqueue(s, lock, *stream,
            {.kind = Operation::Kind::work,
             .what = name,
             .devices = devices_open_to(s, device),
             .check =
                 [&s, device, memory] {
                   *memory = snapshot(s, device);
                   return std::string();
                 },
             .run =
                 [run = std::move(run), memory, outcome] {
                   Loud loud;
                   *outcome = run(*memory);
                 },
             .after = [&s, device, outcome] { account_for(s, device, *outcome); }});
    return cudaSuccess;
  });
}

cudaError_t api_call(const char* function, const std::function<cudaError_t()>& body) {
  return api(function, [&](State&, Lock&) { return body(); });
}

}  // namespace cudasim
