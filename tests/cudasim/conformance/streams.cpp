// Conformance of streams: order, independence, waiting, host functions.
#include "conformance/support.h"

using namespace conformance;

namespace {

void set_flag(void* flag) {
  *static_cast<std::atomic<int>*>(flag) = 1;
}

cudaError_t query(cudaStream_t stream) {
  const cudaError_t error = cudaStreamQuery(stream);
  if (error == cudaErrorNotReady) (void)cudaGetLastError();
  return error;
}

}  // namespace

TEST_CASE("cudaStreamCreateWithFlags: flags that do not exist are cudaErrorInvalidValue") {
  cudaStream_t stream;
  FAILS(cudaStreamCreateWithFlags(&stream, 0x80), cudaErrorInvalidValue);
}

TEST_CASE("cudaStreamGetFlags: the flags of the creation") {
  Stream stream;
  unsigned flags = 99;
  OK(cudaStreamGetFlags(stream, &flags));
  CHECK(flags == cudaStreamNonBlocking);
}

TEST_CASE("cudaStreamCreateWithPriority: a priority outside the range is clamped into it") {
  int least = 0, greatest = 0, priority = 99;
  OK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  cudaStream_t stream;
  OK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest - 10));
  OK(cudaStreamGetPriority(stream, &priority));
  CHECK(priority == greatest);
  OK(cudaStreamDestroy(stream));
  OK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, least + 10));
  OK(cudaStreamGetPriority(stream, &priority));
  CHECK(priority == least);
  OK(cudaStreamDestroy(stream));
}

TEST_CASE("cudaStreamQuery: cudaSuccess for a stream without work") {
  Stream stream;
  CHECK(cudaStreamQuery(stream) == cudaSuccess);
}

TEST_CASE("cudaStreamQuery: cudaErrorNotReady until all operations have completed") {
  Stream stream;
  Gate gate;
  gate.close_on(stream);
  CHECK(query(stream) == cudaErrorNotReady);
  CHECK(query(stream) == cudaErrorNotReady);
  release(gate, stream);
  CHECK(query(stream) == cudaSuccess);
}

TEST_CASE("cudaStreamQuery: polling is enough for the work to complete") {
  Stream stream;
  OnGpu<char> memory(64);
  for (int i = 0; i < 10; ++i) OK(cudaMemsetAsync(memory, i, 64, stream));
  while (query(stream) == cudaErrorNotReady) std::this_thread::yield();
  CHECK(fetch<char>(memory, 64)[63] == 9);
}

TEST_CASE("cudaStreamSynchronize: blocks until the stream has completed all operations") {
  Stream stream;
  std::atomic<int> flag = 0;
  OK(cudaLaunchHostFunc(stream, set_flag, &flag));
  OK(cudaStreamSynchronize(stream));
  CHECK(flag == 1);
}

TEST_CASE("cudaStreamSynchronize: does not wait for another non-blocking stream") {
  Stream held, free;
  OnGpu<char> memory(64);
  Gate gate;
  gate.close_on(held);
  OK(cudaMemsetAsync(memory, 1, 64, free));
  OK(cudaStreamSynchronize(free));
  CHECK(query(held) == cudaErrorNotReady);
  release(gate, held);
}

TEST_CASE("cudaStreamSynchronize: another thread may wait for the stream") {
  Stream stream;
  std::atomic<int> flag = 0;
  OK(cudaLaunchHostFunc(stream, set_flag, &flag));
  cudaError_t error = cudaErrorUnknown;
  std::thread([&] { error = cudaStreamSynchronize(stream); }).join();
  CHECK(error == cudaSuccess);
  CHECK(flag == 1);
}

TEST_CASE("cudaStreamDestroy: returns immediately, the work still completes") {
  OnGpu<char> memory(64);
  cudaStream_t stream;
  OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  Gate gate;
  gate.close_on(stream);
  OK(cudaMemsetAsync(memory, 7, 64, stream));
  OK(cudaStreamDestroy(stream));
  gate.open();
  OK(cudaDeviceSynchronize());
  CHECK(fetch<char>(memory, 64)[0] == 7);
}

TEST_CASE("cudaDeviceSynchronize: blocks until the device has completed all preceding tasks") {
  Stream a, b;
  std::atomic<int> first = 0, second = 0;
  OK(cudaLaunchHostFunc(a, set_flag, &first));
  OK(cudaLaunchHostFunc(b, set_flag, &second));
  OK(cudaDeviceSynchronize());
  CHECK(first == 1);
  CHECK(second == 1);
}

