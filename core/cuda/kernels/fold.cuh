// Reductions of every kind: a fold says where the values of result k lie, how two become one, and
// where the result goes. These kernels do the rest, in an order that follows from the sizes.
//
//   struct Fold {
//     using Rule = ...;                              // identity<V>(), combine(a, b)
//     using Value = ...;                             // what is combined
//     __device__ At at(uint32 k) const;              // what a thread keeps of result k
//     __device__ bool is_line() const;               // are the values of a result equally spaced?
//     template <bool kLine>
//     __device__ Value load(At, uint32 i) const;     // value i of it
//     __device__ void store(At, Value) const;
//   };
//
// Values of a result that lie together are read by neighbouring threads (fold_rows); else those of
// neighbouring results are (fold_columns). Few results of many values are cut into parts, whose
// partial results fold_partials() folds. Included by the .cu files of this folder only.
#pragma once

#include <tandem/core/cuda/kernels/fold.h>
#include <tandem/core/cuda/kernels/strided.h>
#include <tandem/core/cuda/kernels/block_reduce.cuh>

namespace tandem::gpu {

inline constexpr unsigned kColumns = 32, kColumnRows = 8;  // a block of fold_columns

// The values that this block folds.
struct PartRange {
  std::uint32_t start, stop;

  __device__ explicit PartRange(const FoldPlan& p)
      : start(blockIdx.y * p.chunk), stop(min(start + p.chunk, p.values)) {}
};

/// The values start, start + step, ... of a result, in this order. On a line four loads are under
/// way at a time.
template <class Fold, class At>
__device__ inline typename Fold::Value fold_values(const Fold& fold, const At& at,
                                                   const PartRange& part, std::uint32_t first,
                                                   std::uint32_t step) {
  using Rule = typename Fold::Rule;
  auto value = Rule::template identity<typename Fold::Value>();
  if (fold.is_line()) {
#pragma unroll 4
    for (std::uint32_t i = part.start + first; i < part.stop; i += step) {
      value = Rule::combine(value, fold.template load<true>(at, i));
    }
  } else {
#pragma unroll 1
    for (std::uint32_t i = part.start + first; i < part.stop; i += step) {
      value = Rule::combine(value, fold.template load<false>(at, i));
    }
  }
  return value;
}

template <class Fold, class At>
__device__ inline void put_result(const Fold& fold, const FoldPlan& p, const At& at,
                                  std::uint32_t k, typename Fold::Value value,
                                  typename Fold::Value* partials) {
  if (partials == nullptr) {
    fold.store(at, value);
  } else {
    partials[std::size_t(k) * p.slots + p.slot + blockIdx.y] = value;
  }
}

template <class Fold>
__global__ void __launch_bounds__(kThreads)
    fold_rows(const __grid_constant__ Fold fold, const __grid_constant__ FoldPlan p,
              typename Fold::Value* partials) {
  const Team team(p.values > kLongRow);
  if (team.row >= p.results) return;  // whole warps
  const auto at = fold.at(team.row);
  auto value = fold_values(fold, at, PartRange(p), team.lane, team.width);
  value = team.fold<typename Fold::Rule>(value);
  if (team.lane == 0) put_result(fold, p, at, team.row, value, partials);
}

template <class Fold>
__global__ void __launch_bounds__(kThreads)
    fold_columns(const __grid_constant__ Fold fold, const __grid_constant__ FoldPlan p,
                 typename Fold::Value* partials) {
  using Rule = typename Fold::Rule;
  using Value = typename Fold::Value;
  __shared__ Value tile[kColumnRows][kColumns];
  const std::uint32_t k = blockIdx.x * kColumns + threadIdx.x;
  const bool inside = k < p.results;
  const auto at = fold.at(inside ? k : 0);
  Value value = Rule::template identity<Value>();
  if (inside) value = fold_values(fold, at, PartRange(p), threadIdx.y, kColumnRows);
  tile[threadIdx.y][threadIdx.x] = value;
  for (unsigned half = kColumnRows / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.y < half) {
      value = Rule::combine(value, tile[threadIdx.y + half][threadIdx.x]);
      tile[threadIdx.y][threadIdx.x] = value;
    }
  }
  if (threadIdx.y == 0 && inside) put_result(fold, p, at, k, value, partials);
}

// A warp for each result.
template <class Fold>
__global__ void __launch_bounds__(kThreads)
    fold_partials(const __grid_constant__ Fold fold, const __grid_constant__ FoldPlan p,
                  const typename Fold::Value* partials) {
  using Rule = typename Fold::Rule;
  const Team team(false);
  if (team.row >= p.results) return;
  auto value = Rule::template identity<typename Fold::Value>();
  for (std::uint32_t i = team.lane; i < p.slots; i += team.width) {
    value = Rule::combine(value, partials[std::size_t(team.row) * p.slots + i]);
  }
  value = team.fold<Rule>(value);
  if (team.lane == 0) fold.store(fold.at(team.row), value);
}

/// `partials`: results * slots values, wanted if there is more than one slot. The plan that fills
/// the last slot also folds them. Where a launch was refused, nothing follows: it would read what
/// was never written, and the caller throws anyway.
template <class Fold>
void launch_fold(const Fold& fold, const FoldPlan& p, void* partials, cudaStream_t stream) {
  using Value = typename Fold::Value;
  static_assert(sizeof(Value) <= kMostValueBytes);
  if (cudaPeekAtLastError() != cudaSuccess) return;
  auto* const to = p.slots > 1 ? static_cast<Value*>(partials) : nullptr;
  const unsigned warp_blocks = (p.results - 1) / (kThreads / kWarp) + 1;
  if (p.side_by_side) {
    const dim3 grid((p.results - 1) / kColumns + 1, p.parts);
    fold_columns<<<grid, dim3(kColumns, kColumnRows), 0, stream>>>(fold, p, to);
  } else {
    const dim3 grid(p.values > kLongRow ? p.results : warp_blocks, p.parts);
    fold_rows<<<grid, kThreads, 0, stream>>>(fold, p, to);
  }
  if (p.slots > 1 && p.slot + p.parts == p.slots && cudaPeekAtLastError() == cudaSuccess) {
    fold_partials<<<warp_blocks, kThreads, 0, stream>>>(fold, p, to);
  }
}

}  // namespace tandem::gpu
