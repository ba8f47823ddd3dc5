// What one thread knows: one value that can be copied, so that workers can carry the caller's.
//
// Replicas of parallel/ start from the caller's state, with their own device as default device and
// their rank and rows in `replica`. User code inside a forward may read it: current_replica().
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <utility>

#include <tandem/core/device.h>
#include <tandem/core/dtype.h>
#include <tandem/core/memory.h>

namespace tandem {

/// Where this thread stands in a data-parallel forward or backward.
struct ReplicaContext {
  const void* group = nullptr;  // the worker group; null outside of replicas
  int rank = -1;
  int ranks = 0;
  std::int64_t first_row = 0;  // rows of the batch that this replica has: [first_row, +rows)
  std::int64_t rows = 0;

  bool active() const { return group != nullptr; }
};

class CastCache;

/// Mixed precision; see autocast.h.
struct AutocastState {
  bool on = false;                             // for any kind
  std::array<std::optional<DType>, 2> fast{};  // by DeviceKind; none: off for that kind
  CastCache* casts = nullptr;                  // of this thread; null: casts are not kept
};

/// A queue that a StreamGuard or SideStreams has put in the place of a device's own; see stream.h.
/// It lies in there, and leads to those of the scopes around it.
struct StreamState {
  Device device{};
  void* handle = nullptr;
  const StreamState* outer = nullptr;
};

struct ThreadState {
  bool grad_enabled = true;
  Device default_device{};  // where factories put tensors
  Category category = Category::activation;
  std::uint32_t random_calls = 0;  // dropouts (and, in replicas, factories) so far: see random.h
  ReplicaContext replica{};
  AutocastState autocast{};
  const StreamState* streams = nullptr;  // of the innermost StreamGuard; null: none
};

/// This thread's state. Trivially destructible, so it is usable while the program ends.
ThreadState& thread_state();

inline const ReplicaContext& current_replica() {
  return thread_state().replica;
}

/// No history is recorded while it lives.
class NoGrad {
 public:
  NoGrad() : before_(std::exchange(thread_state().grad_enabled, false)) {}
  ~NoGrad() { thread_state().grad_enabled = before_; }
  NoGrad(const NoGrad&) = delete;
  NoGrad& operator=(const NoGrad&) = delete;

 private:
  bool before_;
};

/// Records history inside a NoGrad.
class EnableGrad {
 public:
  EnableGrad() : before_(std::exchange(thread_state().grad_enabled, true)) {}
  ~EnableGrad() { thread_state().grad_enabled = before_; }
  EnableGrad(const EnableGrad&) = delete;
  EnableGrad& operator=(const EnableGrad&) = delete;

 private:
  bool before_;
};

/// Factories put tensors on `device` while it lives.
class DeviceScope {
 public:
  explicit DeviceScope(Device device)
      : before_(std::exchange(thread_state().default_device, device)) {}
  ~DeviceScope() { thread_state().default_device = before_; }
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  Device before_;
};

inline bool is_grad_enabled() {
  return thread_state().grad_enabled;
}

}  // namespace tandem
