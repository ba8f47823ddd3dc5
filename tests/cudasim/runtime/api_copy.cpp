// Copies and fills. How far a copy is asynchronous depends on the memory at its host end:
//   pinned -> device      asynchronous; the source is read when the copy runs
//   pageable -> device    the source is staged before the call returns; the rest is asynchronous
//   device -> pinned      asynchronous
//   device -> pageable    the call returns when the copy is complete
//   host -> host          the call returns when the copy is complete
//   device -> device      asynchronous, between devices too, with or without peer access
// (CUDA Runtime API, "API synchronization behavior".)
#include "runtime/state.h"

#include <cstring>

using namespace cudasim;

namespace {

struct Copy {
  char* to;
  const char* from;
  std::size_t to_pitch, from_pitch, width, height;

  std::size_t to_span() const { return height ? (height - 1) * to_pitch + width : 0; }
  std::size_t from_span() const { return height ? (height - 1) * from_pitch + width : 0; }
  bool empty() const { return width == 0 || height == 0; }
};

bool direction_fits(cudaMemcpyKind kind, Home to, Home from) {
  const bool to_device = to == Home::device, from_device = from == Home::device;
  switch (kind) {
    case cudaMemcpyHostToHost:
      return !to_device && !from_device;
    case cudaMemcpyHostToDevice:
      return to_device && !from_device;
    case cudaMemcpyDeviceToHost:
      return !to_device && from_device;
    case cudaMemcpyDeviceToDevice:
      return to_device && from_device;
    case cudaMemcpyDefault:
      return true;
  }
  return false;
}

std::string objection_to(const State& s, const Copy& c) {
  if (std::string text = objection(s, c.to, c.to_span()); !text.empty()) return text;
  if (std::string text = objection(s, c.from, c.from_span()); !text.empty()) return text;
  if (c.from < c.to + c.to_span() && c.to < c.from + c.from_span())
    return "copies between ranges that overlap";
  return "";
}

void carry_out(const State& s, const Copy& c) {
  for (std::size_t row = 0; row < c.height; ++row) {
    char* to = c.to + row * c.to_pitch;
    const char* from = c.from + row * c.from_pitch;
    {
      Loud loud;
      note_read(from, c.width);
      note_write(to, c.width);
    }
    std::memcpy(bytes_at(s, to), bytes_at(s, from), c.width);
  }
}

void carry_written(State& s, const Copy& c) {
  for (std::size_t row = 0; row < c.height; ++row)
    copy_written(s, c.to + row * c.to_pitch, c.from + row * c.from_pitch, c.width);
}

// Errors that the call itself can see.
cudaError_t refuse(State& s, const Copy& c, cudaMemcpyKind kind, const char* function) {
  if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault)
    return cudaErrorInvalidMemcpyDirection;
  if (c.empty()) return cudaSuccess;
  if (!c.to || !c.from) return cudaErrorInvalidValue;
  if (!direction_fits(kind, locate(s, c.to).home, locate(s, c.from).home)) {
    violation(s, std::string(function) + ": the pointers do not match the direction of the copy");
    return cudaErrorInvalidValue;
  }
  const std::string text = objection_to(s, c);
  if (text.empty()) return cudaSuccess;
  violation(s, std::string(function) + " " + text);
  return cudaErrorInvalidValue;
}

// Copies `c` into a buffer that the operation owns, and redirects it there.
std::shared_ptr<std::vector<char>> stage(const State& s, Copy& c) {
  auto buffer = std::make_shared<std::vector<char>>(c.width * c.height);
  Copy in{buffer->data(), c.from, c.width, c.from_pitch, c.width, c.height};
  carry_out(s, in);
  c.from = buffer->data();
  c.from_pitch = c.width;
  return buffer;
}

cudaError_t copy_async(State& s, Lock& lock, Copy c, cudaMemcpyKind kind, cudaStream_t handle,
                       const char* function) {
  CUstream_st* stream = find_stream(s, handle, function);
  if (!stream) return cudaErrorInvalidResourceHandle;
  if (cudaError_t error = refuse(s, c, kind, function)) return error;
  if (c.empty()) return cudaSuccess;
  const Place to = locate(s, c.to), from = locate(s, c.from);
  const bool host_to_host = to.home != Home::device && from.home != Home::device;
  std::shared_ptr<std::vector<char>> staged;
  if (from.home == Home::pageable && to.home == Home::device) staged = stage(s, c);
  enqueue(s, lock, *stream,
          {.kind = Operation::Kind::work,
           .what = function,
           .check =
               [&s, c] {
                 std::string text = objection_to(s, c);
                 if (text.empty()) carry_written(s, c);
                 return text;
               },
           .run = [&s, c, staged] { carry_out(s, c); }});
  if (host_to_host || to.home == Home::pageable) {
    wait_for(s, lock, *stream);
    stream->token.acquire();
    return s.devices[stream->device].lost;
  }
  return cudaSuccess;
}

