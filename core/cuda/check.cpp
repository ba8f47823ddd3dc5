#include <tandem/core/cuda/check.h>

#include <string_view>

namespace tandem::gpu {
namespace {

// "cudaMalloc(&data, bytes)" is cudaMalloc.
std::string_view name_of(std::string_view call) {
  return call.substr(0, call.find('('));
}

[[noreturn]] void raise(std::string_view call, Device device, const char* words, int code) {
  throw DeviceError(
      str("[cuda] ", name_of(call), " on ", device, " failed: ", words, " (", code, ")"));
}

}  // namespace

void check_status(cudaError_t status, const char* call, Device device) {
  if (status == cudaSuccess) return;
  (void)cudaGetLastError();  // else the next launch would report it again
  raise(call, device, cudaGetErrorString(status), int(status));
}

void check_status(cublasStatus_t status, const char* call, Device device) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  raise(call, device, cublasGetStatusString(status), int(status));
}

void check_status(cudnnStatus_t status, const char* call, Device device) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  raise(call, device, cudnnGetErrorString(status), int(status));
}

OnDevice::OnDevice(int gpu) : gpu_(gpu) {
  cudaError_t status = cudaGetDevice(&before_);
  if (status == cudaSuccess && before_ != gpu) status = cudaSetDevice(gpu);
  if (status == cudaSuccess) return;
  (void)cudaGetLastError();
  throw DeviceError(str("[cuda] GPU ", gpu, " cannot be made the current one: ",
                        cudaGetErrorString(status), " (", int(status), ")"));
}

OnDevice::~OnDevice() {
  if (before_ != gpu_) ignored(cudaSetDevice(before_));
}

}  // namespace tandem::gpu
