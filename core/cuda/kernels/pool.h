// Launchers of pool.cu: windows that slide over images, row-major or channels-last on either side.
#pragma once

#include <cuda_runtime_api.h>

#include <tandem/core/cuda/kernels/strided.h>
#include <tandem/core/dtype.h>
#include <tandem/core/window.h>

namespace tandem::gpu {

/// One of N images of (channels, h, w); strides count elements.
struct Images {
  Divisor channels, h, w;
  std::int64_t image = 0, channel = 0, row = 0, column = 0;  // strides
};

/// Windows over `big` give `small`; both have the same images and channels. The kernels walk the
/// side that is written, in the order of its memory.
struct PoolPlaces {
  Images big, small;
  std::uint32_t images = 0;
  bool channels_inside = false;  // of the side that is written: neighbours are channels
};

/// Sizes of a window of which every number is below 2^30.
struct PoolWindow {
  std::int32_t kernel_h = 1, kernel_w = 1, stride_h = 1, stride_w = 1;
  std::int32_t padding_h = 0, padding_w = 0, dilation_h = 1, dilation_w = 1;
};

/// What an average is divided by and taken over; see AverageRule.
struct AverageWindow {
  PoolWindow window;
  bool adaptive = false, count_padding = true;
  std::int64_t divisor = 0;
};

// REQUIRES: what is written has at most kMostElements elements.

/// `index` has small's strides; it may be null.
void launch_max_pool(DType dtype, const PoolPlaces& places, const PoolWindow& window, const void* x,
                     void* y, std::int32_t* index, cudaStream_t stream);
/// `small` says where dy lies, `index_places` where index does.
void launch_max_pool_grad(DType dtype, const PoolPlaces& places, const PoolWindow& window,
                          const Images& index_places, const std::int32_t* index, const void* dy,
                          void* dx, cudaStream_t stream);
void launch_avg_pool(DType dtype, const PoolPlaces& places, const AverageWindow& window,
                     const void* x, void* y, cudaStream_t stream);
void launch_avg_pool_grad(DType dtype, const PoolPlaces& places, const AverageWindow& window,
                          const void* dy, void* dx, cudaStream_t stream);

}  // namespace tandem::gpu
