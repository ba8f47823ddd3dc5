// The loop that pointwise kernels share: any strides in, contiguous blocks of one type inside.
//
// Dimensions are sorted and joined (loops.h) until operands that lie alike are one long run. Where
// an operand is contiguous in the type that is computed in, the kernel works on it in place; else
// it is gathered into (or scattered from) a small buffer. So a kernel is only compiled for float,
// double, int64 and bool, and for contiguous data; 16-bit floats and odd strides cost a pass
// through the buffer.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <tuple>

#include <tandem/core/array.h>
#include <tandem/core/convert.h>
#include <tandem/core/cpu/team.h>
#include <tandem/core/functors.h>
#include <tandem/core/loops.h>

namespace tandem::host {

using tandem::convert;
using tandem::is_half;
using tandem::Loops;

inline constexpr std::int64_t kBlock = 512;  // elements of a buffer

template <class T>
struct Type {
  using type = T;
};

/// Calls f(Type<T>{}) with the C++ type of `dtype`.
template <class F>
decltype(auto) with_type(DType dtype, F&& f) {
  switch (dtype) {
    case DType::float32:
      return f(Type<float>{});
    case DType::float64:
      return f(Type<double>{});
    case DType::float16:
      return f(Type<Half>{});
    case DType::bfloat16:
      return f(Type<BFloat16>{});
    case DType::int64:
      return f(Type<std::int64_t>{});
    case DType::int32:
      return f(Type<std::int32_t>{});
    case DType::uint8:
      return f(Type<std::uint8_t>{});
    default:
      return f(Type<bool>{});
  }
}

/// Calls f(Type<T>{}) with an unsigned type of the size of `dtype`, to move bits.
template <class F>
void with_bits_of(DType dtype, F&& f) {
  switch (size_of(dtype)) {
    case 1:
      return f(Type<std::uint8_t>{});
    case 2:
      return f(Type<std::uint16_t>{});
    case 4:
      return f(Type<std::uint32_t>{});
    default:
      return f(Type<std::uint64_t>{});
  }
}

/// Calls f(Type<C>{}) with the type that a rule of this domain computes `dtype` in.
template <Domain kDomain, class F>
void with_compute_type(DType dtype, F&& f) {
  if constexpr (kDomain == Domain::bools) {
    f(Type<bool>{});
  } else if (dtype == DType::float64) {
    f(Type<double>{});
  } else if (kDomain == Domain::numbers && dtype == DType::int64) {
    if constexpr (kDomain == Domain::numbers) f(Type<std::int64_t>{});
  } else {
    f(Type<float>{});
  }
}

/// `n` elements at a stride, as a contiguous run of C: float, double, int64 or bool.
template <class C>
void gather(DType dtype, const std::byte* from, std::int64_t stride, std::int64_t n, C* to);
/// The other way round.
template <class C>
void scatter(DType dtype, const C* from, std::byte* to, std::int64_t stride, std::int64_t n);

/// f(loops, offsets): a loop that takes so many nanoseconds, cut into parts of which each begins at
/// its offsets. For loops whose elements are computed one by one; see Note [Parts of a kernel].
template <std::size_t N, class F>
void for_each_part_of(Device device, const Loops<N>& loops, double nanoseconds, const F& f) {
  const int parts = parts_for(nanoseconds);
  if (parts <= 1) return f(loops, std::array<std::int64_t, N>{});
  // The outermost dimension that is long enough, else the longest.
  const auto end = loops.size.begin() + loops.dim;
  auto at = std::find_if(loops.size.begin(), end, [&](std::int64_t n) { return n >= 4 * parts; });
  if (at == end) at = std::max_element(loops.size.begin(), end);
  const auto d = std::size_t(at - loops.size.begin());
  const std::int64_t grain = *at >= 64 * parts ? 16 : 1;  // so that parts share few cache lines
  const auto cut = [&](std::int64_t first, std::int64_t last) {
    Loops<N> part = loops;
    part.size[d] = last - first;
    std::array<std::int64_t, N> offsets{};
    for (std::size_t a = 0; a < N; ++a) offsets[a] = first * loops.stride[a][d];
    f(part, offsets);
  };
  for_each_range(device, *at, nanoseconds, cut, grain);
}

template <std::size_t N>
using Inputs = std::array<const Array*, N>;

/// What a block kernel is called with: a length, where the results go, and the inputs.
template <class Out, class In, std::size_t N>
using BlockKernel = std::function<void(std::int64_t, Out*, const std::array<const In*, N>&)>;

/// Calls `kernel` for blocks until all of y is written. Compiled in traverse.cpp, once for each
/// combination of types: what differs from op to op is only the kernel.
template <class Out, class In, std::size_t N>
void run_blocks(Array& y, const Inputs<N>& inputs, const BlockKernel<Out, In, N>& kernel);

/// y = f(inputs): f(n, Out* y, const In*... x) is called for contiguous blocks.
template <class Out, class In, std::size_t N, class F>
void for_each_block(Array& y, const Inputs<N>& inputs, F f) {
  run_blocks<Out, In, N>(y, inputs,
                         [f](std::int64_t n, Out* out, const std::array<const In*, N>& in) {
                           std::apply([&](auto... x) { f(n, out, x...); }, in);
                         });
}

}  // namespace tandem::host
