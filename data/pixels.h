// Bytes of a picture to numbers that a network likes. For the readers of this folder.
#pragma once

#include <array>
#include <cmath>

#include <tandem/core/error.h>

namespace tandem::data {

/// What each of the 256 bytes becomes: (byte / 255 - mean) / deviation, rounded after each
/// operation, as PyTorch's ToTensor and Normalize do. `op` begins the message.
/// REQUIRES: both finite, deviation above 0.
inline std::array<float, 256> pixel_values(float mean, float deviation, const char* op) {
  check(std::isfinite(mean) && std::isfinite(deviation) && deviation > 0, "[", op, "] mean ", mean,
        ", std ", deviation, ": both must be finite, and std above 0");
  std::array<float, 256> values{};
  for (int i = 0; i < 256; ++i) values[std::size_t(i)] = (float(i) / 255 - mean) / deviation;
  return values;
}

}  // namespace tandem::data
