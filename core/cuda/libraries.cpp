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

// make(), which takes memory of the GPU behind our back: if it fails, once more without what the
// pool has cached. (The libraries do not always say that memory was the reason.)
template <class Make>
auto with_room(Pool& pool, Make make) {
  const std::lock_guard lock(creation());
  const auto status = make();
  if (int(status) == 0) return status;
  pool.empty_cache();
  return make();
}

}  // namespace

cublasHandle_t CudaBackend::blas_handle(const Array& workspace) {
  if (blas_ == nullptr) {
    const auto create = [&] { return cublasCreate(&blas_); };
    gpu::check_status(with_room(pool(), create), "cublasCreate", device());
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
    const auto create = [&] { return cudnnCreate(&dnn_); };
    gpu::check_status(with_room(pool(), create), "cudnnCreate", device());
  }
  TANDEM_CUDA_CHECK(device(), cudnnSetStream(dnn_, stream()));
  return dnn_;
}

void CudaBackend::close_libraries() noexcept {
  const gpu::OnDevice on(gpu_, std::nothrow);
  if (blas_ != nullptr) (void)cublasDestroy(blas_);
  if (dnn_ != nullptr) (void)cudnnDestroy(dnn_);
}

}  // namespace tandem
