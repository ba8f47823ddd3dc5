// Element types and the 16-bit floats: core/dtype.h, core/half.h.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "tests/support/check.h"

#include <tandem/core/dtype.h>

using namespace tandem;
using namespace tandem::test;

namespace {

// The value of a pattern by the definition of the format: (-1)^s (1 + m / 2^M) 2^(e - bias).
double value_of(unsigned bits, int mantissa_bits, int bias) {
  const int top = (1 << (15 - mantissa_bits)) - 1;
  const int exponent = int(bits >> mantissa_bits) & top;
  const double m = std::ldexp(double(bits & ((1u << mantissa_bits) - 1)), -mantissa_bits);
  const double sign = bits >> 15 ? -1 : 1;
  if (exponent == top) return m != 0 ? std::nan("") : sign * HUGE_VAL;
  if (exponent == 0) return sign * std::ldexp(m, 1 - bias);
  return sign * std::ldexp(1 + m, exponent - bias);
}

template <class H>
struct Format;
template <>
struct Format<Half> {
  static constexpr int mantissa = 10, bias = 15;
  static constexpr unsigned infinity = 0x7c00;
  static constexpr DType dtype = float16;
};
template <>
struct Format<BFloat16> {
  static constexpr int mantissa = 7, bias = 127;
  static constexpr unsigned infinity = 0x7f80;
  static constexpr DType dtype = bfloat16;
};

template <class H>
H from_bits(unsigned bits) {
  H h;
  h.bits = std::uint16_t(bits);
  return h;
}

bool same(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
}

}  // namespace

TEST_CASE_TEMPLATE("half: all 65536 patterns have the value of their definition", H, Half,
                   BFloat16) {
  int wrong = 0;
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    const double expected = value_of(bits, Format<H>::mantissa, Format<H>::bias);
    wrong += !same(double(float(from_bits<H>(bits))), expected);
  }
  CHECK(wrong == 0);
}

TEST_CASE_TEMPLATE("half: all patterns survive float32 and back", H, Half, BFloat16) {
  int wrong = 0;
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    const float x = float(from_bits<H>(bits));
    const unsigned back = H(x).bits;
    const bool is_nan = std::isnan(x);
    wrong += is_nan ? !std::isnan(float(from_bits<H>(back))) || (back >> 15) != (bits >> 15)
                    : back != bits;
  }
  CHECK(wrong == 0);
}

TEST_CASE_TEMPLATE("half: between all neighbours, ties go to the even one", H, Half, BFloat16) {
  int wrong = 0;
  for (unsigned low = 0; low + 1 < Format<H>::infinity; ++low) {
    const double a = value_of(low, Format<H>::mantissa, Format<H>::bias);
    const double b = value_of(low + 1, Format<H>::mantissa, Format<H>::bias);
    const float middle = float((a + b) / 2);  // exact: one bit more than the format has
    const unsigned even = low % 2 == 0 ? low : low + 1;
    for (const float sign : {1.0f, -1.0f}) {
      const unsigned s = sign < 0 ? 0x8000 : 0;
      wrong += H(sign * middle).bits != (even | s);
      wrong += H(sign * std::nextafter(middle, 0.0f)).bits != (low | s);
      wrong += H(sign * std::nextafter(middle, HUGE_VALF)).bits != ((low + 1) | s);
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("half: float16 overflows at 65520, bfloat16 where the next exponent would begin") {
  CHECK(float(Half(65519.996f)) == 65504.0f);
  CHECK(Half(65520.0f).bits == 0x7c00);
  CHECK(Half(-65520.0f).bits == 0xfc00);
  CHECK(Half(std::numeric_limits<float>::max()).bits == 0x7c00);
  CHECK(Half(HUGE_VALF).bits == 0x7c00);
  CHECK(BFloat16(std::bit_cast<float>(0x7f7f7fffu)).bits == 0x7f7f);
  CHECK(BFloat16(std::bit_cast<float>(0x7f7f8000u)).bits == 0x7f80);
  CHECK(BFloat16(-std::numeric_limits<float>::max()).bits == 0xff80);
}

TEST_CASE_TEMPLATE("half: a NaN stays one, whatever its payload", H, Half, BFloat16) {
  for (const std::uint32_t bits : {0x7f800001u, 0x7fc00000u, 0x7fffffffu, 0xff800001u, 0xffffffffu,
                                   0x7f801000u, 0x7f80ffffu}) {
    CHECK(std::isnan(float(H(std::bit_cast<float>(bits)))));
  }
}

TEST_CASE_TEMPLATE("half: a million float32 patterns round as exact arithmetic does", H, Half,
                   BFloat16) {
  int wrong = 0;
  for (std::uint64_t i = 0; i < 1'000'000; ++i) {
    const auto bits = std::uint32_t(hash_uniform(11, i) * 0x1p32);
    const float x = std::bit_cast<float>(bits);
    wrong += !same(double(float(H(x))), stored_as(Format<H>::dtype, double(x)));
  }
  CHECK(wrong == 0);
}

TEST_CASE("dtype: names, sizes and kinds") {
  const DType all[] = {float32, float64, float16, bfloat16, int64, int32, uint8, boolean};
  const char* names[] = {"float32", "float64", "float16", "bfloat16",
                         "int64",   "int32",   "uint8",   "bool"};
  const std::size_t sizes[] = {4, 8, 2, 2, 8, 4, 1, 1};
  for (int i = 0; i < 8; ++i) {
    CHECK(str(all[i]) == names[i]);
    CHECK(size_of(all[i]) == sizes[i]);
    CHECK(is_floating(all[i]) == (i < 4));
    CHECK(is_storage_only(all[i]) == (i == 5 || i == 6));
  }
}

TEST_CASE("dtype: two types meet in PyTorch's type, in both orders") {
  const DType order[] = {boolean, uint8, int32, int64, float16, bfloat16, float32, float64};
  // torch.promote_types of PyTorch 1.13
  const DType expected[8][8] = {
      {boolean, uint8, int32, int64, float16, bfloat16, float32, float64},
      {uint8, uint8, int32, int64, float16, bfloat16, float32, float64},
      {int32, int32, int32, int64, float16, bfloat16, float32, float64},
      {int64, int64, int64, int64, float16, bfloat16, float32, float64},
      {float16, float16, float16, float16, float16, float32, float32, float64},
      {bfloat16, bfloat16, bfloat16, bfloat16, float32, bfloat16, float32, float64},
      {float32, float32, float32, float32, float32, float32, float32, float64},
      {float64, float64, float64, float64, float64, float64, float64, float64}};
  for (int i = 0; i < 8; ++i) {
    for (int j = 0; j < 8; ++j) CHECK(promote(order[i], order[j]) == expected[i][j]);
  }
}
