// What every kernel of the simulator's tests needs: a grid-stride range, block-wide reductions in a
// fixed order, and a launch that reports its error. Included by the .cu files next to it only.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace cudasim::kernels {

constexpr unsigned kFullWarp = 0xffffffffu;
constexpr int kWarp = 32;
constexpr int kBlock = 256;

// for (std::size_t i : GridStride(n)) visits this thread's share of [0, n).
class GridStride {
 public:
  __device__ explicit GridStride(std::size_t n) : end_(n) {}

  struct Iterator {
    std::size_t i, step;
    __device__ std::size_t operator*() const { return i; }
    __device__ void operator++() { i += step; }
    __device__ bool operator!=(std::size_t end) const { return i < end; }
  };
  __device__ Iterator begin() const {
    return {blockIdx.x * std::size_t{blockDim.x} + threadIdx.x,
            std::size_t{gridDim.x} * blockDim.x};
  }
  __device__ std::size_t end() const { return end_; }

 private:
  std::size_t end_;
};

inline unsigned blocks_for(std::size_t n, unsigned most = 64) {
  const std::size_t blocks = (n + kBlock - 1) / kBlock;
  return static_cast<unsigned>(blocks < 1 ? 1 : blocks < most ? blocks : most);
}

struct Sum {
  __device__ float operator()(float a, float b) const { return a + b; }
};
struct Maximum {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

// Combines one value per thread of the block, in a fixed order; every thread gets the result.
// REQUIRES: blockDim.x is a multiple of 32; all threads of the block call it.
template <class Combine>
__device__ float block_reduce(float value, Combine combine) {
  __shared__ float per_warp[kWarp];
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    value = combine(value, __shfl_xor_sync(kFullWarp, value, offset));
  }
  if (threadIdx.x % kWarp == 0) per_warp[threadIdx.x / kWarp] = value;
  __syncthreads();
  float result = per_warp[0];
  for (unsigned warp = 1; warp < blockDim.x / kWarp; ++warp)
    result = combine(result, per_warp[warp]);
  __syncthreads();  // the next reduction writes per_warp again
  return result;
}

}  // namespace cudasim::kernels
