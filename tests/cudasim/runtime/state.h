// The inside of the simulated runtime: devices, streams, events and the one State that owns them.
// Every function here that takes a Lock expects State::mutex to be held by it.
// api_*.cpp give CUDA's functions their bodies; memory.cpp looks after the arenas; schedule.cpp
// decides what runs when; report.cpp answers cudasim.h.
#pragma once

#include "runtime/cudasim.h"
#include "runtime/edges.h"

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace cudasim {

using Lock = std::unique_lock<std::mutex>;

// What one cudaEventRecord captured. A new record makes a new Recording, so that whoever waits for
// the older one is not affected.
struct Recording {
  CUstream_st* stream;
  bool done = false;
  std::chrono::steady_clock::time_point when{};
  Token token{};
};

struct Operation {
  enum class Kind { work, record, wait, host_function };
  Kind kind;
  std::string what;                      // for reports: "cudaMemcpyAsync"
  std::function<std::string()> check{};  // under the lock, before run: "" or the objection
  std::function<void()> run{};
  std::function<void()> after{};  // under the lock again
  std::shared_ptr<Recording> recording{};
  Token issued{};
};

}  // namespace cudasim

// NVIDIA's headers leave these two opaque. The objects live until reset(), so that a stale handle
// can be told from a live one.
struct CUstream_st {
  int device, number;
  unsigned flags;
  int priority;
  std::uint64_t rank;  // for the random schedule
  bool destroyed = false;
  std::deque<cudasim::Operation> queue{};
  std::uint64_t issued = 0, done = 0;
  bool busy = false, stop = false;
  std::thread worker{};  // threads: runs all of it; else: host functions
  cudasim::Token token{};
};

struct CUevent_st {
  int device, number;
  unsigned flags;
  bool destroyed = false;
  std::shared_ptr<cudasim::Recording> latest{};
};

namespace cudasim {

struct Allocation {
  char* begin;
  std::size_t size;
  int number;  // n-th of its kind
  int device;
  bool live = true;
};

class KernelMemory;

// The memory that a program sees is a range of addresses that nobody may ever touch; the bytes lie
// elsewhere, at the same offsets.
struct Device {
  char* arena = nullptr;            // what the program sees
  char* bytes = nullptr;            // what is there
  std::uint8_t* written = nullptr;  // one flag per byte: 1 = initialised
  std::size_t arena_size = 0, open = 0, top = 0;
  std::size_t used = 0;
  std::map<const char*, Allocation> allocations{};  // live ones, and those freed lately
  std::deque<const char*> freed{};                  // lately, the oldest first
  std::size_t freed_bytes = 0;
  std::map<const char*, const char*> forgotten{};       // ranges freed long ago: begin, end
  std::vector<bool> reaches{};                          // peer access from this device to that one
  std::shared_ptr<const KernelMemory> kernel_memory{};  // until memory_changed()
  cudaError_t lost = cudaSuccess;                       // the sticky error
  bool has_context = false;

  bool holds(const void* p) const { return p >= arena && p < arena + arena_size; }
};

struct Injection {
  int countdown;
  cudaError_t error;
};
struct Hampered {
  int samples = 0;  // it concerns more of them only
  std::size_t workspace = 0;
};

struct State {
  std::mutex mutex;
  std::condition_variable changed;
  Config config;
  std::uint64_t generation = 0;  // of reset(): makes threads forget their device
  std::deque<Device> devices;
  std::vector<std::unique_ptr<CUstream_st>> streams;
  std::map<cudaEvent_t, std::unique_ptr<CUevent_st>> events;
  std::deque<cudaEvent_t> destroyed_events;  // those in `events`, the oldest first
  std::map<const char*, Allocation> pinned;
  std::map<std::pair<std::string, const void*>, int> handles;
  std::map<const void*, std::shared_ptr<void>> objects;  // of libraries (library.h)
  std::deque<const void*> destroyed_objects;             // those in `objects`, the oldest first
  std::vector<std::string> violations;
  bool violations_read = false;
  std::map<std::string, Injection, std::less<>> injections;
  std::map<std::string, Hampered, std::less<>> hampered;  // algorithms of cuDNN
  std::map<std::string, int, std::less<>> calls;
  int allocations_made = 0, pinned_made = 0, events_made = 0, handles_made = 0, calls_made = 0;
  std::mt19937_64 random;
  Statistics statistics;