TEST_CASE("cudaStreamWaitEvent: future work of the stream waits for the captured work") {
  Stream producer, consumer;
  Event ready;
  OnGpu<int> from(64), to(64);
  Pinned<int> source(64, 41);
  Gate gate;
  gate.close_on(producer);
  OK(cudaMemcpyAsync(from, source, 256, cudaMemcpyHostToDevice, producer));
  OK(cudaEventRecord(ready, producer));
  OK(cudaStreamWaitEvent(consumer, ready, 0));
  OK(cudaMemcpyAsync(to, from, 256, cudaMemcpyDeviceToDevice, consumer));
  CHECK(query(consumer) == cudaErrorNotReady);
  gate.open();
  OK(cudaStreamSynchronize(consumer));
  CHECK(fetch<int>(to, 64)[63] == 41);
}

TEST_CASE("cudaStreamWaitEvent: an event that was never recorded is an empty set of work") {
  Stream stream;
  Event never;
  OK(cudaStreamWaitEvent(stream, never, 0));
  OK(cudaStreamSynchronize(stream));
}

TEST_CASE("cudaStreamWaitEvent: is not affected by later calls of cudaEventRecord") {
  Stream first, waiting, held;
  Event event;
  OK(cudaEventRecord(event, first));
  OK(cudaStreamWaitEvent(waiting, event, 0));
  Gate gate;
  gate.close_on(held);
  OK(cudaEventRecord(event, held));
  OK(cudaStreamSynchronize(waiting));
  release(gate, held);
}

TEST_CASE("cudaStreamWaitEvent: the event may be destroyed before the stream has waited") {
  Stream producer, consumer;
  OnGpu<char> memory(64);
  cudaEvent_t event;
  OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  Gate gate;
  gate.close_on(producer);
  OK(cudaMemsetAsync(memory, 1, 64, producer));
  OK(cudaEventRecord(event, producer));
  OK(cudaStreamWaitEvent(consumer, event, 0));
  OK(cudaEventDestroy(event));
  OK(cudaMemsetAsync(memory, 2, 64, consumer));
  gate.open();
  OK(cudaStreamSynchronize(consumer));
  CHECK(fetch<char>(memory, 64)[0] == 2);
}

TEST_CASE("cudaStreamWaitEvent: the event may be from another device than the stream") {
  NEEDS_DEVICES(2);
  Stream here;
  OnGpu<int> target(64);
  OnDevice on(1);
  Stream there;
  Event ready;
  OnGpu<int> source(64);
  OK(cudaMemsetAsync(source, 3, 256, there));
  OK(cudaEventRecord(ready, there));
  OK(cudaStreamWaitEvent(here, ready, 0));
  OK(cudaMemcpyPeerAsync(target, 0, source, 1, 256, here));
  OK(cudaStreamSynchronize(here));
  CHECK(fetch<int>(target, 64)[0] == 0x03030303);
}

TEST_CASE("cudaLaunchHostFunc: called after enqueued work, before work added later") {
  Stream stream;
  OnGpu<int> device(1);
  Pinned<int> out(1, -1), later(1, -1);
  struct Seen {
    int *out, *later, value_out, value_later;
  } seen{out, later, 0, 0};
  OK(cudaMemsetAsync(device, 1, 4, stream));
  OK(cudaMemcpyAsync(out, device, 4, cudaMemcpyDeviceToHost, stream));
  OK(cudaLaunchHostFunc(
      stream,
      [](void* p) {
        auto* s = static_cast<Seen*>(p);
        s->value_out = *s->out;
        s->value_later = *s->later;
      },
      &seen));
  OK(cudaMemcpyAsync(later, device, 4, cudaMemcpyDeviceToHost, stream));
  OK(cudaStreamSynchronize(stream));
  CHECK(seen.value_out == 0x01010101);
  CHECK(seen.value_later == -1);
  CHECK(later[0] == 0x01010101);
}

TEST_CASE("cudaLaunchHostFunc: a null function is cudaErrorInvalidValue") {
  Stream stream;
  FAILS(cudaLaunchHostFunc(stream, nullptr, nullptr), cudaErrorInvalidValue);
}
