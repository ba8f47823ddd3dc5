// convert<To>(x): what a cast does to one element, the same in every backend.
//
// No Eigen and no CUDA header here or in anything this file includes.
#pragma once

#include <limits>
#include <type_traits>

#include <tandem/core/half.h>

namespace tandem {

template <class T>
inline constexpr bool is_half = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;

namespace detail {
// Variables: device code may read them, but not call what computes them.
template <class T>
inline constexpr T most = std::numeric_limits<T>::max();
template <class T>
inline constexpr T least = std::numeric_limits<T>::min();
}  // namespace detail

/// Value-preserving where possible; floats to integers truncate and saturate, NaN gives 0.
template <class To, class From>
TANDEM_HD To convert(From x) {
  if constexpr (std::is_same_v<To, From>) {
    return x;
  } else if constexpr (is_half<From>) {
    return convert<To>(float(x));
  } else if constexpr (is_half<To>) {
    return To(float(x));
  } else if constexpr (std::is_same_v<To, bool>) {
    return x != From(0);
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    // The limits as powers of two: exact in every floating type.
    constexpr From above = From(2) * From(detail::most<To> / 2 + 1);
    if (!(x == x)) return To(0);
    if (x >= above) return detail::most<To>;
    if (x <= From(detail::least<To>)) return detail::least<To>;
    return To(x);
  } else {
    return To(x);
  }
}

}  // namespace tandem
