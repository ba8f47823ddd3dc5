#include <tandem/core/cuda/backend.h>

namespace tandem {

CudaBackend::CudaBackend(Device device, int gpu, std::int64_t memory_limit)
    : Backend(device, memory_limit), gpu_(gpu) {
  const gpu::OnDevice on(gpu);
  TANDEM_CUDA_CHECK(device,
                    cudaDeviceGetAttribute(&multiprocessors_, cudaDevAttrMultiProcessorCount, gpu));
  TANDEM_CUDA_CHECK(device, cudaStreamCreateWithFlags(&compute_, cudaStreamNonBlocking));
}

CudaBackend::~CudaBackend() {
  (void)cudaStreamSynchronize(compute_);
  pool().empty_cache();
  (void)cudaStreamDestroy(compute_);
}

cudaStream_t CudaBackend::stream() {
  return compute_;
}

void* CudaBackend::raw_allocate(std::size_t bytes) {
  const gpu::OnDevice on(gpu_);
  void* data = nullptr;
  if (cudaMalloc(&data, bytes) == cudaSuccess) return data;
  (void)cudaGetLastError();
  return nullptr;
}

void CudaBackend::raw_free(void* data) noexcept {
  (void)cudaFree(data);
}

void CudaBackend::synchronize() {
  TANDEM_CUDA_CHECK(device(), cudaStreamSynchronize(compute_));
}

void CudaBackend::copy_from_host(void* to, const void* from, std::int64_t bytes) {
  if (bytes == 0) return;
  TANDEM_CUDA_CHECK(
      device(), cudaMemcpyAsync(to, from, std::size_t(bytes), cudaMemcpyHostToDevice, stream()));
  TANDEM_CUDA_CHECK(device(), cudaStreamSynchronize(stream()));
}

void CudaBackend::copy_to_host(void* to, const void* from, std::int64_t bytes) {
  if (bytes == 0) return;
  TANDEM_CUDA_CHECK(
      device(), cudaMemcpyAsync(to, from, std::size_t(bytes), cudaMemcpyDeviceToHost, stream()));
  TANDEM_CUDA_CHECK(device(), cudaStreamSynchronize(stream()));
}

}  // namespace tandem
