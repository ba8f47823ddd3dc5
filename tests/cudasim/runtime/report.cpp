// The test's side of the simulator: the answers to cudasim.h, and what every API call passes first.
#include "runtime/state.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace cudasim {
namespace {

constexpr int kUnreadViolations = 43;

long from_environment(const char* name, long otherwise) {
  const char* text = std::getenv(name);
  return text ? std::strtol(text, nullptr, 10) : otherwise;
}

void print_unread_violations() {
  State& s = state();
  const bool expected = from_environment("CUDASIM_EXPECT_VIOLATIONS", 0) != 0;
  if (s.violations.empty() || s.violations_read || expected) return;
  for (const std::string& text : s.violations) std::fprintf(stderr, "cudasim: %s\n", text.c_str());
  std::fflush(nullptr);
  _exit(kUnreadViolations);
}

void start(State& s, const Config& config) {
  s.config = config;
  ++s.generation;
  s.random.seed(config.seed);
  s.violations.clear();
  s.violations_read = false;
  s.injections.clear();
  s.hampered.clear();
  s.calls.clear();
  s.handles.clear();
  s.objects.clear();
  s.destroyed_objects.clear();
  forget_data_races();
  s.allocations_made = s.pinned_made = s.events_made = s.handles_made = s.calls_made = 0;
  s.statistics = {};
  create_devices(s);
}

bool due(State& s, std::string_view name, cudaError_t& error) {
  auto it = s.injections.find(name);
  if (it == s.injections.end() || --it->second.countdown > 0) return false;
  error = it->second.error;
  s.injections.erase(it);
  return true;
}

constexpr std::string_view kAnyFunction = "*";

std::string numbered(const char* what, int number) {
  return what + (" #" + std::to_string(number));
}

}  // namespace

Config config_from_environment(Config c) {
  c.devices = static_cast<int>(from_environment("CUDASIM_DEVICES", c.devices));
  c.memory = from_environment("CUDASIM_MEMORY", static_cast<long>(c.memory));
  c.peer_access = from_environment("CUDASIM_PEER_ACCESS", c.peer_access) != 0;
  c.free_waits = from_environment("CUDASIM_FREE_WAITS", c.free_waits) != 0;
  c.seed = from_environment("CUDASIM_SEED", static_cast<long>(c.seed));
  if (const char* name = std::getenv("CUDASIM_SCHEDULE"))
    c.schedule = !std::strcmp(name, "threads")  ? Schedule::threads
                 : !std::strcmp(name, "random") ? Schedule::random
                                                : Schedule::lazy;
  return c;
}

State& state() {
  static State* const s = [] {  // never destroyed: streams may be used until the process ends
    auto* made = new State;
    start(*made, config_from_environment());
    watch_faults();
    std::atexit(print_unread_violations);
    return made;
  }();
  return *s;
}

ThreadState& this_thread() {
  thread_local ThreadState thread;
  const std::uint64_t generation = state().generation;
  if (thread.generation != generation) {
    const int inside = thread.inside_api;
    thread = {};
    thread.generation = generation;
    thread.inside_api = inside;
  }
  return thread;
}

void reset(const Config& config) {
  Quiet quiet;
  State& s = state();
  Lock lock(s.mutex);
  stop_workers(s, lock);
  s.streams.clear();
  s.events.clear();
  s.destroyed_events.clear();
  release_memory(s);
  start(s, config);
}

void need_context(State& s) {
  ThreadState& thread = this_thread();
  thread.has_current = true;
  if (!s.devices.empty()) s.devices[thread.device].has_context = true;
}

std::vector<int> contexts() {
  Quiet quiet;
  Lock lock(state().mutex);
  std::vector<int> list;
  for (std::size_t i = 0; i < state().devices.size(); ++i) {
    if (state().devices[i].has_context) list.push_back(static_cast<int>(i));
  }
  return list;
}

void violation(State& s, std::string text) {
  s.violations.push_back(std::move(text));
  s.violations_read = false;
}

std::vector<std::string> violations() {
  Quiet quiet;
  Lock lock(state().mutex);
  state().violations_read = true;
  return state().violations;
}

