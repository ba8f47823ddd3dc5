// See kernels.h. Built by nvcc once, and linked to the simulator as well as to the real runtime.
#include "conformance/kernels.h"

namespace conformance {
namespace {

__global__ void fill_ints(int* out, int n, int value) {
  const int per_block = blockDim.x * blockDim.y * blockDim.z;
  const int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  for (int i = blockIdx.x * per_block + thread; i < n; i += gridDim.x * per_block) out[i] = value;
}

__global__ void increment_ints(const int* in, int* out, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    out[i] = in[i] + 1;
}

__global__ void count_shared(int* out, int ints) {
  extern __shared__ int dynamic[];
  __shared__ int counts[kStaticShared / sizeof(int)];
  for (int i = threadIdx.x; i < ints; i += blockDim.x) dynamic[i] = i;
  __syncthreads();
  int seen = 0;
  for (int i = threadIdx.x; i < ints; i += blockDim.x)
    seen += dynamic[ints - 1 - i] == ints - 1 - i;
  counts[threadIdx.x] = seen;
  __syncthreads();
  if (threadIdx.x != 0) return;
  int total = 0;
  for (int i = 0; i < static_cast<int>(blockDim.x); ++i) total += counts[i];
  *out = total * static_cast<int>(sizeof(int));
}

__global__ void write_at(int* p) {
  *p = 1;
}

}  // namespace

cudaError_t fill(int* out, int n, int value, cudaStream_t stream, LaunchSize size) {
  fill_ints<<<size.grid, size.block, size.shared, stream>>>(out, n, value);
  return cudaGetLastError();
}

cudaError_t increment(const int* in, int* out, int n, cudaStream_t stream) {
  increment_ints<<<4, 64, 0, stream>>>(in, out, n);
  return cudaGetLastError();
}

cudaError_t use_shared(int* out, std::size_t bytes, cudaStream_t stream) {
  count_shared<<<1, 128, bytes, stream>>>(out, static_cast<int>(bytes / sizeof(int)));
  return cudaGetLastError();
}

cudaError_t write_outside(int* end, cudaStream_t stream) {
  write_at<<<1, 1, 0, stream>>>(end);
  return cudaGetLastError();
}

const void* fill_kernel() {
  return reinterpret_cast<const void*>(&fill_ints);
}
const void* shared_kernel() {
  return reinterpret_cast<const void*>(&count_shared);
}

}  // namespace conformance
