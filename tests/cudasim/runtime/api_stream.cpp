// Streams and events.
#include "runtime/state.h"

#include <algorithm>

using namespace cudasim;

namespace cudasim {

CUstream_st* find_stream(State& s, cudaStream_t handle, const char* function) {
  if (!handle || handle == cudaStreamLegacy || handle == cudaStreamPerThread) {
    violation(s, std::string(function) + " on the default stream; name a stream");
    return nullptr;
  }
  for (auto& stream : s.streams)
    if (stream.get() == handle) {
      if (!stream->destroyed) return handle;
      violation(s, std::string(function) + " on a destroyed stream (#" +
                       std::to_string(stream->number) + ")");
      return nullptr;
    }
  violation(s, std::string(function) + ": not a stream");
  return nullptr;
}

CUevent_st* find_event(State& s, cudaEvent_t handle, const char* function) {
  const auto event = s.events.find(handle);
  if (event == s.events.end()) {
    violation(s, std::string(function) + ": not an event");
    return nullptr;
  }
  if (!handle->destroyed) return handle;
  violation(
      s, std::string(function) + " on a destroyed event (#" + std::to_string(handle->number) + ")");
  return nullptr;
}

}  // namespace cudasim

namespace {

constexpr cudaError_t kBadHandle = cudaErrorInvalidResourceHandle;

cudaError_t create_stream(State& s, cudaStream_t* out, unsigned flags, int priority) {
  if (!out || flags > cudaStreamNonBlocking) return cudaErrorInvalidValue;
  if (flags != cudaStreamNonBlocking)
    violation(s, "a stream that waits for the default stream; pass cudaStreamNonBlocking");
  const int number = static_cast<int>(s.streams.size()) + 1;
  s.streams.push_back(std::make_unique<CUstream_st>(
      CUstream_st{.device = this_thread().device,
                  .number = number,
                  .flags = flags,
                  .priority = std::clamp(priority, kGreatestPriority, 0),
                  .rank = s.random()}));
  *out = s.streams.back().get();
  start_worker(s, **out);
  return cudaSuccess;
}

cudaError_t create_event(State& s, cudaEvent_t* out, unsigned flags) {
  const unsigned known = cudaEventBlockingSync | cudaEventDisableTiming;
  if (!out || flags & ~known) return cudaErrorInvalidValue;
  auto event =
      std::make_unique<CUevent_st>(CUevent_st{this_thread().device, ++s.events_made, flags});
  *out = event.get();
  s.events.emplace(*out, std::move(event));
  return cudaSuccess;
}

cudaError_t elapsed(State& s, float* ms, cudaEvent_t start, cudaEvent_t end, const char* name) {
  const CUevent_st *from = find_event(s, start, name), *to = find_event(s, end, name);
  if (!from || !to || !from->latest || !to->latest) return kBadHandle;
  if ((from->flags | to->flags) & cudaEventDisableTiming) return kBadHandle;
  if (from->device != to->device) return kBadHandle;
  if (!from->latest->done || !to->latest->done) return cudaErrorNotReady;
  *ms = std::chrono::duration<float, std::milli>(to->latest->when - from->latest->when).count();
  return cudaSuccess;
}

// What a wait answers: the sticky error that the awaited work may have caused.
cudaError_t outcome(const State& s, int device) {
  return s.devices[device].lost;
}

}  // namespace

extern "C" {

cudaError_t CUDARTAPI cudaStreamCreate(cudaStream_t* stream) {
  return api(__func__, [&](State& s, Lock&) { return create_stream(s, stream, 0, 0); });
}

cudaError_t CUDARTAPI cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags) {
  return api(__func__, [&](State& s, Lock&) { return create_stream(s, stream, flags, 0); });
}

cudaError_t CUDARTAPI cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int flags,
                                                   int priority) {
  return api(__func__, [&](State& s, Lock&) { return create_stream(s, stream, flags, priority); });
}

// Returns at once; what was issued to the stream still runs.
cudaError_t CUDARTAPI cudaStreamDestroy(cudaStream_t handle) {
  return api(__func__, [&](State& s, Lock&) {
    CUstream_st* stream = find_stream(s, handle, "cudaStreamDestroy");
    if (!stream) return kBadHandle;
    stream->destroyed = true;
    return cudaSuccess;
  });
}

cudaError_t CUDARTAPI cudaStreamSynchronize(cudaStream_t handle) {
  return api(__func__, [&](State& s, Lock& lock) {
    CUstream_st* stream = find_stream(s, handle, "cudaStreamSynchronize");
    if (!stream) return kBadHandle;
    wait_for(s, lock, *stream);
    stream->token.acquire();
    return outcome(s, stream->device);
  });
}

cudaError_t CUDARTAPI cudaStreamQuery(cudaStream_t handle) {
  return api(__func__, [&](State& s, Lock& lock) {
    CUstream_st* stream = find_stream(s, handle, "cudaStreamQuery");
    if (!stream) return kBadHandle;
    if (stream->done < stream->issued) {
      poll(s, lock, *stream);
      if (stream->done < stream->issued) return cudaErrorNotReady;
    }
    stream->token.acquire();
    return outcome(s, stream->device);
  });
}