std::vector<std::string> leaks() {
  Quiet quiet;
  State& s = state();
  Lock lock(s.mutex);
  std::vector<std::string> out;
  auto bytes = [](const Allocation& a) {
    return ": " + std::to_string(a.size) + " bytes on device " + std::to_string(a.device);
  };
  for (const Device& device : s.devices)
    for (const auto& [begin, a] : device.allocations)
      if (a.live) out.push_back(numbered("cudaMalloc", a.number) + bytes(a));
  for (const auto& [begin, a] : s.pinned)
    if (a.live) out.push_back(numbered("cudaMallocHost", a.number) + bytes(a));
  for (const auto& stream : s.streams)
    if (!stream->destroyed)
      out.push_back(numbered("stream", stream->number) + " of device " +
                    std::to_string(stream->device));
  std::map<int, const CUevent_st*> live_events;  // in the order of creation
  for (const auto& [handle, event] : s.events)
    if (!event->destroyed) live_events[event->number] = handle;
  for (const auto& [number, event] : live_events)
    out.push_back(numbered("event", event->number) + " of device " + std::to_string(event->device));
  for (const auto& [handle, number] : s.handles)
    out.push_back(numbered(handle.first.c_str(), number));
  return out;
}

void fail_call(std::string_view function, int n, cudaError_t error) {
  Quiet quiet;
  Lock lock(state().mutex);
  state().injections[std::string(function)] = {n, error};
}
void fail_any_call(int n, cudaError_t error) {
  fail_call(kAnyFunction, n, error);
}

int calls(std::string_view function) {
  Quiet quiet;
  Lock lock(state().mutex);
  auto it = state().calls.find(function);
  return it == state().calls.end() ? 0 : it->second;
}

int calls_of_any() {
  Quiet quiet;
  Lock lock(state().mutex);
  return state().calls_made;
}

std::vector<std::string> functions_called() {
  Quiet quiet;
  Lock lock(state().mutex);
  std::vector<std::string> names;
  for (const auto& [name, count] : state().calls) names.push_back(name);
  return names;
}

void hamper_algorithm(std::string_view name, int samples, std::size_t workspace) {
  Quiet quiet;
  Lock lock(state().mutex);
  state().hampered[std::string(name)] = {samples, workspace};
}

void free_algorithms() {
  Quiet quiet;
  Lock lock(state().mutex);
  state().hampered.clear();
}

void lose_device(int device, cudaError_t error) {
  Quiet quiet;
  Lock lock(state().mutex);
  state().devices.at(device).lost = error;
}

Statistics statistics() {
  Quiet quiet;
  State& s = state();
  Lock lock(s.mutex);
  Statistics out = s.statistics;
  for (const Device& device : s.devices) {
    out.live_bytes += device.used;
    for (const auto& [begin, a] : device.allocations) out.live_allocations += a.live;
  }
  for (const auto& stream : s.streams) out.live_streams += !stream->destroyed;
  out.live_events = s.events.size() - s.destroyed_events.size();
  return out;
}

void handle_created(std::string_view kind, const void* handle) {
  Quiet quiet;
  State& s = state();
  Lock lock(s.mutex);
  s.handles[{std::string(kind), handle}] = ++s.handles_made;
}

bool handle_destroyed(std::string_view kind, const void* handle) {
  Quiet quiet;
  Lock lock(state().mutex);
  return state().handles.erase({std::string(kind), handle}) > 0;
}

cudaError_t before_call(State& s, const char* function, Survives survives) {
  ThreadState& thread = this_thread();
  if (thread.in_host_function) {
    violation(s, std::string(function) + " called by a host function (cudaLaunchHostFunc)");
    return cudaErrorNotPermitted;
  }
  ++s.calls[function];
  ++s.calls_made;
  cudaError_t injected;
  if (due(s, function, injected) || due(s, kAnyFunction, injected)) return injected;
  return survives == Survives::lost_device ? cudaSuccess : s.devices[thread.device].lost;
}

cudaError_t remember(cudaError_t error) {
  if (error != cudaSuccess) this_thread().last_error = error;
  return error;
}

}  // namespace cudasim
