// The two 16-bit floats as storage: bits and conversions. Arithmetic happens in float32.
//
// Conversions round to nearest even; overflow gives infinity, NaN stays NaN. All backends agree on
// every bit, but for a NaN's payload: a GPU has instructions for float16, everything else is
// written with integer operations.
#pragma once

#include <bit>
#include <cstdint>

#if defined(__CUDACC__)
#define TANDEM_HD __host__ __device__
#else
#define TANDEM_HD
#endif

namespace tandem {

namespace detail {

TANDEM_HD inline std::uint32_t float_bits(float x) {
#if defined(__CUDA_ARCH__)
  return __float_as_uint(x);
#else
  return std::bit_cast<std::uint32_t>(x);
#endif
}

TANDEM_HD inline float bits_float(std::uint32_t u) {
#if defined(__CUDA_ARCH__)
  return __uint_as_float(u);
#else
  return std::bit_cast<float>(u);
#endif
}

}  // namespace detail

/// IEEE binary16: 5 exponent bits, 10 mantissa bits, largest value 65504.
struct Half {
  std::uint16_t bits = 0;

  Half() = default;
  TANDEM_HD explicit Half(float x) {
#if defined(__CUDA_ARCH__)
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
#else
    std::uint32_t u = detail::float_bits(x);
    const std::uint32_t sign = (u >> 16) & 0x8000u;
    u &= 0x7fffffffu;
    if (u > 0x7f800000u) {  // NaN: keep it quiet
      bits = std::uint16_t(sign | 0x7e00u | ((u >> 13) & 0x3ffu));
    } else if (u >= 0x477ff000u) {  // rounds to 65536 or more
      bits = std::uint16_t(sign | 0x7c00u);
    } else if (u >= 0x38800000u) {  // normal: rebias the exponent, round the mantissa
      const std::uint32_t rounded = u + 0xfffu + ((u >> 13) & 1u) - (112u << 23);
      bits = std::uint16_t(sign | (rounded >> 13));
    } else {  // subnormal: adding 0.5 lets the hardware round at the right bit
      const float shifted = detail::bits_float(u) + 0.5f;
      bits = std::uint16_t(sign | (detail::float_bits(shifted) - 0x3f000000u));
    }
#endif
  }
  TANDEM_HD explicit operator float() const {
#if defined(__CUDA_ARCH__)
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
    return x;
#else
    const std::uint32_t sign = std::uint32_t(bits & 0x8000u) << 16;
    const std::uint32_t exponent = (bits >> 10) & 0x1fu;
    const std::uint32_t mantissa = bits & 0x3ffu;
    if (exponent == 0x1fu) return detail::bits_float(sign | 0x7f800000u | (mantissa << 13));
    if (exponent != 0)
      return detail::bits_float(sign | ((exponent + 112u) << 23) | (mantissa << 13));
    const float magnitude = float(mantissa) * 5.9604644775390625e-8f;  // 2^-24
    return detail::bits_float(sign | detail::float_bits(magnitude));
#endif
  }
};

/// bfloat16: the upper half of a float32 (8 exponent bits, 7 mantissa bits).
struct BFloat16 {
  std::uint16_t bits = 0;

  BFloat16() = default;
  TANDEM_HD explicit BFloat16(float x) {
    const std::uint32_t u = detail::float_bits(x);
    if ((u & 0x7fffffffu) > 0x7f800000u) {
      bits = std::uint16_t((u >> 16) | 0x40u);
    } else {
      bits = std::uint16_t((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
    }
  }
  TANDEM_HD explicit operator float() const {
    return detail::bits_float(std::uint32_t(bits) << 16);
  }
};

}  // namespace tandem
