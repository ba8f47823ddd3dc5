// 16-bit floats. The reference rounds a float64 by searching for the nearest of all 65536 values,
// which shares nothing with the interpreter's arithmetic.
#include "kernels/test_support.h"

#include <algorithm>
#include <map>

using namespace cudasim::ptx;

namespace {

constexpr std::size_t kN = 3000;
using Bits = std::vector<std::uint16_t>;

// The value of 16 bits with `mantissa` mantissa bits.
double value_of(std::uint16_t bits, int mantissa) {
  const int exponent_bits = 15 - mantissa, bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = bits >> mantissa & ((1 << exponent_bits) - 1);
  const double fraction = std::ldexp(bits & ((1 << mantissa) - 1), -mantissa);
  const double sign = bits >> 15 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) return fraction == 0 ? sign * INFINITY : NAN;
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias);
  return sign * std::ldexp(1 + fraction, exponent - bias);
}

class Format {
 public:
  explicit Format(int mantissa) : mantissa_(mantissa) {
    for (std::uint32_t b = 0; b < 0x8000; ++b) {
      const double v = value_of(static_cast<std::uint16_t>(b), mantissa);
      if (std::isfinite(v)) positive_.push_back(v);
    }
  }
  double value(std::uint16_t bits) const { return value_of(bits, mantissa_); }
  // To nearest, ties to even: the values are sorted, their index is their bit pattern.
  double rounded(double x) const {
    const double size = std::fabs(x);
    if (std::isnan(x) || std::isinf(x) || size == 0) return x;
    const auto above = std::lower_bound(positive_.begin(), positive_.end(), size);
    const std::size_t i = above - positive_.begin();
    // behind the largest value stands the one that the format would have next
    const double next = i < positive_.size() ? *above : 2 * positive_.back() - positive_[i - 2];
    const double below = i == 0 ? next : positive_[i - 1];
    const double middle = (below + next) / 2;
    const bool up = size > middle || (size == middle && i % 2 == 0) || size == next;
    if (up && i == positive_.size()) return std::copysign(INFINITY, x);
    return std::copysign(up ? next : below, x);
  }
  std::vector<double> values(const Bits& bits) const {
    std::vector<double> out;
    for (auto b : bits) out.push_back(value(b));
    return out;
  }

 private:
  int mantissa_;
  std::vector<double> positive_;
};

const Format& half() {
  static const Format format(10);
  return format;
}
const Format& bfloat16() {
  static const Format format(7);
  return format;
}

Bits all_patterns() {
  Bits bits(65536);
  for (std::uint32_t b = 0; b < 65536; ++b) bits[b] = static_cast<std::uint16_t>(b);
  return bits;
}

// Patterns whose values are of moderate size: their products and sums are exact in float64.
Bits moderate(const Format& format, std::uint64_t seed) {
  Bits bits;
  for (float v : random_floats(40 * kN, seed, 0, 65536)) {
    const auto b = static_cast<std::uint16_t>(v);
    const double size = std::fabs(format.value(b));
    if (size > 1e-4 && size < 60 && bits.size() < kN) bits.push_back(b);
  }
  return bits;
}

// Floats where rounding matters: ties, their neighbours, subnormals, the edge to infinity.
std::vector<float> hard_floats(const Format& format) {
  std::vector<float> x = {0.f,     -0.f,     INFINITY, -INFINITY, NAN,
                          65504.f, 65519.9f, 65520.f,  3.4e38f,   1e-45f};
  for (std::uint16_t b = 1; b < 0x7f00; b += 97) {
    const double v = format.value(b), next = format.value(b + 1);
    if (!std::isfinite(next)) continue;
    const auto middle = static_cast<float>((v + next) / 2);
    for (float f :
         {middle, std::nextafter(middle, 0.f), std::nextafter(middle, INFINITY), -middle}) {
      x.push_back(f);
    }
  }
  return x;
}

