// cvt: between integers, float32, float16 and bfloat16, with every rounding and saturation.
#include "ptx/register_access.h"

#include <cmath>
#include <limits>

namespace cudasim::ptx {
namespace {

template <class T>
constexpr bool kSmall = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;

// A real number as a T, rounded as the instruction says.
template <class T>
T narrowed(double x, const Instruction& i) {
  if (i.saturate) x = x > 0 ? std::fmin(x, 1.0) : 0.0;
  if constexpr (kSmall<T>)
    return T::load(T::round(x, i.rounding));
  else
    return to_float(x, i.rounding);
}

// A real number as an integer: NaN is 0, too large is the nearest one that exists.
template <class T>
T clamped(double x, Rounding rounding) {
  if (std::isnan(x)) return 0;
  x = to_integral(x, rounding);
  const double end = std::ldexp(1.0, std::numeric_limits<T>::digits);  // one more than the largest
  if (x >= end) return std::numeric_limits<T>::max();
  if (x <= (std::is_signed_v<T> ? -end : 0.0)) return std::numeric_limits<T>::min();
  return static_cast<T>(x);
}

// 64-bit integers do not fit a double: rounded to odd, they may be rounded again.
template <class T>
double odd_double(T x) {
  const auto low = static_cast<double>(x & T(0xffffffff));
  const auto high = static_cast<double>(x >> 16 >> 16) * 0x1p32;
  return odd_sum(high, low);
}

template <class To, class From>
Next convert(Block&, Thread& thread, const Instruction& i) {
  auto x = get<From>(thread, i.operand[1]);
  To y;
  if constexpr (std::is_integral_v<To> && std::is_integral_v<From>) {
    y = static_cast<To>(x);
    if (i.saturate) {
      using Limits = std::numeric_limits<To>;
      y = std::cmp_less(x, Limits::min())      ? Limits::min()
          : std::cmp_greater(x, Limits::max()) ? Limits::max()
                                               : y;
    }
  } else if constexpr (std::is_integral_v<To>) {
    if constexpr (std::is_same_v<From, float>) {
      if (i.flush) x = Float32<true, false>::flushed(x);
    }
    y = clamped<To>(double(x), i.rounding);
  } else if constexpr (std::is_integral_v<From>) {
    y = narrowed<To>(sizeof(From) == 8 ? odd_double(x) : double(x), i);
  } else {
    y = narrowed<To>(double(x), i);
    if constexpr (std::is_same_v<To, float>) {
      if (i.flush) y = Float32<true, false>::flushed(y);
    }
  }
  set(thread, i.operand[0], y);
  return next(i);
}

// cvt.rni.f32.f32 and its like: a float that is an integer.
Next integral(Block&, Thread& thread, const Instruction& i) {
  auto x = get<float>(thread, i.operand[1]);
  if (i.flush) x = Float32<true, false>::flushed(x);
  auto y = static_cast<float>(to_integral(x, i.rounding));
  if (i.saturate) y = y > 0.f ? std::fmin(y, 1.f) : 0.f;
  set(thread, i.operand[0], y);
  return next(i);
}

// cvt.rn.f16x2.f32 d, high, low
template <class T>
Next convert_pair(Block&, Thread& thread, const Instruction& i) {
  const auto high = narrowed<T>(get<float>(thread, i.operand[1]), i);
  const auto low = narrowed<T>(get<float>(thread, i.operand[2]), i);
  set(thread, i.operand[0], Pair<T>{low, high});
  return next(i);
}

template <class To>
Handler from_type(std::string_view from) {
  if (from == "u8") return {&convert<To, std::uint8_t>};
  if (from == "s8") return {&convert<To, std::int8_t>};
  if (from == "u16") return {&convert<To, std::uint16_t>};
  if (from == "s16") return {&convert<To, std::int16_t>};
  if (from == "u32") return {&convert<To, std::uint32_t>};
  if (from == "s32") return {&convert<To, std::int32_t>};
  if (from == "u64") return {&convert<To, std::uint64_t>};
  if (from == "s64") return {&convert<To, std::int64_t>};
  if (from == "f32") return {&convert<To, float>};
  if (from == "f16") return {&convert<To, Half>};
  if (from == "bf16") return {&convert<To, BFloat16>};
  return {};
}

}  // namespace

Handler find_conversion(const Opcode& op) {
  if (op.name != "cvt" ||
      !op.only({"rn", "rz", "rm", "rp", "rni", "rzi", "rmi", "rpi", "ftz", "sat"}))
    return {};
  const std::string_view to = op.type_before(), from = op.type();
  const bool to_integer = op.has("rni") || op.has("rzi") || op.has("rmi") || op.has("rpi");
  if (to == "f32" && from == "f32" && to_integer) return {&integral};
  if (to == "f16x2" && from == "f32") return {&convert_pair<Half>};
  if (to == "bf16x2" && from == "f32") return {&convert_pair<BFloat16>};
  if (to == "u8") return from_type<std::uint8_t>(from);
  if (to == "s8") return from_type<std::int8_t>(from);
  if (to == "u16") return from_type<std::uint16_t>(from);
  if (to == "s16") return from_type<std::int16_t>(from);
  if (to == "u32") return from_type<std::uint32_t>(from);
  if (to == "s32") return from_type<std::int32_t>(from);
  if (to == "u64") return from_type<std::uint64_t>(from);
  if (to == "s64") return from_type<std::int64_t>(from);
  if (to == "f32") return from_type<float>(from);
  if (to == "f16") return from_type<Half>(from);
  if (to == "bf16") return from_type<BFloat16>(from);
  return {};
}

}  // namespace cudasim::ptx
