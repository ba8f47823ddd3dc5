// Launchers of norm.cu: statistics of channels, and what is done to every element with them.
//
// x is (outer, channels, inner), row-major. Statistics, weights and biases are float32.
#pragma once

#include <cuda_runtime_api.h>

#include <tandem/core/cuda/kernels/fold.h>
#include <tandem/core/cuda/kernels/strided.h>
#include <tandem/core/dtype.h>

namespace tandem::gpu {

struct ChannelPlaces {
  Divisor inner;              // elements of a channel that lie together
  std::int64_t channels = 0;  // outer runs of these are channels * inner apart
};

/// One float for each channel or for each position, or `neutral` everywhere if there is none.
struct NormalWeight {
  const float* data = nullptr;
  std::int64_t channel = 0, position = 0;  // strides
};

struct NormalBy {
  const float *mean = nullptr, *var = nullptr;
  float eps = 0;
  NormalWeight weight, bias;
};

// Of each channel; `plan` has a result for each channel and its outer * inner values.

/// sums[c] = sum of x
void launch_channel_sums(DType dtype, const ChannelPlaces& places, const FoldPlan& plan,
                         const void* x, float* sums, void* partials, cudaStream_t stream);
/// mean = sums / n and m2 = sum (x - mean)^2, the mean corrected by the sum of x - mean, which
/// removes the error that rounding it made.
void launch_moments(DType dtype, const ChannelPlaces& places, const FoldPlan& plan, const void* x,
                    const float* sums, float* mean, float* m2, void* partials, cudaStream_t stream);
/// sum_g = sum of g, sum_gx = sum of g xhat, where g = weight dy
void launch_normalize_sums(DType dtype, const ChannelPlaces& places, const FoldPlan& plan,
                           const NormalBy& by, const void* x, const void* dy, float* sum_g,
                           float* sum_gx, void* partials, cudaStream_t stream);

/// The elements of a launch: `numel` of them from the beginning of channel `channel` of the arrays
/// on, whose channels follow each other modulo `channels`.
struct NormalPiece {
  std::uint32_t numel = 0;
  Divisor inner, channels;
  std::int64_t channel = 0;
};

/// y = xhat weight + bias
void launch_normalize(DType dtype, const NormalPiece& piece, const NormalBy& by, const void* x,
                      void* y, cudaStream_t stream);
/// dx = (weight dy - mean_g - xhat mean_gx) / sqrt(var + eps)
void launch_normalize_grad(DType dtype, const NormalPiece& piece, const NormalBy& by, const void* x,
                           const void* dy, const float* mean_g, const float* mean_gx, void* dx,
                           cudaStream_t stream);

}  // namespace tandem::gpu
