// What the simulator does beyond CUDA: its reports, schedules, injected failures. (What it shares
// with CUDA is checked in ../conformance.)
#include "runtime/cudasim.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

using cudasim::Config;
using cudasim::Schedule;
using cudasim::Session;

namespace {

constexpr std::size_t kBytes = 256;

void ok(cudaError_t error) {
  REQUIRE(error == cudaSuccess);
}

cudaStream_t new_stream() {
  cudaStream_t stream;
  ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}

char* new_memory(std::size_t bytes = kBytes) {
  void* p = nullptr;
  ok(cudaMalloc(&p, bytes));
  return static_cast<char*>(p);
}

char* new_pinned(std::size_t bytes = kBytes) {
  void* p = nullptr;
  ok(cudaMallocHost(&p, bytes));
  return static_cast<char*>(p);
}

bool contains(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

std::string only_violation() {
  const auto all = cudasim::violations();
  return all.size() == 1 ? all[0] : std::to_string(all.size()) + " violations";
}

}  // namespace

TEST_CASE("memory: a host access is named by device, offset and allocation") {
  Session session({.devices = 2});
  ok(cudaSetDevice(1));
  new_memory();
  volatile char* p = new_memory();
  CHECK(cudasim::catch_fault([&] { (void)p[17]; }) ==
        "host code touched memory of device 1, 17 bytes into cudaMalloc #2 of 256 bytes");
  CHECK(cudasim::catch_fault([&] { p[0] = 1; }) ==
        "host code touched memory of device 1, 0 bytes into cudaMalloc #2 of 256 bytes");
  CHECK(cudasim::catch_fault([] {}) == "");
}

TEST_CASE("memory: freed pinned memory faults and is named") {
  Session session(Config{});
  volatile char* p = new_pinned();
  ok(cudaFreeHost(const_cast<char*>(p)));
  CHECK(contains(cudasim::catch_fault([&] { (void)p[3]; }), "freed pinned host memory, 3 bytes"));
}

TEST_CASE("memory: one byte behind the page of a pinned allocation faults") {
  Session session(Config{});
  volatile char* p = new_pinned(4096);
  CHECK(cudasim::catch_fault([&] { (void)p[4095]; }) == "");
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGSEGV, SIG_DFL);
    (void)p[4096];
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WIFSIGNALED(status));
}

TEST_CASE("memory: fresh memory is full of NaN") {
  Session session(Config{});
  float value = 0;
  ok(cudaMemcpy(&value, new_memory(), sizeof value, cudaMemcpyDeviceToHost));
  CHECK(std::isnan(value));
  std::memcpy(&value, new_pinned(), sizeof value);
  CHECK(std::isnan(value));
}

TEST_CASE("memory: addresses are not used again, and allocations keep their distance") {
  Session session(Config{});
  char* first = new_memory(1);
  ok(cudaFree(first));
  char* second = new_memory(1);
  CHECK(second >= first + 512);
}

TEST_CASE("memory: the limit holds per device, and freeing gives back") {
  Session session({.devices = 2, .memory = 4096});
  char* p = new_memory(3000);
  void* q = nullptr;
  CHECK(cudaMalloc(&q, 3000) == cudaErrorMemoryAllocation);
  CHECK(q == nullptr);
  ok(cudaSetDevice(1));
  new_memory(3000);
  ok(cudaSetDevice(0));
  ok(cudaFree(p));
  new_memory(3000);
}

TEST_CASE("schedule lazy: nothing runs before somebody waits, and then only what it needs") {
  Session session(Config{});
  cudaStream_t a = new_stream(), b = new_stream();
  char *p = new_memory(), *q = new_memory();
  for (int i = 0; i < 3; ++i) ok(cudaMemsetAsync(p, i, kBytes, a));
  ok(cudaMemsetAsync(q, 7, kBytes, b));
  CHECK(cudasim::statistics().operations_run == 0);
  ok(cudaStreamSynchronize(b));
  CHECK(cudasim::statistics().operations_run == 1);
  ok(cudaDeviceSynchronize());
  CHECK(cudasim::statistics().operations_run == 4);
}

TEST_CASE("schedule lazy: a wait runs the other stream just up to the record") {
  Session session(Config{});
  cudaStream_t a = new_stream(), b = new_stream();
  cudaEvent_t event;
  ok(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  char* p = new_memory();
  ok(cudaMemsetAsync(p, 1, kBytes, a));
  ok(cudaEventRecord(event, a));
  ok(cudaMemsetAsync(p, 2, kBytes, a));
  ok(cudaStreamWaitEvent(b, event, 0));
  ok(cudaStreamSynchronize(b));
  CHECK(cudasim::statistics().operations_run == 3);
  char value = 0;
  ok(cudaMemcpy(&value, p, 1, cudaMemcpyDeviceToHost));
  CHECK(value == 1);
}

TEST_CASE("schedule random: a seed repeats its order, other seeds find other orders") {
  auto outcome = [](std::uint64_t seed) {
    Session session({.schedule = Schedule::random, .seed = seed});
    cudaStream_t a = new_stream(), b = new_stream();
    char* p = new_memory(8);
    for (int i = 0; i < 8; ++i) {
      ok(cudaMemsetAsync(p + i, 'a', 1, a));
      ok(cudaMemsetAsync(p + i, 'b', 1, b));
    }
    ok(cudaDeviceSynchronize());
    std::string text(8, '?');
    ok(cudaMemcpy(text.data(), p, 8, cudaMemcpyDeviceToHost));
    return text;
  };
  bool differs = false;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    CHECK(outcome(seed) == outcome(seed));
    differs = differs || outcome(seed) != outcome(seed + 1);
  }
  CHECK(differs);
}

