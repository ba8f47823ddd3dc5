// float16 and bfloat16 as PTX computes with them, and correct rounding to narrow types.
//
// All arithmetic goes through double. One rounding from the exact result is what IEEE asks for;
// where double cannot hold the exact result, rounding to odd keeps the second rounding harmless
// (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008).
#pragma once

#include "ptx/program.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace cudasim::ptx {

// p + c, rounded to odd: exact, or one of the two neighbours of the exact sum, the one with odd
// bits.
inline double odd_sum(double p, double c) {
  const double sum = p + c;
  if (!std::isfinite(sum)) return sum;
  const double part = sum - p;
  const double error = (p - (sum - part)) + (c - part);  // exact: Knuth's two-sum
  auto bits = std::bit_cast<std::uint64_t>(sum);
  if (error == 0 || bits & 1) return sum;
  bits += (error > 0) == (sum > 0) ? 1 : -1;
  return std::bit_cast<double>(bits);
}

// x as a float, rounded in the given direction.
inline float to_float(double x, Rounding rounding) {
  const auto nearest = static_cast<float>(x);
  const float infinity = std::numeric_limits<float>::infinity();
  switch (rounding) {
    case Rounding::Nearest:
      return nearest;
    case Rounding::Down:
      return nearest > x ? std::nextafter(nearest, -infinity) : nearest;
    case Rounding::Up:
      return nearest < x ? std::nextafter(nearest, infinity) : nearest;
    case Rounding::Zero:
      return std::fabs(nearest) > std::fabs(x) ? std::nextafter(nearest, 0.f) : nearest;
  }
  return nearest;
}

// x rounded to an integer in the given direction.
inline double to_integral(double x, Rounding rounding) {
  switch (rounding) {
    case Rounding::Nearest:
      return std::nearbyint(x);
    case Rounding::Zero:
      return std::trunc(x);
    case Rounding::Down:
      return std::floor(x);
    case Rounding::Up:
      return std::ceil(x);
  }
  return x;
}

// A 16-bit float with kMantissa explicit mantissa bits; the rest but the sign is the exponent.
template <int kMantissa>
struct SmallFloat {
  static constexpr int kExponentBits = 15 - kMantissa;
  static constexpr int kBias = (1 << (kExponentBits - 1)) - 1;
  static constexpr std::uint16_t kInfinity = ((1 << kExponentBits) - 1) << kMantissa;
  static constexpr std::uint16_t kNaN = 0x7fff;  // what the hardware produces

  std::uint16_t bits = 0;

  SmallFloat() = default;
  SmallFloat(double x) : bits(round(x, Rounding::Nearest)) {}  // NOLINT: meant to be implicit
  static SmallFloat load(std::uint64_t bits) {
    SmallFloat v;
    v.bits = static_cast<std::uint16_t>(bits);
    return v;
  }
  static std::uint64_t store(SmallFloat v) { return v.bits; }

  operator double() const {
    const int exponent = (bits >> kMantissa) & ((1 << kExponentBits) - 1);
    const int mantissa = bits & ((1 << kMantissa) - 1);
    double value;
    if (exponent == (1 << kExponentBits) - 1) {
      value = mantissa ? std::numeric_limits<double>::quiet_NaN()
                       : std::numeric_limits<double>::infinity();
    } else if (exponent == 0) {
      value = std::ldexp(mantissa, 1 - kBias - kMantissa);
    } else {
      value = std::ldexp(mantissa + (1 << kMantissa), exponent - kBias - kMantissa);
    }
    return bits & 0x8000 ? -value : value;
  }

  // The bits of x, rounded: the quantum is the distance of neighbours around x.
  static std::uint16_t round(double x, Rounding rounding) {
    if (std::isnan(x)) return kNaN;
    const std::uint16_t sign = std::signbit(x) ? 0x8000 : 0;
    const double size = std::fabs(x);
    if (sign && rounding == Rounding::Down)
      rounding = Rounding::Up;
    else if (sign && rounding == Rounding::Up)
      rounding = Rounding::Down;
    if (size == 0 || std::isinf(size)) return sign | (size == 0 ? 0 : kInfinity);
    const int exponent = std::max(std::ilogb(size), 1 - kBias);
    const double steps = to_integral(std::ldexp(size, kMantissa - exponent), rounding);
    // A carry out of the mantissa moves into the exponent, where it belongs.
    const auto number = static_cast<std::uint64_t>(exponent + kBias - 1) << kMantissa;
    const std::uint64_t encoded = number + static_cast<std::uint64_t>(steps);
    if (encoded < kInfinity) return sign | static_cast<std::uint16_t>(encoded);
    const bool to_infinity = rounding == Rounding::Nearest || rounding == Rounding::Up;
    return sign | (to_infinity ? kInfinity : kInfinity - 1);
  }
};

using Half = SmallFloat<10>;
using BFloat16 = SmallFloat<7>;

// Two of them in one 32-bit register.
template <class T>
struct Pair {
  T low, high;
  static Pair load(std::uint64_t bits) { return {T::load(bits), T::load(bits >> 16)}; }
  static std::uint64_t store(Pair v) { return T::store(v.low) | T::store(v.high) << 16; }
};

}  // namespace cudasim::ptx
