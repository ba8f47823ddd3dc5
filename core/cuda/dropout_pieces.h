// Dropout of channels-last images as launches. Private to core/cuda.
#pragma once

#include <algorithm>

#include <tandem/core/cuda/kernels/dropout.h>
#include <tandem/core/cuda/kernels/strided.h>
#include <tandem/core/cuda/narrow.h>

namespace tandem::gpu {

/// Calls f(place of the first image, images) for pieces that 32 bits can count, which together are
/// `images` images; the first is row `first_row`. REQUIRES: no size is 0.
template <class F>
void for_each_images(std::int64_t first_row, std::int64_t images, std::int64_t channels,
                     std::int64_t pixels, F&& f) {
  DropoutImages part{first_row, 0, narrow<std::uint32_t>("dropout", channels, kMostElements),
                     narrow<std::uint32_t>("dropout", pixels, kMostElements)};
  const std::int64_t at_once =
      kMostElements / narrow<std::uint32_t>("dropout", part.shares_of_one(), kMostElements);
  for (std::int64_t i = 0; i < images; i += at_once) {
    part.first_row = first_row + i;
    part.images = narrow<std::uint32_t>("dropout", std::min(at_once, images - i));
    f(i, part);
  }
}

}  // namespace tandem::gpu
