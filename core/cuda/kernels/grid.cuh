// What device code shares: the loop over a grid's elements, offsets of strided operands, and
// several elements at a time. Included by the .cu files of this folder only.
//
// Arrays that are indexed by a variable would go to local memory; so every loop over dimensions or
// elements here has a fixed length and is unrolled.
#pragma once

#include <cstdint>

#include <tandem/core/cuda/kernels/strided.h>

namespace tandem::gpu {

/// for (std::uint32_t i : GridStride(n)) visits this thread's share of [0, n).
class GridStride {
 public:
  __device__ explicit GridStride(std::uint32_t n) : end_(n) {}

  struct Iterator {
    std::uint32_t i, step;
    __device__ std::uint32_t operator*() const { return i; }
    // i stays below 2^31 and a grid has at most 2^24 threads, so the sum fits.
    __device__ void operator++() { i += step; }
    __device__ bool operator!=(std::uint32_t end) const { return i < end; }
  };
  __device__ Iterator begin() const {
    return {blockIdx.x * blockDim.x + threadIdx.x, gridDim.x * blockDim.x};
  }
  __device__ std::uint32_t end() const { return end_; }

 private:
  std::uint32_t end_;
};

template <int N>
struct Offsets {
  std::uint32_t at[N];  // [operand], elements
};

/// Where element i of each operand lies. REQUIRES: i < s.numel.
template <int N>
__device__ inline Offsets<N> offsets(const Strided<N>& s, std::uint32_t i) {
  Offsets<N> o{};
#pragma unroll
  for (int d = 0; d < kMaxRank; ++d) {
    const bool last = d + 1 == s.rank;
    const std::uint32_t rest = last ? 0 : s.size[d].divide(i);
    const std::uint32_t at = i - rest * s.size[d].value;
#pragma unroll
    for (int k = 0; k < N; ++k) o.at[k] += at * s.stride[k][d];
    if (last) break;
    i = rest;
  }
  return o;
}

/// V elements that move as one.
template <class T, int V>
struct alignas(sizeof(T) * V) Pack {
  T v[V];
};

/// How many elements fill 16 bytes, what a thread moves at once.
template <class T>
inline constexpr int kPerPack = 16 / int(sizeof(T));

}  // namespace tandem::gpu
