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

/// What a block does of a table of arrays that are cut into chunks, a block for each.
struct Chunk {
  std::uint32_t entry;  // of the table
  std::int64_t start;
  std::uint32_t size;
};

/// REQUIRES: entry k begins with chunk first_chunk, and has as many as its size needs.
template <class Entry>
__device__ inline Chunk chunk_of_block(const Entry* table, std::uint32_t entries,
                                       std::uint32_t chunk_size) {
  std::uint32_t k = 0;
  while (k + 1 < entries && table[k + 1].first_chunk <= blockIdx.x) ++k;
  const std::int64_t start = std::int64_t(blockIdx.x - table[k].first_chunk) * chunk_size;
  const std::int64_t rest = table[k].size - start;
  return {k, start, rest < chunk_size ? std::uint32_t(rest) : chunk_size};
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
