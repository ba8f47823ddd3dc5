// Conformance of events: what a record captures, and how time is measured.
#include "conformance/support.h"

using namespace conformance;

namespace {

cudaError_t query(cudaEvent_t event) {
  const cudaError_t error = cudaEventQuery(event);
  if (error == cudaErrorNotReady) (void)cudaGetLastError();
  return error;
}

}  // namespace

TEST_CASE("cudaEventCreateWithFlags: flags that do not exist are cudaErrorInvalidValue") {
  cudaEvent_t event;
  FAILS(cudaEventCreateWithFlags(&event, 0x80), cudaErrorInvalidValue);
}

TEST_CASE("cudaEventQuery: cudaSuccess before the first cudaEventRecord") {
  Event event;
  CHECK(cudaEventQuery(event) == cudaSuccess);
}

TEST_CASE("cudaEventSynchronize: returns at once before the first cudaEventRecord") {
  Event event;
  OK(cudaEventSynchronize(event));
}

TEST_CASE("cudaEventQuery: cudaErrorNotReady while captured work is incomplete") {
  Stream stream;
  Event event;
  Gate gate;
  gate.close_on(stream);
  OK(cudaEventRecord(event, stream));
  CHECK(query(event) == cudaErrorNotReady);
  release(gate, stream);
  CHECK(query(event) == cudaSuccess);
}

TEST_CASE("cudaEventRecord: uses of the stream after the call do not modify the event") {
  Stream stream;
  Event event;
  OK(cudaEventRecord(event, stream));
  Gate gate;
  gate.close_on(stream);
  OK(cudaEventSynchronize(event));
  CHECK(cudaEventQuery(event) == cudaSuccess);
  release(gate, stream);
}

TEST_CASE("cudaEventRecord: a second call overwrites the captured state") {
  Stream stream, held;
  Event event;
  OK(cudaEventRecord(event, stream));
  OK(cudaEventSynchronize(event));
  Gate gate;
  gate.close_on(held);
  OK(cudaEventRecord(event, held));
  CHECK(query(event) == cudaErrorNotReady);
  release(gate, held);
  CHECK(query(event) == cudaSuccess);
}

TEST_CASE("cudaEventSynchronize: waits for all work captured in the event") {
  Stream stream;
  Event event;
  OnGpu<int> device(64);
  Pinned<int> back(64, -1);
  OK(cudaMemsetAsync(device, 0, 256, stream));
  OK(cudaMemcpyAsync(back, device, 256, cudaMemcpyDeviceToHost, stream));
  OK(cudaEventRecord(event, stream));
  OK(cudaEventSynchronize(event));
  CHECK(back[63] == 0);
}

TEST_CASE("cudaEventDestroy: does not block on an event that is incomplete") {
  Stream stream;
  cudaEvent_t event;
  OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  Gate gate;
  gate.close_on(stream);
  OK(cudaEventRecord(event, stream));
  OK(cudaEventDestroy(event));
  release(gate, stream);
}

TEST_CASE("cudaEventRecord: fails if event and stream belong to different devices") {
  NEEDS_DEVICES(2);
  Event here;
  OnDevice on(1);
  Stream there;
  FAILS(cudaEventRecord(here, there), cudaErrorInvalidResourceHandle);
}

TEST_CASE("cudaEventSynchronize, cudaEventQuery: the event's device need not be current") {
  NEEDS_DEVICES(2);
  Stream stream;
  Event event;
  OK(cudaEventRecord(event, stream));
  OnDevice on(1);
  OK(cudaEventSynchronize(event));
  CHECK(cudaEventQuery(event) == cudaSuccess);
}

TEST_CASE("cudaEventElapsedTime: not negative between two records of one stream") {
  Stream stream;
  Event start(cudaEventDefault), end(cudaEventDefault);
  OnGpu<char> memory(1 << 16);
  OK(cudaEventRecord(start, stream));
  OK(cudaMemsetAsync(memory, 0, 1 << 16, stream));
  OK(cudaEventRecord(end, stream));
  OK(cudaEventSynchronize(end));
  float ms = -1;
  OK(cudaEventElapsedTime(&ms, start, end));
  CHECK(ms >= 0.0f);
  CHECK(ms < 10000.0f);
}

TEST_CASE("cudaEventElapsedTime: cudaErrorInvalidResourceHandle if an event was not recorded") {
  Stream stream;
  Event start(cudaEventDefault), never(cudaEventDefault);
  OK(cudaEventRecord(start, stream));
  OK(cudaEventSynchronize(start));
  float ms = 0;
  FAILS(cudaEventElapsedTime(&ms, start, never), cudaErrorInvalidResourceHandle);
}

TEST_CASE("cudaEventElapsedTime: cudaErrorInvalidResourceHandle with cudaEventDisableTiming") {
  Stream stream;
  Event start(cudaEventDefault), untimed(cudaEventDisableTiming);
  OK(cudaEventRecord(start, stream));
  OK(cudaEventRecord(untimed, stream));
  OK(cudaStreamSynchronize(stream));
  float ms = 0;
  FAILS(cudaEventElapsedTime(&ms, start, untimed), cudaErrorInvalidResourceHandle);
}

TEST_CASE("cudaEventElapsedTime: cudaErrorNotReady while an event is not complete") {
  Stream stream;
  Event start(cudaEventDefault), end(cudaEventDefault);
  OK(cudaEventRecord(start, stream));
  Gate gate;
  gate.close_on(stream);
  OK(cudaEventRecord(end, stream));
  float ms = 0;
  FAILS(cudaEventElapsedTime(&ms, start, end), cudaErrorNotReady);
  release(gate, stream);
}
