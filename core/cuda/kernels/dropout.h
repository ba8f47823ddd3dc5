// Launchers of dropout.cu.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include <tandem/core/dtype.h>
#include <tandem/core/philox.h>

namespace tandem::gpu {

/// Rows, contiguous one after the other, and what of them a launch does: `columns` elements from
/// `first_column` on, a multiple of 4, of `rows` rows from the one at the pointers on.
struct DropoutRows {
  std::int64_t row_size, first_row, first_column;
  std::uint32_t rows, columns;
};

/// y = x scales of (first_row + row, column); of `dtype`: float32, float16 or bfloat16. x and y are
/// row 0's first elements. REQUIRES: rows times (columns / 4, rounded up) <= kMostElements.
void launch_dropout(const DropoutKey& key, DType dtype, const DropoutRows& rows, const void* x,
                    void* y, cudaStream_t stream);

/// Channels-last images: a row lies as (pixels, channels), its positions count as (channels,
/// pixels).
struct DropoutImages {
  std::int64_t first_row;
  std::uint32_t images, channels, pixels;

  /// What a thread does: four neighbouring pixels of a channel.
  std::int64_t shares_of_one() const { return (std::int64_t(pixels) + 3) / 4 * channels; }
};
/// The same for them. REQUIRES: images times shares_of_one() <= kMostElements.
void launch_dropout_images(const DropoutKey& key, DType dtype, const DropoutImages& images,
                           const void* x, void* y, cudaStream_t stream);

}  // namespace tandem::gpu
