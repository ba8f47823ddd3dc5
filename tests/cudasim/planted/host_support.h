// For the planted host programs: CUDA calls that throw, owners of CUDA objects, and the macro that
// makes a program with a defect and its clean twin into a test case.
#pragma once

#include <cuda_runtime_api.h>
#include <doctest/doctest.h>

#include <cstddef>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace planted {

inline void ok(cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorName(error));
}

struct Stream {
  Stream() { ok(cudaStreamCreateWithFlags(&handle, cudaStreamNonBlocking)); }
  ~Stream() { (void)cudaStreamDestroy(handle); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  operator cudaStream_t() const { return handle; }
  void synchronize() const { ok(cudaStreamSynchronize(handle)); }
  cudaStream_t handle = nullptr;
};

struct Event {
  Event() { ok(cudaEventCreateWithFlags(&handle, cudaEventDisableTiming)); }
  ~Event() { (void)cudaEventDestroy(handle); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  operator cudaEvent_t() const { return handle; }
  cudaEvent_t handle = nullptr;
};

// n ints on the current device.
struct OnGpu {
  explicit OnGpu(std::size_t n) {
    ok(cudaMalloc(reinterpret_cast<void**>(&data), n * sizeof(int)));
  }
  ~OnGpu() { (void)cudaFree(data); }
  OnGpu(const OnGpu&) = delete;
  OnGpu& operator=(const OnGpu&) = delete;
  operator int*() const { return data; }
  int* data = nullptr;
};

struct Pinned {
  explicit Pinned(std::size_t n) {
    ok(cudaMallocHost(reinterpret_cast<void**>(&data), n * sizeof(int)));
  }
  ~Pinned() { (void)cudaFreeHost(data); }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  operator int*() const { return data; }
  int* data = nullptr;
};

constexpr std::size_t kCount = 256, kBytes = kCount * sizeof(int);

inline void fill(int* p, int value) {
  for (std::size_t i = 0; i < kCount; ++i) p[i] = value;
}
inline bool all(const int* p, int value) {
  for (std::size_t i = 0; i < kCount; ++i)
    if (p[i] != value) return false;
  return true;
}

// What the defect of a program must be caught by, in every run of the tests. A defect in the order
// of things is a race: ThreadSanitizer finds it whatever the order happens to be. The others do
// not depend on order.
enum class Caught { lazy, tsan, lazy_and_tsan };

// Returns whether the results are right.
using Program = bool (*)(bool defect);

// Runs the twins under the stage that this executable was built and started for.
void examine(const char* title, Program program, Caught caught);

}  // namespace planted

#define PLANTED(program, title, caught)                        \
  static bool program(bool defect);                            \
  TEST_CASE("planted: " title) {                               \
    planted::examine(title, program, planted::Caught::caught); \
  }                                                            \
  static bool program([[maybe_unused]] bool defect)
