// For the conformance suite: owners of CUDA objects, and a gate that holds a stream back. Nothing
// here knows the simulator: the same sources are linked to the real runtime as well.
#pragma once

#include <cuda_runtime_api.h>
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <thread>
#include <vector>

#define OK(call) REQUIRE((call) == cudaSuccess)
#define FAILS(call, error)    \
  do {                        \
    CHECK((call) == (error)); \
    (void)cudaGetLastError(); \
  } while (false)

// Leaves the check where the machine has fewer devices than it needs.
#define NEEDS_DEVICES(n)                                   \
  do {                                                     \
    int available = 0;                                     \
    OK(cudaGetDeviceCount(&available));                    \
    if (available < (n)) {                                 \
      MESSAGE("not checked: needs " << (n) << " devices"); \
      return;                                              \
    }                                                      \
  } while (false)

#define NEEDS_PEER_ACCESS()                      \
  do {                                           \
    NEEDS_DEVICES(2);                            \
    int can = 0;                                 \
    OK(cudaDeviceCanAccessPeer(&can, 0, 1));     \
    if (!can) {                                  \
      MESSAGE("not checked: needs peer access"); \
      return;                                    \
    }                                            \
  } while (false)

namespace conformance {

// Makes a device current for a scope.
struct OnDevice {
  explicit OnDevice(int device) { OK(cudaSetDevice(device)); }
  ~OnDevice() { (void)cudaSetDevice(0); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
};

struct Stream {
  Stream() { OK(cudaStreamCreateWithFlags(&handle, cudaStreamNonBlocking)); }
  ~Stream() { (void)cudaStreamDestroy(handle); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  operator cudaStream_t() const { return handle; }
  cudaStream_t handle = nullptr;
};

struct Event {
  explicit Event(unsigned flags = cudaEventDisableTiming) {
    OK(cudaEventCreateWithFlags(&handle, flags));
  }
  ~Event() { (void)cudaEventDestroy(handle); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  operator cudaEvent_t() const { return handle; }
  cudaEvent_t handle = nullptr;
};

template <class T>
struct OnGpu {
  explicit OnGpu(std::size_t n) { OK(cudaMalloc(reinterpret_cast<void**>(&data), n * sizeof(T))); }
  ~OnGpu() { (void)cudaFree(data); }
  OnGpu(const OnGpu&) = delete;
  OnGpu& operator=(const OnGpu&) = delete;
  operator T*() const { return data; }
  T* data = nullptr;
};

template <class T>
struct Pinned {
  explicit Pinned(std::size_t n, T value = {}) {
    OK(cudaMallocHost(reinterpret_cast<void**>(&data), n * sizeof(T)));
    for (std::size_t i = 0; i < n; ++i) data[i] = value;
  }
  ~Pinned() { (void)cudaFreeHost(data); }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  operator T*() const { return data; }
  T* data = nullptr;
};

// Holds back everything issued to a stream after close_on(), until open().
class Gate {
 public:
  ~Gate() { open(); }
  void close_on(cudaStream_t stream) { OK(cudaLaunchHostFunc(stream, wait, this)); }
  void open() { open_ = true; }

 private:
  static void wait(void* self) {
    while (!static_cast<Gate*>(self)->open_)
      std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  std::atomic<bool> open_ = false;
};

// Opens the gate and waits for the stream, so that the gate may go away.
inline void release(Gate& gate, cudaStream_t stream) {
  gate.open();
  OK(cudaStreamSynchronize(stream));
}

template <class T>
std::vector<T> fetch(const T* device, std::size_t n) {
  std::vector<T> host(n);
  OK(cudaMemcpy(host.data(), device, n * sizeof(T), cudaMemcpyDeviceToHost));
  return host;
}

}  // namespace conformance
