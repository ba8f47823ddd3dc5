// From Arrays to what kernels take: the joined dimensions of operands (core/loops.h) as Strided
// structs, in pieces that 32 bits can address. Private to core/cuda; never in a .cu file.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <tandem/core/cuda/kernels/strided.h>
#include <tandem/core/cuda/narrow.h>
#include <tandem/core/loops.h>

namespace tandem::gpu {

static_assert(kMaxRank == kMaxDims);

namespace detail {

/// The dimension to halve, or -1 where 32 bits are enough.
template <std::size_t N>
int too_long(const Loops<N>& loops) {
  const auto dims = std::size_t(loops.dim);
  const auto longest = [&](const auto& length) {
    std::size_t best = 0;
    for (std::size_t d = 1; d < dims; ++d) {
      if (length(d) > length(best)) best = d;
    }
    return int(best);
  };
  for (const auto& stride : loops.stride) {  // what an operand spans
    const auto reach = [&](std::size_t d) { return (loops.size[d] - 1) * stride[d]; };
    std::int64_t last = 0;
    for (std::size_t d = 0; d < dims; ++d) last += reach(d);
    if (last > std::int64_t(0xffffffff)) return longest(reach);
  }
  std::int64_t numel = 1;
  for (std::size_t d = 0; d < dims; ++d) {
    if (loops.size[d] > std::int64_t(kMostElements) / numel) {
      return longest([&](std::size_t i) { return loops.size[i]; });
    }
    numel *= loops.size[d];
  }
  return -1;
}

}  // namespace detail

/// REQUIRES: what for_each_piece() gives, or known to be small.
template <std::size_t N>
Strided<int(N)> strided(const Loops<N>& loops) {
  Strided<int(N)> s;
  s.rank = loops.dim;
  s.numel = 1;
  for (int d = 0; d < loops.dim; ++d) {
    const auto from = std::size_t(loops.dim - 1 - d);
    const auto size = narrow<std::uint32_t>("layout", loops.size[from], kMostElements);
    s.numel *= size;
    s.size[d] = Divisor(size);
    for (std::size_t k = 0; k < N && size > 1; ++k) {  // of a size of 1 it is any number
      s.stride[k][d] = narrow<std::uint32_t>("layout", loops.stride[k][from]);
    }
  }
  return s;
}

inline constexpr std::int64_t kAligned = 64;  // elements: what is cut stays aligned

/// Calls f(loops, offsets) for pieces that together are all of `loops`: each has at most
/// kMostElements elements and spans less than 2^32; `offsets` (of its first elements, counted in
/// elements) are to be added to the operands' pointers. REQUIRES: no size is 0.
template <std::size_t N, class F>
void for_each_piece(const Loops<N>& loops, F&& f, std::array<std::int64_t, N> offsets = {}) {
  const int split = detail::too_long(loops);
  if (split < 0) {
    f(loops, offsets);
    return;
  }
  const auto longest = std::size_t(split);
  Loops<N> half = loops;
  half.size[longest] = loops.size[longest] / 2;
  if (half.size[longest] > kAligned) half.size[longest] -= half.size[longest] % kAligned;
  for_each_piece(half, f, offsets);
  for (std::size_t k = 0; k < N; ++k) {
    offsets[k] += half.size[longest] * loops.stride[k][longest];
  }
  half.size[longest] = loops.size[longest] - half.size[longest];
  for_each_piece(half, f, offsets);
}

template <std::size_t N>
bool is_contiguous(const Loops<N>& loops) {
  return loops.dim == 1 && std::all_of(loops.stride.begin(), loops.stride.end(),
                                       [](const auto& s) { return s[0] == 1; });
}

/// For packs: the 16 bytes that a thread moves at once.
inline bool is_aligned(const void* data) {
  return reinterpret_cast<std::uintptr_t>(data) % 16 == 0;
}

/// Calls f(operands) (or f(operands, loops)) for pieces of arrays of one shape, of which the first
/// is written; not at all if they are empty.
template <std::size_t N, class F>
void for_each_operands(const std::array<const Array*, N>& arrays, F&& f) {
  if (arrays[0]->numel() == 0) return;
  for_each_piece(Loops<N>(arrays), [&](const Loops<N>& loops,
                                       const std::array<std::int64_t, N>& o) {
    Operands<int(N)> operands;
    operands.layout = strided(loops);
    operands.packed = is_contiguous(loops);
    for (std::size_t k = 0; k < N; ++k) {
      const std::byte* at = arrays[k]->data() + o[k] * std::int64_t(size_of(arrays[k]->dtype()));
      operands.at[k] = const_cast<std::byte*>(at);
      operands.packed &= is_aligned(at);
    }
    if constexpr (std::is_invocable_v<F, Operands<int(N)>, Loops<N>>) {
      f(operands, loops);
    } else {
      f(operands);
    }
  });
}

/// Throws UsageError for float64, which a GPU only stores here.
inline void refuse_float64(const char* op, const Array& a) {
  check(a.dtype() != DType::float64, "[", op, "] float64 is not computed on ", a.device(),
        ": convert it with to(float32)");
}

}  // namespace tandem::gpu
