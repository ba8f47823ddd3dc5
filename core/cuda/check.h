// Errors of CUDA and its libraries, and the device that is current: what every call here goes
// through.
//
//   const OnDevice on(gpu);
//   TANDEM_CUDA_CHECK(device, cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream));
//
// A call that fails throws DeviceError naming the call, the logical device and CUDA's own words.
// Next: backend.h.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <new>

#include <tandem/core/device.h>
#include <tandem/core/error.h>

namespace tandem::gpu {

/// Throw DeviceError unless `status` is success. `call` is the call's text; only its name is shown.
void check_status(cudaError_t status, const char* call, Device device);
void check_status(cublasStatus_t status, const char* call, Device device);
void check_status(cudnnStatus_t status, const char* call, Device device);

/// For calls in destructors, whose failure nobody can be told: the next launch must not report it.
inline void ignored(cudaError_t status) noexcept {
  if (status != cudaSuccess) (void)cudaGetLastError();
}

/// Makes a GPU the thread's current one for the length of a scope. A thread that has used none so
/// far stays on it: to go back to "none" CUDA knows no way, and GPU 0, which it would name, is not
/// to be woken up for nothing (a context takes hundreds of megabytes).
class OnDevice {
 public:
  explicit OnDevice(int gpu);
  /// For destructors: does what it can.
  OnDevice(int gpu, std::nothrow_t) noexcept { (void)enter(gpu); }
  ~OnDevice() {
    if (restore_) ignored(cudaSetDevice(before_));
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  cudaError_t enter(int gpu) noexcept;

  int before_ = 0;
  bool restore_ = false;
};

}  // namespace tandem::gpu

#define TANDEM_CUDA_CHECK(device, call) ::tandem::gpu::check_status((call), #call, (device))
