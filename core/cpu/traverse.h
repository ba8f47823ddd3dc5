// The loop that pointwise kernels share: any strides in, contiguous blocks of one type inside.
//
// Dimensions are sorted and joined until operands that lie alike are one long run (whatever their
// order: a channels-last array is as good as a row-major one). Where an operand is contiguous in
// the type that is computed in, the kernel works on it in place; else it is gathered into (or
// scattered from) a small buffer. So a kernel is only compiled for float, double, int64 and bool,
// and for contiguous data; 16-bit floats and odd strides cost a pass through the buffer.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <tuple>
#include <type_traits>

#include <tandem/core/array.h>
#include <tandem/core/functors.h>

namespace tandem::host {

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

template <class T>
inline constexpr bool is_half = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;

/// Value-preserving where possible; floats to integers truncate and saturate, NaN gives 0.
template <class To, class From>
To convert(From x) {
  if constexpr (std::is_same_v<To, From>) {
    return x;
  } else if constexpr (is_half<From>) {
    return convert<To>(float(x));
  } else if constexpr (is_half<To>) {
    return To(float(x));
  } else if constexpr (std::is_same_v<To, bool>) {
    return x != From(0);
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    if (!(x == x)) return To(0);
    // The limits as powers of two: exact in every floating type.
    const From above = From(2) * From(std::numeric_limits<To>::max() / 2 + 1);
    if (x >= above) return std::numeric_limits<To>::max();
    if (x <= From(std::numeric_limits<To>::min())) return std::numeric_limits<To>::min();
    return To(x);
  } else {
    return To(x);
  }
}

/// `n` elements at a stride, as a contiguous run of C: float, double, int64 or bool.
template <class C>
void gather(DType dtype, const std::byte* from, std::int64_t stride, std::int64_t n, C* to);
/// The other way round.
template <class C>
void scatter(DType dtype, const C* from, std::byte* to, std::int64_t stride, std::int64_t n);

/// The joined dimensions of N operands of one shape; the last one is the innermost.
template <std::size_t N>
struct Loops {
  int dim = 0;
  std::array<std::int64_t, kMaxDims> size{};
  std::array<std::array<std::int64_t, kMaxDims>, N> stride{};  // [operand][dimension], elements

  /// Sorted by the strides of operand 0, usually the output.
  explicit Loops(const std::array<const Array*, N>& arrays) {
    const Shape& shape = arrays[0]->shape();
    std::array<int, kMaxDims> order{};
    int n = 0;
    for (int i = 0; i < shape.dim(); ++i) {
      if (shape[i] != 1) order[std::size_t(n++)] = i;
    }
    const Shape& key = arrays[0]->strides();
    std::stable_sort(order.begin(), order.begin() + n,
                     [&](int a, int b) { return key[a] > key[b]; });
    for (int k = 0; k < n; ++k) {
      const int i = order[std::size_t(k)];
      if (dim > 0 && joins(arrays, i, shape[i])) {
        size[std::size_t(dim - 1)] *= shape[i];
      } else {
        size[std::size_t(dim++)] = shape[i];
      }
      for (std::size_t a = 0; a < N; ++a) {
        stride[a][std::size_t(dim - 1)] = arrays[a]->strides()[i];
      }
    }
    if (dim == 0) {  // a single element
      size[0] = 1;
      for (auto& s : stride) s[0] = 1;
      dim = 1;
    }
  }

  std::int64_t inner() const { return size[std::size_t(dim - 1)]; }
  std::int64_t inner_stride(std::size_t a) const { return stride[a][std::size_t(dim - 1)]; }

  /// f(offsets of the operands, in elements) for every position of the outer dimensions.
  template <class F>
  void for_each_outer(F&& f) const {
    std::array<std::int64_t, N> offset{};
    std::array<std::int64_t, kMaxDims> at{};
    for (;;) {
      f(offset);
      int d = dim - 2;
      for (; d >= 0; --d) {
        const auto i = std::size_t(d);
        for (std::size_t a = 0; a < N; ++a) offset[a] += stride[a][i];
        if (++at[i] < size[i]) break;
        for (std::size_t a = 0; a < N; ++a) offset[a] -= stride[a][i] * size[i];
        at[i] = 0;
      }
      if (d < 0) return;
    }
  }

 private:
  bool joins(const std::array<const Array*, N>& arrays, int i, std::int64_t n) const {
    for (std::size_t a = 0; a < N; ++a) {
      if (stride[a][std::size_t(dim - 1)] != n * arrays[a]->strides()[i]) return false;
    }
    return true;
  }
};

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
