// A process that runs a whole suite of tests on one set of devices: neither memory nor time per
// operation may grow with what has been freed.
#include "kernels/kernels.h"
#include "runtime/cudasim.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

namespace {

constexpr std::size_t kMegabyte = std::size_t{1} << 20;

void ok(cudaError_t error) {
  REQUIRE(error == cudaSuccess);
}

float* new_memory(std::size_t bytes) {
  void* p = nullptr;
  ok(cudaMalloc(&p, bytes));
  return static_cast<float*>(p);
}

cudaStream_t new_stream() {
  cudaStream_t stream;
  ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}

std::size_t resident_bytes() {
  unsigned long total = 0, resident = 0;
  std::FILE* const f = std::fopen("/proc/self/statm", "r");
  REQUIRE(f);
  REQUIRE(std::fscanf(f, "%lu %lu", &total, &resident) == 2);
  std::fclose(f);
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

// Every allocation is used by a copy, every tenth by a kernel, and there is an event for each.
void churn(int rounds, std::size_t bytes, cudaStream_t stream) {
  const float one = 1;
  for (int i = 0; i < rounds; ++i) {
    float* const p = new_memory(bytes);
    cudaEvent_t event = nullptr;
    ok(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    ok(cudaMemcpyAsync(p, &one, sizeof one, cudaMemcpyHostToDevice, stream));
    if (i % 10 == 0) ok(cudasim::kernels::relu(p, p + 1, 1, stream));
    ok(cudaEventRecord(event, stream));
    ok(cudaEventSynchronize(event));
    ok(cudaEventDestroy(event));
    ok(cudaFree(p));
  }
}

// Frees so much that whatever was freed before is forgotten.
void free_others() {
  for (int i = 0; i < 40; ++i) ok(cudaFree(new_memory(kMegabyte)));
}

bool contains(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("long run: 66,000 allocations, 1.1 GB in all, stay within 100 MB") {
  cudasim::Session session(cudasim::Config{});
  const cudaStream_t stream = new_stream();
  float* const kept = new_memory(kMegabyte);  // among all that is freed
  churn(1000, 16 << 10, stream);
  const std::size_t before = resident_bytes();
  churn(33'000, 16 << 10, stream);
  float* const other = new_memory(kMegabyte);
  churn(33'000, 16 << 10, stream);
  CHECK(resident_bytes() < before + 100 * kMegabyte);
  ok(cudaFree(kept));
  ok(cudaFree(other));
  ok(cudaStreamDestroy(stream));
  CHECK(cudasim::leaks().empty());
  CHECK(cudasim::violations().empty());
}

TEST_CASE("long run: allocations far larger than the device, one after the other") {
  cudasim::Session session({.devices = 1});
  const cudaStream_t stream = new_stream();
  churn(25, 50 * kMegabyte, stream);  // 1.25 GB
  CHECK(cudasim::violations().empty());
}

TEST_CASE("long run: memory freed long ago stays out of reach for copies, kernels and the host") {
  cudasim::Session session(cudasim::Config{});
  const cudaStream_t stream = new_stream();
  float *const before = new_memory(kMegabyte), *const p = new_memory(kMegabyte);
  float *const next = new_memory(kMegabyte), *const last = new_memory(kMegabyte);
  float* const live = new_memory(64);
  ok(cudaMemsetAsync(live, 0, 64, stream));
  for (float* neighbour : {last, p, next}) ok(cudaFree(neighbour));
  free_others();
  SUBCASE("copy") {
    CHECK(cudaMemcpyAsync(live, p + 7, 4, cudaMemcpyDeviceToDevice, stream) ==
          cudaErrorInvalidValue);
    CHECK(contains(cudasim::violations().at(0), "uses memory of device 0, freed long ago"));
  }
  SUBCASE("kernel") {
    ok(cudasim::kernels::relu(p + 7, live, 1, stream));
    CHECK(cudaStreamSynchronize(stream) == cudaErrorIllegalAddress);
    CHECK(contains(cudasim::violations().at(0), "freed memory (memory of device 0, freed long"));
  }
  SUBCASE("host") {
    for (float* neighbour : {p, next, last})
      CHECK(cudasim::catch_fault([&] { neighbour[7] = 1; }) ==
            "host code touched memory of device 0, freed long ago");
  }
  SUBCASE("its neighbours are as before") {
    ok(cudaMemsetAsync(before, 0, kMegabyte, stream));
    ok(cudaFree(before));
    CHECK(cudaFree(p) == cudaErrorInvalidValue);
    CHECK(cudasim::violations().empty());
  }
}

TEST_CASE("long run: the host faults in every schedule") {
  for (auto schedule : {cudasim::Schedule::lazy, cudasim::Schedule::threads}) {
    cudasim::Session session({.devices = 1, .schedule = schedule});
    float* const p = new_memory(64);
    CHECK(cudasim::catch_fault([&] { p[0] = 1; }) ==
          "host code touched memory of device 0, 0 bytes into cudaMalloc #1 of 64 bytes");
  }
}
