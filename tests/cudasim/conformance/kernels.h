// The kernels that the conformance suite starts, and their launchers: the launch error is returned.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace conformance {

struct LaunchSize {
  dim3 grid = 1, block = 32;
  std::size_t shared = 0;
};

// out[i] = value for i < n
cudaError_t fill(int* out, int n, int value, cudaStream_t stream, LaunchSize size = {4, 64});
// out[i] = in[i] + 1 for i < n
cudaError_t increment(const int* in, int* out, int n, cudaStream_t stream);
// *out = number of bytes of dynamic shared memory that could be written and read back
cudaError_t use_shared(int* out, std::size_t bytes, cudaStream_t stream);
// writes through a pointer that no allocation holds
cudaError_t write_outside(int* end, cudaStream_t stream);

const void* fill_kernel();
const void* shared_kernel();
constexpr std::size_t kStaticShared = 512;  // bytes, of shared_kernel

}  // namespace conformance