TEST_CASE("schedule threads: work runs although nobody waits") {
  Session session({.schedule = Schedule::threads});
  ok(cudaMemsetAsync(new_memory(), 1, kBytes, new_stream()));
  for (int i = 0; i < 5000 && cudasim::statistics().operations_run == 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  CHECK(cudasim::statistics().operations_run == 1);
}

TEST_CASE("injection: the n-th call of a function fails once and does nothing") {
  Session session(Config{});
  cudasim::fail_call("cudaMalloc", 2, cudaErrorMemoryAllocation);
  new_memory();
  void* p = nullptr;
  CHECK(cudaMalloc(&p, 64) == cudaErrorMemoryAllocation);
  CHECK(p == nullptr);
  CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
  new_memory();
  CHECK(cudasim::statistics().live_allocations == 2);
}

TEST_CASE("injection: the n-th call of whatever function, for sweeps over all of them") {
  int failures = 0, n = 1;
  for (bool finished = false; !finished; ++n) {
    Session session(Config{});
    cudasim::fail_any_call(n, cudaErrorUnknown);
    void* p = nullptr;
    cudaStream_t stream = nullptr;
    finished = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess &&
               cudaMalloc(&p, 64) == cudaSuccess &&
               cudaMemsetAsync(p, 0, 64, stream) == cudaSuccess &&
               cudaStreamSynchronize(stream) == cudaSuccess;
    failures += !finished;
  }
  CHECK(failures == 4);
}

TEST_CASE("injection: calls are counted by name") {
  Session session(Config{});
  new_memory();
  new_memory();
  CHECK(cudasim::calls("cudaMalloc") == 2);
  CHECK(cudasim::calls("cudaFree") == 0);
  CHECK(cudasim::calls_of_any() == 2);
  CHECK(cudasim::functions_called() == std::vector<std::string>{"cudaMalloc"});
}

TEST_CASE("a lost device: every call fails, asking does not help, other devices live on") {
  Session session({.devices = 2});
  cudaStream_t stream = new_stream();
  cudasim::lose_device(0, cudaErrorIllegalAddress);
  void* p = nullptr;
  CHECK(cudaMalloc(&p, 64) == cudaErrorIllegalAddress);
  CHECK(cudaStreamSynchronize(stream) == cudaErrorIllegalAddress);
  CHECK(cudaGetLastError() == cudaErrorIllegalAddress);
  CHECK(cudaGetLastError() == cudaErrorIllegalAddress);
  CHECK(cudaMalloc(&p, 64) == cudaErrorIllegalAddress);
  ok(cudaSetDevice(1));
  (void)cudaGetLastError();
  CHECK(cudaMalloc(&p, 64) == cudaSuccess);
}

TEST_CASE("leaks: every kind is listed with its number and device") {
  Session session({.devices = 2});
  new_memory(100);
  ok(cudaSetDevice(1));
  new_memory(200);
  new_pinned(300);
  new_stream();
  cudaEvent_t event;
  ok(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  cudasim::handle_created("cublas", &event);
  CHECK(cudasim::leaks() == std::vector<std::string>{"cudaMalloc #1: 100 bytes on device 0",
                                                     "cudaMalloc #2: 200 bytes on device 1",
                                                     "cudaMallocHost #1: 300 bytes on device 1",
                                                     "stream #1 of device 1",
                                                     "event #1 of device 1", "cublas #1"});
  CHECK(cudasim::handle_destroyed("cublas", &event));
  CHECK_FALSE(cudasim::handle_destroyed("cublas", &event));
}

TEST_CASE("policy: a stream that waits for the default stream is reported") {
  Session session(Config{});
  cudaStream_t stream;
  ok(cudaStreamCreate(&stream));
  CHECK(contains(only_violation(), "cudaStreamNonBlocking"));
}

TEST_CASE("policy: the default stream is refused") {
  Session session(Config{});
  CHECK(cudaMemsetAsync(new_memory(), 0, 1, nullptr) == cudaErrorInvalidResourceHandle);
  CHECK(contains(only_violation(), "default stream"));
}

TEST_CASE("reports: overlapping ranges of a copy, which CUDA leaves undefined") {
  Session session(Config{});
  char* p = new_memory();
  CHECK(cudaMemcpyAsync(p, p + 8, 16, cudaMemcpyDeviceToDevice, new_stream()) ==
        cudaErrorInvalidValue);
  CHECK(contains(only_violation(), "overlap"));
}

TEST_CASE("reports: violations that nobody reads end the process with status 43") {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    std::freopen("/dev/null", "w", stderr);
    Session* session = new Session(Config{});
    (void)session;
    (void)cudaStreamSynchronize(nullptr);
    std::exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 43);
}

TEST_CASE("reset: threads start on device 0 again, errors and reports are gone") {
  Session outer({.devices = 2});
  ok(cudaSetDevice(1));
  CHECK(cudaSetDevice(7) == cudaErrorInvalidDevice);
  Session inner({.devices = 2});
  int device = -1;
  ok(cudaGetDevice(&device));
  CHECK(device == 0);
  CHECK(cudaGetLastError() == cudaSuccess);
  CHECK(cudasim::violations().empty());
}
