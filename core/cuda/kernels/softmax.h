// Launchers of softmax.cu: rows of numbers along the last dimension, and losses of given classes.
#pragma once

#include <cuda_runtime_api.h>

#include <tandem/core/cuda/kernels/strided.h>
#include <tandem/core/dtype.h>

namespace tandem::gpu {

/// Rows of K arrays: where each begins, and how far apart its elements are.
template <int K>
struct RowPlaces {
  Strided<K> rows;  // rows.numel of them
  std::uint32_t length = 0;
  std::int64_t stride[K]{};
};

/// y = softmax(x) or log_softmax(x) along rows; places: y, x.
void launch_softmax(bool log, DType dtype, const RowPlaces<2>& places, const void* x, void* y,
                    cudaStream_t stream);
/// places: dx, y, dy.
void launch_softmax_grad(bool log, DType dtype, const RowPlaces<3>& places, const void* y,
                         const void* dy, void* dx, cudaStream_t stream);

/// logp (rows, classes) of `dtype` and one target for each row; strides count elements.
struct NllPlaces {
  std::uint32_t rows = 0;
  Divisor classes;
  std::int64_t logp_row = 0, logp_class = 0, target = 0, weight = 0, loss = 0, row_weight = 0;
  std::int64_t ignore_index = 0;
};

/// `weight` may be null: 1. Targets have been checked.
void launch_nll(DType dtype, const NllPlaces& places, const void* logp, const std::int64_t* target,
                const float* weight, float* loss, float* row_weight, cudaStream_t stream);
/// Writes all of dlogp, whose strides are places.logp_*. REQUIRES: rows * classes <= kMostElements.
void launch_nll_grad(DType dtype, const NllPlaces& places, const std::int64_t* target,
                     const float* row_weight, const float* dloss, void* dlogp, cudaStream_t stream);

}  // namespace tandem::gpu
