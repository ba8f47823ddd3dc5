// Sizes and strides are 64-bit; what kernels and libraries count with is often not. Private to
// core/cuda.
#pragma once

#include <cstdint>
#include <limits>
#include <utility>

#include <tandem/core/error.h>

namespace tandem::gpu {

/// `v` as a smaller integer: the one way to make one. Throws UsageError, naming `op`, if it is
/// above `most` or does not fit.
template <class To>
To narrow(const char* op, std::int64_t v,
          std::int64_t most = std::int64_t(std::numeric_limits<To>::max())) {
  check(std::in_range<To>(v) && v <= most, "[", op, "] ", v, " is too large for CUDA: at most ",
        most);
  return To(v);
}

}  // namespace tandem::gpu
