// Conformance of kernel launches: limits, order, what a kernel may touch, attributes.
#include "conformance/kernels.h"
#include "conformance/support.h"

using namespace conformance;

namespace {

constexpr int kCount = 500;

cudaError_t fill_sized(dim3 grid, dim3 block, std::size_t shared = 0) {
  Stream stream;
  OnGpu<int> out(kCount);
  const cudaError_t error = fill(out, kCount, 1, stream, {grid, block, shared});
  OK(cudaStreamSynchronize(stream));
  return error;
}

std::size_t attribute(cudaDeviceAttr which) {
  int value = 0;
  OK(cudaDeviceGetAttribute(&value, which, 0));
  return static_cast<std::size_t>(value);
}

}  // namespace

TEST_CASE("launch: the kernel runs with the arguments of the launch") {
  Stream stream;
  OnGpu<int> out(kCount);
  OK(fill(out, kCount, 42, stream));
  OK(cudaStreamSynchronize(stream));
  CHECK(fetch<int>(out, kCount) == std::vector<int>(kCount, 42));
}

TEST_CASE("launch: a grid of 0 blocks is cudaErrorInvalidConfiguration") {
  CHECK(fill_sized(0, 32) == cudaErrorInvalidConfiguration);
}

TEST_CASE("launch: a block of 0 threads is cudaErrorInvalidConfiguration") {
  CHECK(fill_sized(1, dim3(32, 0)) == cudaErrorInvalidConfiguration);
}

TEST_CASE("launch: 1024 threads per block are possible, 1025 are not") {
  CHECK(fill_sized(1, 1024) == cudaSuccess);
  CHECK(fill_sized(1, 1025) == cudaErrorInvalidConfiguration);
  CHECK(fill_sized(1, dim3(32, 33)) == cudaErrorInvalidConfiguration);
}

TEST_CASE("launch: 64 threads in z are possible, 65 are not") {
  CHECK(fill_sized(1, dim3(1, 1, 64)) == cudaSuccess);
  CHECK(fill_sized(1, dim3(1, 1, 65)) == cudaErrorInvalidConfiguration);
}

TEST_CASE("launch: more than 65535 blocks in y or z are cudaErrorInvalidConfiguration") {
  CHECK(fill_sized(dim3(1, 65536), 32) == cudaErrorInvalidConfiguration);
  CHECK(fill_sized(dim3(1, 1, 65536), 32) == cudaErrorInvalidConfiguration);
}

TEST_CASE("launch: a launch that failed does not run, and is the last error") {
  Stream stream;
  OnGpu<int> out(kCount);
  OK(fill(out, kCount, 1, stream));
  CHECK(fill(out, kCount, 2, stream, {0, 32}) == cudaErrorInvalidConfiguration);
  CHECK(cudaGetLastError() == cudaSuccess);  // the launcher has asked for it
  OK(cudaStreamSynchronize(stream));
  CHECK(fetch<int>(out, kCount)[0] == 1);
}

TEST_CASE("launch: asynchronous with respect to the host") {
  Stream stream;
  OnGpu<int> out(kCount);
  Gate gate;
  gate.close_on(stream);
  OK(fill(out, kCount, 7, stream));
  CHECK(cudaStreamQuery(stream) == cudaErrorNotReady);
  (void)cudaGetLastError();
  release(gate, stream);
  CHECK(fetch<int>(out, kCount)[kCount - 1] == 7);
}

TEST_CASE("launch: arguments are copied at the launch") {
  Stream stream;
  OnGpu<int> out(kCount);
  Gate gate;
  gate.close_on(stream);
  int value = 3;
  OK(fill(out, kCount, value, stream));
  value = 4;
  release(gate, stream);
  CHECK(fetch<int>(out, kCount)[0] == 3);
  CHECK(value == 4);
}

TEST_CASE("launch: runs after the copy before it and before the copy behind it") {
  Stream stream;
  OnGpu<int> in(kCount), out(kCount);
  Pinned<int> source(kCount, 10), target(kCount, -1);
  OK(cudaMemcpyAsync(in, source, kCount * sizeof(int), cudaMemcpyHostToDevice, stream));
  OK(increment(in, out, kCount, stream));
  OK(cudaMemcpyAsync(target, out, kCount * sizeof(int), cudaMemcpyDeviceToHost, stream));
  OK(cudaStreamSynchronize(stream));
  CHECK(target[0] == 11);
  CHECK(target[kCount - 1] == 11);
}

