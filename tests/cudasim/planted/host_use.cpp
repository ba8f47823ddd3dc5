// Planted defects in the use of the API: wrong device, wrong memory, wrong handle, too often or not
// at all. None depends on the order in which things run.
#include "planted/host_support.h"

using namespace planted;

PLANTED(double_free, "memory is freed twice", lazy) {
  int* p = nullptr;
  ok(cudaMalloc(reinterpret_cast<void**>(&p), kBytes));
  ok(cudaFree(p));
  if (defect) ok(cudaFree(p));
  return true;
}

PLANTED(leaked_memory, "device memory is never freed", lazy) {
  int* p = nullptr;
  ok(cudaMalloc(reinterpret_cast<void**>(&p), kBytes));
  if (!defect) ok(cudaFree(p));
  return true;
}

PLANTED(leaked_pinned, "pinned memory is never freed", lazy) {
  int* p = nullptr;
  ok(cudaMallocHost(reinterpret_cast<void**>(&p), kBytes));
  if (!defect) ok(cudaFreeHost(p));
  return true;
}

PLANTED(leaked_stream, "a stream is never destroyed", lazy) {
  cudaStream_t stream;
  ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  ok(cudaStreamSynchronize(stream));
  if (!defect) ok(cudaStreamDestroy(stream));
  return true;
}

PLANTED(leaked_event, "an event is never destroyed", lazy) {
  cudaEvent_t event;
  ok(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  if (!defect) ok(cudaEventDestroy(event));
  return true;
}

PLANTED(host_dereference, "the host dereferences a device pointer", lazy) {
  OnGpu data(kCount);
  ok(cudaMemcpy(data, std::vector<int>(kCount, 2).data(), kBytes, cudaMemcpyHostToDevice));
  if (defect) {
    volatile int* p = data.data;
    return p[1] == 2;
  }
  int value = 0;
  ok(cudaMemcpy(&value, data + 1, sizeof value, cudaMemcpyDeviceToHost));
  return value == 2;
}

PLANTED(freed_pinned_read, "the host reads pinned memory that it has freed", lazy) {
  int* p = nullptr;
  ok(cudaMallocHost(reinterpret_cast<void**>(&p), kBytes));
  fill(p, 3);
  volatile int* reader = p;
  int value = 0;
  if (!defect) value = reader[5];
  ok(cudaFreeHost(p));
  if (defect) value = reader[5];
  return value == 3;
}

PLANTED(freed_pinned_source, "pinned memory is freed while a copy from it is pending", lazy) {
  Stream stream;
  OnGpu data(kCount);
  int* p = nullptr;
  ok(cudaMallocHost(reinterpret_cast<void**>(&p), kBytes));
  fill(p, 3);
  ok(cudaMemcpyAsync(data, p, kBytes, cudaMemcpyHostToDevice, stream));
  if (!defect) stream.synchronize();
  ok(cudaFreeHost(p));
  stream.synchronize();
  return true;
}

PLANTED(freed_under_a_peer, "memory is freed while another device's stream still reads it", lazy) {
  Stream stream;
  OnGpu mine(kCount);
  ok(cudaSetDevice(1));
  int* theirs = nullptr;
  ok(cudaMalloc(reinterpret_cast<void**>(&theirs), kBytes));
  ok(cudaMemcpyPeerAsync(mine, 0, theirs, 1, kBytes, stream));
  if (!defect) stream.synchronize();
  ok(cudaFree(theirs));
  ok(cudaSetDevice(0));
  stream.synchronize();
  return true;
}

PLANTED(use_after_free, "a copy reads memory that has been freed", lazy) {
  Stream stream;
  OnGpu target(kCount);
  int* source = nullptr;
  ok(cudaMalloc(reinterpret_cast<void**>(&source), kBytes));
  if (defect) ok(cudaFree(source));
  ok(cudaMemcpyAsync(target, source, kBytes, cudaMemcpyDeviceToDevice, stream));
  stream.synchronize();
  if (!defect) ok(cudaFree(source));
  return true;
}

PLANTED(past_the_end, "a copy goes four bytes past the end", lazy) {
  Stream stream;
  OnGpu data(kCount);
  Pinned host(kCount + 1);
  ok(cudaMemcpyAsync(data, host, kBytes + (defect ? 4 : 0), cudaMemcpyHostToDevice, stream));
  stream.synchronize();
  return true;
}

PLANTED(wrong_direction, "the kind of a copy contradicts its pointers", lazy) {
  Stream stream;
  OnGpu data(kCount);
  Pinned host(kCount);
  ok(cudaMemcpyAsync(data, host, kBytes, defect ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice,
                     stream));
  stream.synchronize();
  return true;
}

PLANTED(swapped_peers, "a peer copy names the wrong devices", lazy) {
  Stream stream;
  OnGpu here(kCount);
  ok(cudaSetDevice(1));
  OnGpu there(kCount);
  ok(cudaMemcpyPeerAsync(there, defect ? 0 : 1, here, defect ? 1 : 0, kBytes, stream));
  stream.synchronize();
  return true;
}

PLANTED(record_on_wrong_device, "an event of one device is recorded on a stream of another", lazy) {
  Event event;
  ok(cudaSetDevice(1));
  Stream there;
  Event own;
  ok(cudaEventRecord(defect ? event : own, there));
  there.synchronize();
  return true;
}

PLANTED(destroyed_stream, "a stream is used after it was destroyed", lazy) {
  OnGpu data(kCount);
  cudaStream_t stream;
  ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  if (defect) ok(cudaStreamDestroy(stream));
  ok(cudaMemsetAsync(data, 0, kBytes, stream));
  ok(cudaStreamSynchronize(stream));
  if (!defect) ok(cudaStreamDestroy(stream));
  return true;
}

PLANTED(default_stream, "work on the default stream, which orders everything", lazy) {
  Stream stream;
  OnGpu data(kCount);
  ok(cudaMemsetAsync(data, 0, kBytes, defect ? nullptr : stream.handle));
  stream.synchronize();
  return true;
}

PLANTED(never_written, "a result is read that nobody has written", lazy) {
  Stream stream;
  OnGpu sum(kCount);
  Pinned out(kCount);
  if (!defect) ok(cudaMemsetAsync(sum, 0, kBytes, stream));
  ok(cudaMemcpyAsync(out, sum, kBytes, cudaMemcpyDeviceToHost, stream));
  stream.synchronize();
  return all(out, 0);  // fresh memory of a real device is often 0
}

PLANTED(host_function_calls_cuda, "a host function calls CUDA", lazy) {
  Stream stream;
  ok(cudaLaunchHostFunc(
      stream,
      [](void* call) {
        int device = 0;
        if (call) (void)cudaGetDevice(&device);
      },
      defect ? &stream : nullptr));
  stream.synchronize();
  return true;
}

PLANTED(unchecked_allocation, "a failed allocation goes unnoticed", lazy) {
  Stream stream;
  std::size_t free = 0, total = 0;
  ok(cudaMemGetInfo(&free, &total));
  int* p = nullptr;
  const cudaError_t error = cudaMalloc(reinterpret_cast<void**>(&p), total + 1);
  if (!defect && error != cudaSuccess) return error == cudaErrorMemoryAllocation;
  ok(cudaMemsetAsync(p, 0, kBytes, stream));
  stream.synchronize();
  return true;
}
