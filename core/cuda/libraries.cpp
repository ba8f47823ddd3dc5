// The handles of cuBLAS and cuDNN, made when first needed: one of each per logical device, as sums
// are bit-reproducible only then, and used by one thread at a time.
//
// A handle's workspace comes from the pool for each call and goes back after it: in stream order,
// like all memory (blocks.h), so two streams never share one.
#include <tandem/core/cuda/backend.h>
#include <tandem/core/memory.h>

namespace tandem {
namespace {

// cuDNN asks that a process makes its first handle while no other thread does.
std::mutex& creation() {
  static std::mutex mutex;
  return mutex;
}

}  // namespace

cublasHandle_t CudaBackend::blas_handle(const Array& workspace) {
  if (blas_ == nullptr) {
    const std::lock_guard lock(creation());
    TANDEM_CUDA_CHECK(device(), cublasCreate(&blas_));
  }
  // 16-bit products must not be summed in 16 bits. TF32 stays off unless a call asks for it.
  TANDEM_CUDA_CHECK(
      device(),
      cublasSetMathMode(blas_, cublasMath_t(CUBLAS_DEFAULT_MATH |
                                            CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION)));
  TANDEM_CUDA_CHECK(device(), cublasSetStream(blas_, stream()));
  // After the stream: changing it drops the workspace.
  void* room = const_cast<std::byte*>(workspace.data());
  TANDEM_CUDA_CHECK(device(), cublasSetWorkspace(blas_, room, std::size_t(workspace.numel())));
  return blas_;
}

cudnnHandle_t CudaBackend::dnn_handle() {
  if (dnn_ == nullptr) {
    const std::lock_guard lock(creation());
    TANDEM_CUDA_CHECK(device(), cudnnCreate(&dnn_));
  }
  TANDEM_CUDA_CHECK(device(), cudnnSetStream(dnn_, stream()));
  return dnn_;
}

void CudaBackend::close_libraries() noexcept {
  int before = gpu_;
  gpu::ignored(cudaGetDevice(&before));
  gpu::ignored(cudaSetDevice(gpu_));
  if (blas_ != nullptr) (void)cublasDestroy(blas_);
  if (dnn_ != nullptr) (void)cudnnDestroy(dnn_);
  gpu::ignored(cudaSetDevice(before));
}

}  // namespace tandem