TEST_CASE("launch: fails on a stream of a device that is not current") {
  NEEDS_DEVICES(2);
  Stream stream;
  OnGpu<int> out(kCount);
  OnDevice on(1);
  CHECK(fill(out, kCount, 1, stream) == cudaErrorInvalidResourceHandle);
}

TEST_CASE("launch: a kernel may read and write pinned host memory") {
  Stream stream;
  Pinned<int> in(kCount, 1), out(kCount, -1);
  OK(increment(in, out, kCount, stream));
  OK(cudaStreamSynchronize(stream));
  CHECK(out[kCount - 1] == 2);
}

TEST_CASE("launch: with peer access a kernel reads another device's memory") {
  NEEDS_PEER_ACCESS();
  Stream stream;
  OnGpu<int> out(kCount);
  OnDevice on(1);
  OnGpu<int> in(kCount);
  OK(cudaMemcpy(in, std::vector<int>(kCount, 5).data(), kCount * sizeof(int),
                cudaMemcpyHostToDevice));
  OK(cudaSetDevice(0));
  OK(cudaDeviceEnablePeerAccess(1, 0));
  OK(increment(in, out, kCount, stream));
  OK(cudaStreamSynchronize(stream));
  OK(cudaDeviceDisablePeerAccess(1));
  CHECK(fetch<int>(out, kCount)[0] == 6);
}

TEST_CASE("shared memory: 48 KiB need no opt-in, static and dynamic together") {
  Stream stream;
  OnGpu<int> out(1);
  constexpr std::size_t kDynamic = (48 << 10) - kStaticShared;
  OK(use_shared(out, kDynamic, stream));
  OK(cudaStreamSynchronize(stream));
  CHECK(fetch<int>(out, 1)[0] == int(kDynamic));
  CHECK(use_shared(out, kDynamic + 4, stream) != cudaSuccess);
}

TEST_CASE("cudaFuncSetAttribute: with the opt-in a kernel gets more than 48 KiB") {
  Stream stream;
  OnGpu<int> out(1);
  constexpr int kDynamic = 60 << 10;
  OK(cudaFuncSetAttribute(shared_kernel(), cudaFuncAttributeMaxDynamicSharedMemorySize, kDynamic));
  OK(use_shared(out, kDynamic, stream));
  OK(cudaStreamSynchronize(stream));
  CHECK(fetch<int>(out, 1)[0] == kDynamic);
  OK(cudaFuncSetAttribute(shared_kernel(), cudaFuncAttributeMaxDynamicSharedMemorySize, 0));
}

TEST_CASE("cudaFuncSetAttribute: beyond the opt-in limit is cudaErrorInvalidValue") {
  const auto most = static_cast<int>(attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin));
  FAILS(cudaFuncSetAttribute(shared_kernel(), cudaFuncAttributeMaxDynamicSharedMemorySize, most),
        cudaErrorInvalidValue);  // there is static shared memory besides
}

TEST_CASE("cudaFuncGetAttributes: static shared memory and the size of a block") {
  cudaFuncAttributes a{};
  OK(cudaFuncGetAttributes(&a, shared_kernel()));
  CHECK(a.sharedSizeBytes == kStaticShared);
  CHECK(a.maxThreadsPerBlock >= 128);
  CHECK(a.maxThreadsPerBlock <= 1024);
  CHECK(a.numRegs > 0);
}

TEST_CASE("cudaFuncGetAttributes: what is no kernel is cudaErrorInvalidDeviceFunction") {
  static const int no_kernel = 0;
  cudaFuncAttributes a{};
  FAILS(cudaFuncGetAttributes(&a, &no_kernel), cudaErrorInvalidDeviceFunction);
}

TEST_CASE("cudaOccupancyMaxActiveBlocksPerMultiprocessor: as many blocks as threads allow") {
  int blocks = 0;
  OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, fill_kernel(), 1024, 0));
  CHECK(blocks >= 1);
  CHECK(std::size_t(blocks) * 1024 <= attribute(cudaDevAttrMaxThreadsPerMultiProcessor));
}

// Runs in a process of its own (main.cpp): on a real device nothing works afterwards.
TEST_CASE("a kernel that touches what it must not: cudaErrorIllegalAddress, from then on" *
          doctest::skip()) {
  Stream stream;
  OnGpu<int> memory(64);
  OK(write_outside(reinterpret_cast<int*>(std::uintptr_t{1} << 46), stream));
  CHECK(cudaStreamSynchronize(stream) == cudaErrorIllegalAddress);
  CHECK(cudaGetLastError() == cudaErrorIllegalAddress);
  void* p = nullptr;
  CHECK(cudaMalloc(&p, 64) == cudaErrorIllegalAddress);
  CHECK(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
}
