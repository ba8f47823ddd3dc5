// What convolution and pooling ask of their windows alike. The arithmetic: core/window.h.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include <tandem/core/error.h>
#include <tandem/core/window.h>

namespace tandem {

/// Throws UsageError for sizes from 2^31 on: below, no product of two of them overflows.
inline void check_window_sizes(const char* op, const Window2d& w) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  const std::pair<const char*, Size2d> sizes[] = {
      {"kernel", w.kernel}, {"stride", w.stride}, {"padding", w.padding}, {"dilation", w.dilation}};
  for (const auto& [name, size] : sizes) {
    check(std::max(size.h, size.w) <= kMost, "[", op, "] ", name, " ", size,
          " is too large: the most is ", kMost);
  }
}

}  // namespace tandem
