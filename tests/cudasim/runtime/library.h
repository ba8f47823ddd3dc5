// What the simulated libraries (blas/, dnn/) share: the frame of their functions, their handles and
// descriptors, and how an operation on operands gets onto a stream with all its memory checked.
// Everything here but library_call() expects State::mutex to be held.
#pragma once

#include "runtime/operand.h"
#include "runtime/state.h"

#include <memory>
#include <string>
#include <vector>

namespace cudasim {

// Says whether another thread is inside a call with the same handle at this moment. Where no call
// happens to overlap, ThreadSanitizer sees the missing order: every call counts as a write of its
// handle, and as a read or write of its descriptors (find_object).
class HandleUse {
 public:
  explicit HandleUse(const void* handle);
  ~HandleUse();
  HandleUse(const HandleUse&) = delete;
  HandleUse& operator=(const HandleUse&) = delete;
  bool contested() const { return contested_; }

 private:
  const void* handle_;
  bool contested_ = false;
};

// The frame of every function of a library: lock, injected failures, a lost device. `translate`
// makes the library's status of a cudaError_t. The last error of the runtime stays as it was.
template <class Translate, class Body>
auto library_call(const char* function, const void* handle, Translate&& translate, Body&& body,
                  Survives survives = Survives::nothing) {
  Quiet quiet;
  HandleUse use(handle);
  State& s = state();
  Lock lock(s.mutex);
  ++this_thread().inside_api;
  if (use.contested())
    violation(s, std::string(function) + ": another thread uses the same handle at the same time");
  const cudaError_t error = before_call(s, function, survives);
  auto status = error == cudaSuccess ? body(s, lock) : translate(error);
  --this_thread().inside_api;
  return status;
}

// ---- handles and descriptors --------------------------------------------------------------------

// Keeps `object` long after remove_object, so that a stale handle can be told from a live one;
// until then leaks() lists it as "kind #n".
void add_object(State& s, const std::string& kind, const std::shared_ptr<void>& object);
void remove_object(State& s, const std::string& kind, const void* object);

// False, and a violation unless `object` is null, if it was destroyed or never created.
bool find_object(State& s, const std::string& kind, const void* object, const char* function,
                 Access access = Access::write);

// Whether the device of a library's handle is current; else a violation.
bool is_current(State& s, int device, const char* function);

// ---- operations ---------------------------------------------------------------------------------

struct Workspace {
  void* data = nullptr;
  std::size_t bytes = 0;
};

struct LibraryOperation {
  const char* function;
  std::vector<Operand> operands{};
  Workspace workspace{};  // NaN before and after the operation, and unwritten
  // Returns "" or what is wrong with the numbers, for a violation.
  std::function<std::string(const std::vector<Operand>&)> compute{};
};

// Queues the operation, and reports at once operands that overlap. When it runs, the memory of
// every operand is checked as a kernel's is: out of bounds, freed, misaligned or unreachable memory
// loses the device, uninitialised elements are reported.
void enqueue_library(State& s, Lock& lock, CUstream_st& stream, LibraryOperation operation);

}  // namespace cudasim