cudaError_t copy_now(State& s, const Copy& c, cudaMemcpyKind kind, const char* function) {
  if (cudaError_t error = refuse(s, c, kind, function)) return error;
  if (c.empty()) return cudaSuccess;
  carry_written(s, c);
  carry_out(s, c);
  return cudaSuccess;
}

Copy flat(void* to, const void* from, std::size_t n) {
  return {static_cast<char*>(to), static_cast<const char*>(from), n, n, n, 1};
}

bool on_device(const State& s, const void* p, int device) {
  const Place place = locate(s, p);
  return place.home == Home::device && place.device == device;
}

}  // namespace

extern "C" {

// On the default stream, for which streams made with cudaStreamNonBlocking do not wait and which
// does not wait for them.
cudaError_t CUDARTAPI cudaMemcpy(void* to, const void* from, size_t n, cudaMemcpyKind kind) {
  return api(__func__,
             [&](State& s, Lock&) { return copy_now(s, flat(to, from, n), kind, "cudaMemcpy"); });
}

cudaError_t CUDARTAPI cudaMemcpyAsync(void* to, const void* from, size_t n, cudaMemcpyKind kind,
                                      cudaStream_t stream) {
  return api(__func__, [&](State& s, Lock& lock) {
    return copy_async(s, lock, flat(to, from, n), kind, stream, "cudaMemcpyAsync");
  });
}

cudaError_t CUDARTAPI cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from,
                                        size_t from_pitch, size_t width, size_t height,
                                        cudaMemcpyKind kind, cudaStream_t stream) {
  return api(__func__, [&](State& s, Lock& lock) {
    if (width > to_pitch || width > from_pitch) return cudaErrorInvalidPitchValue;
    const Copy c{static_cast<char*>(to),
                 static_cast<const char*>(from),
                 to_pitch,
                 from_pitch,
                 width,
                 height};
    return copy_async(s, lock, c, kind, stream, "cudaMemcpy2DAsync");
  });
}

cudaError_t CUDARTAPI cudaMemcpyPeerAsync(void* to, int to_device, const void* from,
                                          int from_device, size_t n, cudaStream_t stream) {
  return api(__func__, [&](State& s, Lock& lock) {
    const int count = static_cast<int>(s.devices.size());
    if (to_device < 0 || to_device >= count || from_device < 0 || from_device >= count)
      return cudaErrorInvalidDevice;
    if (!on_device(s, to, to_device) || !on_device(s, from, from_device)) {
      violation(s, "cudaMemcpyPeerAsync: a pointer is not on the device named for it");
      return cudaErrorInvalidValue;
    }
    return copy_async(s, lock, flat(to, from, n), cudaMemcpyDeviceToDevice, stream,
                      "cudaMemcpyPeerAsync");
  });
}

cudaError_t CUDARTAPI cudaMemsetAsync(void* p, int value, size_t n, cudaStream_t handle) {
  return api(__func__, [&](State& s, Lock& lock) {
    CUstream_st* stream = find_stream(s, handle, "cudaMemsetAsync");
    if (!stream) return cudaErrorInvalidResourceHandle;
    if (n == 0) return cudaSuccess;
    if (locate(s, p).home == Home::pageable) return cudaErrorInvalidValue;
    if (std::string text = objection(s, p, n); !text.empty()) {
      violation(s, "cudaMemsetAsync " + text);
      return cudaErrorInvalidValue;
    }
    enqueue(s, lock, *stream,
            {.kind = Operation::Kind::work,
             .what = "cudaMemsetAsync",
             .check =
                 [&s, p, n] {
                   std::string text = objection(s, p, n);
                   if (text.empty()) mark_written(s, p, n);
                   return text;
                 },
             .run =
                 [&s, p, value, n] {
                   {
                     Loud loud;
                     note_write(p, n);
                   }
                   std::memset(bytes_at(s, p), value, n);
                 }});
    return cudaSuccess;
  });
}

}  // extern "C"
