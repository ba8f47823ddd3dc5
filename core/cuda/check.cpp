#include <tandem/core/cuda/check.h>

#include <string_view>

namespace tandem::gpu {
namespace {

// "cudaMalloc(&data, bytes)" is cudaMalloc.
std::string_view name_of(std::string_view call) {
  return call.substr(0, call.find('('));
}

// Has this thread a current GPU? cudaGetDevice names GPU 0 either way. The driver knows; it is
// asked by way of the runtime, as nothing here is linked to the driver itself.
bool uses_a_gpu() noexcept {
  using GetCurrent = int (*)(void** context);  // cuCtxGetCurrent
  static const auto get_current = [] {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result{};
#if CUDART_VERSION >= 12050
    const cudaError_t status = cudaGetDriverEntryPointByVersion("cuCtxGetCurrent", &found, 12000,
                                                                cudaEnableDefault, &result);
#else
    const cudaError_t status =
        cudaGetDriverEntryPoint("cuCtxGetCurrent", &found, cudaEnableDefault, &result);
#endif
    ignored(status);
    const bool good = status == cudaSuccess && result == cudaDriverEntryPointSuccess;
    return good ? reinterpret_cast<GetCurrent>(found) : nullptr;
  }();
  void* context = nullptr;
  return get_current == nullptr || (get_current(&context) == 0 && context != nullptr);
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

OnDevice::OnDevice(int gpu) {
  const cudaError_t status = enter(gpu);
  if (status == cudaSuccess) return;
  throw DeviceError(str("[cuda] GPU ", gpu, " cannot be made the current one: ",
                        cudaGetErrorString(status), " (", int(status), ")"));
}

cudaError_t OnDevice::enter(int gpu) noexcept {
  cudaError_t status = cudaGetDevice(&before_);
  if (status == cudaSuccess && before_ != gpu) {
    const bool any = uses_a_gpu();
    status = cudaSetDevice(gpu);
    restore_ = status == cudaSuccess && any;
  }
  ignored(status);
  return status;
}

}  // namespace tandem::gpu
