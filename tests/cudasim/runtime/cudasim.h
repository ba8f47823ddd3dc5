// What a test says to the simulated CUDA and asks it: how many devices, which schedule, which call
// fails, what went wrong, what was leaked. The program under test never includes this file: it uses
// NVIDIA's own headers, and is linked to the simulator instead of to libcudart.
// Next: state.h for what a device, a stream and an event are; ../README.md for the whole picture.
//
// Everything here may be called from any thread; reset() only while no other thread uses CUDA.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace cudasim {

// Note [Three schedules]
// lazy:    nothing runs until somebody waits for it, and then only what it depends on. The latest
//          order CUDA allows; deterministic.
// random:  at every call a few operations that may run do run, in an order drawn from the seed.
// threads: every stream has a worker thread. Under ThreadSanitizer only the edges that CUDA
//          promises are declared, so that every missing one is a data race.
enum class Schedule { lazy, random, threads };

struct Config {
  int devices = 2;
  std::size_t memory = std::size_t{64} << 20;  // bytes of each device; beyond them cudaMalloc fails
  bool peer_access = true;                     // what cudaDeviceCanAccessPeer answers
  bool free_waits = true;                      // does cudaFree wait for the device?
  Schedule schedule = Schedule::lazy;
  std::uint64_t seed = 1;
};

// The defaults, changed by CUDASIM_DEVICES, CUDASIM_MEMORY (bytes), CUDASIM_PEER_ACCESS (0 or 1),
// CUDASIM_FREE_WAITS (0 or 1), CUDASIM_SCHEDULE (lazy, random, threads) and CUDASIM_SEED. A program
// that never calls reset() runs with these.
Config config_from_environment(Config defaults = {});

// Drops every device, stream, event, counter and report, and starts with fresh devices.
void reset(const Config& config);

// A fresh simulator for the length of a scope, for tests.
class Session {
 public:
  explicit Session(const Config& config = config_from_environment()) { reset(config); }
  ~Session() { reset(config_from_environment()); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
};

// What a correct program does not do, in order of appearance: freed memory in a copy, a destroyed
// stream, the legacy default stream, a kernel's race. Where nobody reads them, the process prints
// them when it ends, and ends with status 43 (unless CUDASIM_EXPECT_VIOLATIONS=1).
std::vector<std::string> violations();

// What has not been given back: memory, streams, events, handles; each with its place in the order
// of creation ("cudaMalloc #2: 1024 bytes on device 1").
std::vector<std::string> leaks();

// Reports of ThreadSanitizer since reset(); 0 where the program is built without it. After 50 of
// them the accesses of operations are not looked at any more.
int data_races();

// The n-th call from now (n = 1: the next) of the named function, or of any function, does nothing
// and returns `error`.
void fail_call(std::string_view function, int n, cudaError_t error);
void fail_any_call(int n, cudaError_t error);
int calls(std::string_view function);  // since reset()
int calls_of_any();
std::vector<std::string> functions_called();

// For more than `samples` samples, cuDNN's algorithm of this documented name demands `workspace`
// bytes, or is not supported if that is 0. Until free_algorithms() or reset().
void hamper_algorithm(std::string_view name, int samples, std::size_t workspace);
void free_algorithms();

// Makes the device fail as a faulting kernel does: from now on every call returns `error`.
void lose_device(int device, cudaError_t error);

// Runs `program` and returns "" or, if it touched memory that it must not touch, a text such as
// "host code touched memory of device 0, 256 bytes into cudaMalloc #1". The rest of the program is
// skipped, its destructors too. Outside catch_fault such an access prints the text and aborts.
std::string catch_fault(const std::function<void()>& program);

// Devices that have a context: a thread has named them with cudaSetDevice, or has named none before
// a call that needs one, which then means device 0.
std::vector<int> contexts();

struct Statistics {
  std::size_t live_bytes = 0, live_allocations = 0, live_streams = 0, live_events = 0;
  std::size_t operations_run = 0, kernels_launched = 0, instructions_run = 0;
};
Statistics statistics();

// Libraries on top of the runtime (cuBLAS, cuDNN) report their handles here, for leaks().
void handle_created(std::string_view kind, const void* handle);
bool handle_destroyed(std::string_view kind, const void* handle);  // false: not a live handle

}  // namespace cudasim
