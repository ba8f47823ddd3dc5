// Many threads' values become one: in a warp by shuffles, in a block by shuffles and shared memory.
//
// The trees are fixed, and every lane walks the same one (a butterfly), so all of the threads get
// the result, with the same bits. `Rule` is one of reduce_rules.h, or has the same two functions.
// Included by the .cu files of this folder only. Next: fold.cuh.
#pragma once

#include <cstdint>

#include <tandem/core/reduce_rules.h>

namespace tandem::gpu {

inline constexpr unsigned kWarp = 32;
inline constexpr unsigned kAllLanes = 0xffffffffu;

/// Two sums at a time.
struct Pair {
  float a, b;
};
struct PairSum {
  template <class V>
  __device__ static V identity() {
    return {0, 0};
  }
  __device__ static Pair combine(Pair x, Pair y) { return {x.a + y.a, x.b + y.b}; }
};

/// A value and where it was found.
template <class T>
struct Best {
  T value;
  std::int64_t index;
};

template <class T>
__device__ inline T shuffle(T v, unsigned mask) {
  return __shfl_xor_sync(kAllLanes, v, int(mask));
}
__device__ inline Pair shuffle(Pair v, unsigned mask) {
  return {shuffle(v.a, mask), shuffle(v.b, mask)};
}
template <class T>
__device__ inline Best<T> shuffle(Best<T> v, unsigned mask) {
  return {shuffle(v.value, mask), shuffle(v.index, mask)};
}

/// The values of a warp's lanes as one. REQUIRES: all of its lanes call it.
template <class Rule, class V>
__device__ inline V fold_warp(V v) {
#pragma unroll
  for (unsigned mask = kWarp / 2; mask > 0; mask /= 2) v = Rule::combine(v, shuffle(v, mask));
  return v;
}

/// The values of a block's threads as one. REQUIRES: all of its threads call it; blockDim is (n, 1,
/// 1) with n a multiple of 32.
template <class Rule, class V>
__device__ inline V fold_block(V v) {
  __shared__ V of_warp[kWarp];
  v = fold_warp<Rule>(v);
  const unsigned lane = threadIdx.x % kWarp;
  if (lane == 0) of_warp[threadIdx.x / kWarp] = v;
  __syncthreads();
  v = lane < blockDim.x / kWarp ? of_warp[lane] : Rule::template identity<V>();
  __syncthreads();  // the next fold writes of_warp again
  return fold_warp<Rule>(v);
}

/// The threads that share a row: a warp, or the whole block.
struct Team {
  bool is_block;
  unsigned row;          // which one; may be past the end
  unsigned lane, width;  // this thread's place in the team, and the team's size

  __device__ explicit Team(bool block)
      : is_block(block),
        row(block ? blockIdx.x : blockIdx.x * (blockDim.x / kWarp) + threadIdx.x / kWarp),
        lane(block ? threadIdx.x : threadIdx.x % kWarp),
        width(block ? blockDim.x : kWarp) {}

  template <class Rule, class V>
  __device__ V fold(V v) const {
    return is_block ? fold_block<Rule>(v) : fold_warp<Rule>(v);
  }
};

}  // namespace tandem::gpu