  bool gated() const { return config.schedule != Schedule::threads; }
};

State& state();  // made on first use, with config_from_environment()

struct ThreadState {
  std::uint64_t generation = 0;
  int device = 0;
  bool has_current = false;  // a context: it has named its device, or made a call that needs one
  cudaError_t last_error = cudaSuccess;
  bool in_host_function = false;
  int inside_api = 0;
};
ThreadState& this_thread();

void violation(State& s, std::string text);

// So many destroyed events, and objects of libraries, are kept, so that a stale handle is noticed
// instead of meaning a new one.
constexpr std::size_t kDestroyedKept = 1 << 16;

// ---- memory.cpp ---------------------------------------------------------------------------------

enum class Home { pageable, pinned, device };

struct Place {
  Home home = Home::pageable;
  int device = -1;
  const Allocation* allocation = nullptr;  // null: none begins before it, or it was freed long ago
  bool forgotten = false;                  // freed long ago
};
Place locate(const State& s, const void* p);
char* bytes_at(const State& s, const void* p);        // where what `p` points to really lies
std::string describe(const State& s, const void* p);  // "256 bytes into cudaMalloc #1 on device 0"
std::string objection(const State& s, const void* p,
                      std::size_t n);  // "" if [p, p + n) may be used

void create_devices(State& s);
void release_memory(State& s);
void memory_changed(State& s);  // what kernels may touch
void mark_written(State& s, const void* p, std::size_t n);
void copy_written(State& s, void* to, const void* from, std::size_t n);

// ---- schedule.cpp -------------------------------------------------------------------------------

void enqueue(State& s, Lock& lock, CUstream_st& stream, Operation op);
void wait_for(State& s, Lock& lock, CUstream_st& stream);  // all issued to it so far
void wait_for(State& s, Lock& lock, const std::shared_ptr<Recording>& recording);
void wait_for_device(State& s, Lock& lock, int device);  // all issued to its streams
void poll(State& s, Lock& lock, CUstream_st& stream);    // lets one operation run
void start_worker(State& s, CUstream_st& stream);
void stop_workers(State& s, Lock& lock);

// ---- fault.cpp ----------------------------------------------------------------------------------

void watch_faults();

// ---- api_*.cpp ----------------------------------------------------------------------------------

constexpr int kGreatestPriority = -5;  // of a stream; the least is 0

enum class Survives { nothing, lost_device };  // may the call succeed on a device that is lost?
enum class Context { needed, not_needed };     // by calls that do not survive it
void need_context(State& s);                   // of the thread's device

cudaError_t before_call(State& s, const char* function, Survives survives);
cudaError_t remember(cudaError_t error);  // for cudaGetLastError

// The frame of every API function: lock, injected failures, sticky errors, the last error.
template <class Body>
cudaError_t api(const char* function, Body&& body, Survives survives = Survives::nothing,
                Context context = Context::needed) {
  Quiet quiet;
  State& s = state();
  Lock lock(s.mutex);
  ++this_thread().inside_api;
  cudaError_t error = before_call(s, function, survives);
  if (survives == Survives::nothing && context == Context::needed) need_context(s);
  if (error == cudaSuccess) error = body(s, lock);
  --this_thread().inside_api;
  return remember(error);
}

// The live stream of a handle; else null, with the reason among the violations.
CUstream_st* find_stream(State& s, cudaStream_t handle, const char* function);
CUevent_st* find_event(State& s, cudaEvent_t handle, const char* function);

}  // namespace cudasim
