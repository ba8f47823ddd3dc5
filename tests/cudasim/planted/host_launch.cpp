// Planted defects in what a host program gives to a kernel: the wrong device, memory that the
// kernel must not touch or that nobody has written, a missing wait before or after it.
#include "conformance/kernels.h"
#include "planted/host_support.h"

using namespace planted;

namespace {
constexpr int kInts = static_cast<int>(kCount);
}

PLANTED(launch_on_wrong_device, "a kernel on a stream of a device that is not current", lazy) {
  Stream stream;
  OnGpu data(kCount);
  if (defect) ok(cudaSetDevice(1));
  ok(conformance::fill(data, kInts, 1, stream));
  stream.synchronize();
  return true;
}

PLANTED(missing_peer_access, "a kernel reads a peer's memory without peer access", lazy) {
  Stream stream;
  OnGpu mine(kCount);
  ok(cudaSetDevice(1));
  OnGpu theirs(kCount);
  ok(cudaMemcpy(theirs, std::vector<int>(kCount, 1).data(), kBytes, cudaMemcpyHostToDevice));
  ok(cudaSetDevice(0));
  if (!defect) ok(cudaDeviceEnablePeerAccess(1, 0));
  ok(conformance::increment(theirs, mine, kInts, stream));
  stream.synchronize();
  return true;
}

PLANTED(kernel_reads_host_memory, "a kernel is given a pointer to pageable host memory", lazy) {
  Stream stream;
  OnGpu out(kCount);
  Pinned pinned(kCount);
  fill(pinned, 1);
  std::vector<int> pageable(kCount, 1);
  ok(conformance::increment(defect ? pageable.data() : pinned, out, kInts, stream));
  stream.synchronize();
  return true;
}

PLANTED(kernel_uses_freed_memory, "a kernel is given memory that has been freed", lazy) {
  Stream stream;
  int* p = nullptr;
  ok(cudaMalloc(reinterpret_cast<void**>(&p), kBytes));
  if (defect) ok(cudaFree(p));
  ok(conformance::fill(p, kInts, 1, stream));
  stream.synchronize();
  if (!defect) ok(cudaFree(p));
  return true;
}

PLANTED(buffer_too_small, "a kernel is told a size that its buffer does not have", lazy) {
  Stream stream;
  OnGpu data(kCount);
  ok(conformance::fill(data, kInts + (defect ? 1 : 0), 1, stream));
  stream.synchronize();
  return true;
}

PLANTED(kernel_reads_unwritten_memory, "a kernel reads memory that nobody has written", lazy) {
  Stream stream;
  OnGpu in(kCount), out(kCount);
  if (!defect) ok(cudaMemsetAsync(in, 0, kBytes, stream));
  ok(conformance::increment(in, out, kInts, stream));
  stream.synchronize();
  return true;
}

PLANTED(unchecked_launch, "a launch that failed goes unnoticed", lazy) {
  Stream stream;
  OnGpu data(kCount);
  Pinned out(kCount);
  ok(cudaMemsetAsync(data, 0, kBytes, stream));
  const unsigned threads = defect ? 2048 : 256;
  (void)conformance::fill(data, kInts, 5, stream, {.grid = 1, .block = threads});
  ok(cudaMemcpyAsync(out, data, kBytes, cudaMemcpyDeviceToHost, stream));
  stream.synchronize();
  return all(out, 5);
}

PLANTED(kernel_before_its_input, "a kernel runs before its input has arrived", lazy_and_tsan) {
  Stream transfer, compute;
  Event arrived;
  OnGpu in(kCount), out(kCount);
  Pinned source(kCount), result(kCount);
  fill(source, 1);
  ok(cudaMemsetAsync(in, 0, kBytes, compute));
  ok(cudaEventRecord(arrived, compute));
  ok(cudaStreamWaitEvent(transfer, arrived, 0));
  ok(cudaMemcpyAsync(in, source, kBytes, cudaMemcpyHostToDevice, transfer));
  ok(cudaEventRecord(arrived, transfer));
  if (!defect) ok(cudaStreamWaitEvent(compute, arrived, 0));
  ok(conformance::increment(in, out, kInts, compute));
  ok(cudaMemcpyAsync(result, out, kBytes, cudaMemcpyDeviceToHost, compute));
  compute.synchronize();
  const bool right = all(result, 2);
  transfer.synchronize();
  return right;
}

PLANTED(copy_before_the_kernel, "a result leaves before the kernel has computed it",
        lazy_and_tsan) {
  Stream compute, transfer;
  Event computed;
  OnGpu out(kCount);
  Pinned result(kCount);
  ok(conformance::fill(out, kInts, 6, compute));
  ok(cudaEventRecord(computed, compute));
  if (!defect) ok(cudaStreamWaitEvent(transfer, computed, 0));
  ok(cudaMemcpyAsync(result, out, kBytes, cudaMemcpyDeviceToHost, transfer));
  transfer.synchronize();
  const bool right = all(result, 6);
  compute.synchronize();
  return right;
}