template <class Arch>
void check_narrowing(const char* kernel, const Format& format) {
  PtxDevice device("half", Arch::name);
  const auto x = hard_floats(format);
  auto* y = device.empty<std::uint16_t>(x.size());
  RUNS_CLEANLY(device.launch(kernel, {2}, {256}, 0, device.upload(x), y, x.size()));
  std::vector<double> expected;
  for (float v : x) expected.push_back(format.rounded(v));
  SAME(format.values(device.download(y, x.size())), expected);
}

template <class Arch>
void check_widening(const char* kernel, const Format& format) {
  PtxDevice device("half", Arch::name);
  const Bits x = all_patterns();
  float* y = device.empty<float>(x.size());
  RUNS_CLEANLY(device.launch(kernel, {16}, {256}, 0, device.upload(x), y, x.size()));
  SAME(device.download(y, x.size()), format.values(x));
}

// y = fma(a, x, y), rounded once from a product and a sum that are exact in float64
template <class Arch>
void check_axpy(const char* kernel, const Format& format, std::size_t per_thread) {
  PtxDevice device("half", Arch::name);
  const Bits x = moderate(format, 1), y0 = moderate(format, 2);
  auto* y = device.upload(y0);
  RUNS_CLEANLY(device.launch(kernel, {2}, {128}, 0, 1.375f, device.upload(x), y, kN / per_thread));
  std::vector<double> expected;
  for (std::size_t i = 0; i < kN; ++i) {
    expected.push_back(format.rounded(1.375 * format.value(x[i]) + format.value(y0[i])));
  }
  SAME(format.values(device.download(y, kN)), expected);
}

template <class Arch>
void check_mix(const char* kernel, const Format& format) {
  PtxDevice device("half", Arch::name);
  const Bits x = moderate(format, 3);
  auto* y = device.empty<std::uint16_t>(kN);
  RUNS_CLEANLY(device.launch(kernel, {2}, {128}, 0, device.upload(x), y, kN));
  std::vector<double> expected;
  for (auto b : x) {
    const double v = format.value(b), square = format.rounded(v * v);
    expected.push_back(format.rounded(std::max(format.rounded(square - v), 0.0) * 0.5));
  }
  SAME(format.values(device.download(y, kN)), expected);
}

}  // namespace

TEST_CASE_TEMPLATE("float_to_half rounds to nearest even", Arch, Sm75, Sm80, Sm90) {
  check_narrowing<Arch>("float_to_half_kernel", half());
}
TEST_CASE_TEMPLATE("half_to_float is exact for all 65536 patterns", Arch, Sm75, Sm80, Sm90) {
  check_widening<Arch>("half_to_float_kernel", half());
}
TEST_CASE_TEMPLATE("float_to_bfloat16 rounds to nearest even", Arch, Sm75, Sm80, Sm90) {
  check_narrowing<Arch>("float_to_bfloat16_kernel", bfloat16());
}
TEST_CASE_TEMPLATE("bfloat16_to_float is exact for all 65536 patterns", Arch, Sm75, Sm80, Sm90) {
  check_widening<Arch>("bfloat16_to_float_kernel", bfloat16());
}
TEST_CASE_TEMPLATE("half_axpy rounds once", Arch, Sm75, Sm80, Sm90) {
  check_axpy<Arch>("half_axpy_kernel", half(), 1);
}
TEST_CASE_TEMPLATE("half2_axpy computes two at a time", Arch, Sm75, Sm80, Sm90) {
  check_axpy<Arch>("half2_axpy_kernel", half(), 2);
}
// compute_75 has no bfloat16 arithmetic: it rounds to float in between
TEST_CASE_TEMPLATE("bfloat16_axpy rounds once", Arch, Sm80, Sm90) {
  check_axpy<Arch>("bfloat16_axpy_kernel", bfloat16(), 1);
}
TEST_CASE_TEMPLATE("half_mix rounds after every operation", Arch, Sm75, Sm80, Sm90) {
  check_mix<Arch>("half_mix_kernel", half());
}
TEST_CASE_TEMPLATE("bfloat16_mix rounds after every operation", Arch, Sm75, Sm80, Sm90) {
  check_mix<Arch>("bfloat16_mix_kernel", bfloat16());
}