cudaError_t CUDARTAPI cudaStreamGetFlags(cudaStream_t handle, unsigned int* flags) {
  return api(__func__, [&](State& s, Lock&) {
    const CUstream_st* stream = find_stream(s, handle, "cudaStreamGetFlags");
    if (!stream) return kBadHandle;
    *flags = stream->flags;
    return cudaSuccess;
  });
}

cudaError_t CUDARTAPI cudaStreamGetPriority(cudaStream_t handle, int* priority) {
  return api(__func__, [&](State& s, Lock&) {
    const CUstream_st* stream = find_stream(s, handle, "cudaStreamGetPriority");
    if (!stream) return kBadHandle;
    *priority = stream->priority;
    return cudaSuccess;
  });
}

cudaError_t CUDARTAPI cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event_handle,
                                          unsigned int flags) {
  return api(__func__, [&](State& s, Lock& lock) {
    CUstream_st* stream = find_stream(s, handle, "cudaStreamWaitEvent");
    CUevent_st* event = find_event(s, event_handle, "cudaStreamWaitEvent");
    if (!stream || !event) return kBadHandle;
    if (flags != 0) return cudaErrorInvalidValue;
    if (event->latest)  // never recorded: nothing to wait for
      enqueue(s, lock, *stream,
              {.kind = Operation::Kind::wait, .what = "wait", .recording = event->latest});
    return cudaSuccess;
  });
}

cudaError_t CUDARTAPI cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void* data) {
  return api(__func__, [&](State& s, Lock& lock) {
    CUstream_st* stream = find_stream(s, handle, "cudaLaunchHostFunc");
    if (!stream) return kBadHandle;
    if (!function) return cudaErrorInvalidValue;
    enqueue(s, lock, *stream,
            {.kind = Operation::Kind::host_function, .what = "cudaLaunchHostFunc", .run = [=] {
               function(data);
             }});
    return cudaSuccess;
  });
}

cudaError_t CUDARTAPI cudaDeviceSynchronize(void) {
  return api(__func__, [&](State& s, Lock& lock) {
    const int device = this_thread().device;
    wait_for_device(s, lock, device);
    for (auto& stream : s.streams)
      if (stream->device == device) stream->token.acquire();
    return outcome(s, device);
  });
}

cudaError_t CUDARTAPI cudaEventCreate(cudaEvent_t* event) {
  return api(__func__, [&](State& s, Lock&) { return create_event(s, event, 0); });
}

cudaError_t CUDARTAPI cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
  return api(__func__, [&](State& s, Lock&) { return create_event(s, event, flags); });
}

cudaError_t CUDARTAPI cudaEventDestroy(cudaEvent_t handle) {
  return api(__func__, [&](State& s, Lock&) {
    CUevent_st* event = find_event(s, handle, "cudaEventDestroy");
    if (!event) return kBadHandle;
    event->destroyed = true;  // the recording lives on in the streams that wait for it
    event->latest.reset();
    s.destroyed_events.push_back(event);
    if (s.destroyed_events.size() > kDestroyedKept) {
      s.events.erase(s.destroyed_events.front());
      s.destroyed_events.pop_front();
    }
    return cudaSuccess;
  });
}

cudaError_t CUDARTAPI cudaEventRecord(cudaEvent_t event_handle, cudaStream_t handle) {
  return api(__func__, [&](State& s, Lock& lock) {
    CUevent_st* event = find_event(s, event_handle, "cudaEventRecord");
    CUstream_st* stream = find_stream(s, handle, "cudaEventRecord");
    if (!event || !stream || event->device != stream->device) return kBadHandle;
    event->latest = std::make_shared<Recording>(Recording{.stream = stream});
    enqueue(s, lock, *stream,
            {.kind = Operation::Kind::record, .what = "record", .recording = event->latest});
    return cudaSuccess;
  });
}

cudaError_t CUDARTAPI cudaEventQuery(cudaEvent_t handle) {
  return api(__func__, [&](State& s, Lock& lock) {
    CUevent_st* event = find_event(s, handle, "cudaEventQuery");
    if (!event) return kBadHandle;
    const std::shared_ptr<Recording> recording = event->latest;
    if (!recording) return cudaSuccess;
    if (!recording->done) poll(s, lock, *recording->stream);
    if (!recording->done) return cudaErrorNotReady;
    recording->token.acquire();
    return outcome(s, event->device);
  });
}

cudaError_t CUDARTAPI cudaEventSynchronize(cudaEvent_t handle) {
  return api(__func__, [&](State& s, Lock& lock) {
    CUevent_st* event = find_event(s, handle, "cudaEventSynchronize");
    if (!event) return kBadHandle;
    const std::shared_ptr<Recording> recording = event->latest;
    if (!recording) return cudaSuccess;
    wait_for(s, lock, recording);
    recording->token.acquire();
    return outcome(s, event->device);
  });
}

cudaError_t CUDARTAPI cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t end) {
  return api(__func__,
             [&](State& s, Lock&) { return elapsed(s, ms, start, end, "cudaEventElapsedTime"); });
}

}  // extern "C"
