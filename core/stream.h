// StreamGuard: a program's own CUDA stream in the place of a device's.
//
//   cudaStream_t mine = ...;                  // of the GPU that cuda:0 is on
//   {
//     StreamGuard guard(cuda(0), mine);
//     y = relu(x);                            // on `mine`, after all earlier work of cuda:0
//     my_kernel<<<grid, block, 0, mine>>>(y.data<float>());
//   }                                         // later work of cuda:0 runs after what is on `mine`
//
// Memory that is freed or reused meanwhile is ordered too. Worker threads of a DataParallel call
// carry the guard. On a CPU there is nothing to guard. Next: backend.h.
#pragma once

#include <tandem/core/device.h>
#include <tandem/core/thread_state.h>

namespace tandem {

/// Work of this thread on `device` goes onto `stream` while the guard lives. Guards nest; the
/// innermost counts. REQUIRES: `stream` is a cudaStream_t of the device's GPU, not null.
class StreamGuard {
 public:
  StreamGuard(Device device, void* stream);
  ~StreamGuard();
  StreamGuard(const StreamGuard&) = delete;
  StreamGuard& operator=(const StreamGuard&) = delete;

 private:
  StreamState before_;
};

}  // namespace tandem
