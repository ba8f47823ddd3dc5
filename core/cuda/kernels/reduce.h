// Launchers of reduce.cu: reductions over any dimensions, and the places of extrema.
#pragma once

#include <cuda_runtime_api.h>

#include <tandem/core/cuda/kernels/fold.h>
#include <tandem/core/cuda/kernels/strided.h>
#include <tandem/core/dtype.h>
#include <tandem/core/reduce_rules.h>

namespace tandem::gpu {

/// Where the values of a reduction lie: of x and y for each result, and of x from there on.
struct FoldPlaces {
  Strided<2> kept;  // x, y
  Strided<1> gone;
  std::int64_t first = 0;  // position of the first value, for those who want to know it
};

/// y[k] = op over i of x[k, i]; x and y of `dtype`: float32, float16, bfloat16 or int64.
void launch_reduce(ReduceOp op, DType dtype, const FoldPlaces& places, const FoldPlan& plan,
                   const void* x, void* y, void* partials, cudaStream_t stream);

/// y[k] = first + the least i with the largest (smallest) x[k, i].
void launch_arg_reduce(bool largest, DType dtype, const FoldPlaces& places, const FoldPlan& plan,
                       const void* x, std::int64_t* y, void* partials, cudaStream_t stream);

/// Indices must be in [0, size), or be `ignored` if that is allowed.
struct IndexRange {
  std::int64_t size, ignored;
  bool may_ignore;
};
inline constexpr std::int64_t kAllInside = 0x7fffffffffffffff;
/// *position = the first i for which index[i] is not what it must be, or kAllInside.
void launch_first_outside(const FoldPlan& plan, const IndexRange& range, const std::int64_t* index,
                          std::int64_t* position, void* partials, cudaStream_t stream);

}  // namespace tandem::gpu
