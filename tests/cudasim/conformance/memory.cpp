// Conformance of allocation, on the device and pinned on the host.
#include "conformance/support.h"

#include <cstdint>

using namespace conformance;

TEST_CASE("cudaMalloc: memory is aligned to at least 256 bytes") {
  OnGpu<char> a(1), b(1);
  CHECK(reinterpret_cast<std::uintptr_t>(a.data) % 256 == 0);
  CHECK(reinterpret_cast<std::uintptr_t>(b.data) % 256 == 0);
}

TEST_CASE("cudaMalloc: allocations do not overlap") {
  OnGpu<char> a(1000), b(1000);
  const bool apart = a.data + 1000 <= b.data || b.data + 1000 <= a.data;
  CHECK(apart);
}

TEST_CASE("cudaMalloc: cudaErrorMemoryAllocation in case of failure") {
  std::size_t free = 0, total = 0;
  OK(cudaMemGetInfo(&free, &total));
  void* p = nullptr;
  FAILS(cudaMalloc(&p, total + (std::size_t{1} << 30)), cudaErrorMemoryAllocation);
}

TEST_CASE("cudaFree: of 0 performs no operation") {
  OK(cudaFree(nullptr));
}

TEST_CASE("cudaFree: an error if it has been called before for the pointer") {
  void* p = nullptr;
  OK(cudaMalloc(&p, 64));
  OK(cudaFree(p));
  FAILS(cudaFree(p), cudaErrorInvalidValue);
}

TEST_CASE("cudaFree: takes only what cudaMalloc returned") {
  OnGpu<char> memory(1024);
  FAILS(cudaFree(memory + 256), cudaErrorInvalidValue);
  int on_the_host = 0;
  FAILS(cudaFree(&on_the_host), cudaErrorInvalidValue);
}

TEST_CASE("cudaMemGetInfo: free memory is part of the total") {
  std::size_t free = 0, total = 0;
  OK(cudaMemGetInfo(&free, &total));
  CHECK(free > 0);
  CHECK(free <= total);
  cudaDeviceProp p{};
  OK(cudaGetDeviceProperties(&p, 0));
  CHECK(p.totalGlobalMem == total);
}

TEST_CASE("cudaMemGetInfo: an allocation lowers the free memory, freeing it raises it") {
  constexpr std::size_t kBytes = std::size_t{32} << 20;
  std::size_t before = 0, during = 0, after = 0, total = 0;
  OK(cudaMemGetInfo(&before, &total));
  {
    OnGpu<char> memory(kBytes);
    OK(cudaMemGetInfo(&during, &total));
  }
  OK(cudaMemGetInfo(&after, &total));
  CHECK(before - during >= kBytes);
  CHECK(after - during >= kBytes);
}

TEST_CASE("cudaMallocHost: host memory that the host may use at once") {
  Pinned<int> memory(1000, 7);
  long sum = 0;
  for (int i = 0; i < 1000; ++i) sum += memory[i];
  CHECK(sum == 7000);
}

TEST_CASE("cudaHostAlloc: flags that do not exist are cudaErrorInvalidValue") {
  void* p = nullptr;
  FAILS(cudaHostAlloc(&p, 64, 0xF000), cudaErrorInvalidValue);
}

TEST_CASE("cudaHostAlloc: portable memory is freed by cudaFreeHost") {
  void* p = nullptr;
  OK(cudaHostAlloc(&p, 64, cudaHostAllocPortable));
  OK(cudaFreeHost(p));
}

TEST_CASE("cudaFreeHost: takes only what cudaMallocHost or cudaHostAlloc returned") {
  int on_the_stack = 0;
  FAILS(cudaFreeHost(&on_the_stack), cudaErrorInvalidValue);
}

TEST_CASE("cudaPointerGetAttributes: device memory and the device it resides on") {
  OnGpu<char> memory(64);
  cudaPointerAttributes a{};
  OK(cudaPointerGetAttributes(&a, memory));
  CHECK(a.type == cudaMemoryTypeDevice);
  CHECK(a.device == 0);
  CHECK(a.devicePointer == memory.data);
}

TEST_CASE("cudaPointerGetAttributes: a pointer into the middle of an allocation") {
  OnGpu<char> memory(64);
  cudaPointerAttributes a{};
  OK(cudaPointerGetAttributes(&a, memory + 17));
  CHECK(a.type == cudaMemoryTypeDevice);
  CHECK(a.devicePointer == memory + 17);
}

TEST_CASE("cudaPointerGetAttributes: pinned memory is cudaMemoryTypeHost") {
  Pinned<char> memory(64);
  cudaPointerAttributes a{};
  OK(cudaPointerGetAttributes(&a, memory));
  CHECK(a.type == cudaMemoryTypeHost);
  CHECK(a.hostPointer == memory.data);
}

TEST_CASE("cudaPointerGetAttributes: other host memory is unregistered, and no error") {
  int on_the_stack = 0;
  cudaPointerAttributes a{};
  OK(cudaPointerGetAttributes(&a, &on_the_stack));
  CHECK(a.type == cudaMemoryTypeUnregistered);
  CHECK(a.devicePointer == nullptr);
}
