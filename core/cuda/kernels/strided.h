// Strided<N>: where element i of N operands of one shape lies. What a launcher takes instead of
// Arrays: a plain struct that travels as a kernel argument.
//
// All of it is 32-bit: host code cuts larger work into pieces (core/cuda/layout.h, which also makes
// these structs). Device code walks them with the helpers of grid.cuh.
#pragma once

#include <cstdint>

#include <tandem/core/half.h>

namespace tandem::gpu {

inline constexpr int kMaxRank = 8;
inline constexpr std::uint32_t kMostElements = 0x7fffffffu;  // of a launch: what Divisor can divide

/// Division by a number that is known before the launch, as a product and a shift (Granlund and
/// Montgomery, 1994).
struct Divisor {
  std::uint32_t value = 1, magic = 1, shift = 0;

  Divisor() = default;
  /// REQUIRES: 1 <= d <= kMostElements.
  explicit Divisor(std::uint32_t d) : value(d) {
    while ((std::uint64_t(1) << shift) < d) ++shift;
    const std::uint64_t power = std::uint64_t(1) << shift;
    magic = std::uint32_t((power - d) * (std::uint64_t(1) << 32) / d + 1);
  }

  /// n / value. REQUIRES: n <= kMostElements.
  TANDEM_HD std::uint32_t divide(std::uint32_t n) const {
    const auto high = std::uint32_t(std::uint64_t(n) * magic >> 32);
    return (high + n) >> shift;
  }
};

/// `rank` dimensions of `numel` elements; [0] is the *innermost*. Strides count elements, and are 0
/// where an operand is broadcast.
template <int N>
struct Strided {
  std::uint32_t numel = 0;
  std::int32_t rank = 1;
  Divisor size[kMaxRank];
  std::uint32_t stride[N][kMaxRank]{};
};

/// What a pointwise launcher takes: N operands, the first of which is written.
template <int N>
struct Operands {
  void* at[N];
  Strided<N> layout;
  bool packed = false;  // all are contiguous and begin at 16 bytes: threads move 16 bytes at once
};

/// Threads of a block, unless a kernel has a reason for another number.
inline constexpr int kThreads = 256;

/// Blocks for `n` threads with something to do, each of which takes more than one share if there
/// are many. REQUIRES: n > 0.
inline unsigned blocks_for(std::uint64_t n, int threads = kThreads) {
  constexpr std::uint64_t kMost = 1 << 16;
  const std::uint64_t blocks = (n + std::uint64_t(threads) - 1) / std::uint64_t(threads);
  return unsigned(blocks < kMost ? blocks : kMost);
}

}  // namespace tandem::gpu
