// Integer arithmetic and bit operations. T is the type in the opcode; .b32 counts as unsigned.
#include "ptx/register_access.h"

#include <bit>
#include <limits>

namespace cudasim::ptx {
namespace {

template <class T>
using Unsigned = std::make_unsigned_t<T>;
template <class T>
constexpr unsigned kBits = sizeof(T) * 8;

template <class T>
struct Widen;
template <>
struct Widen<std::uint16_t> {
  using type = std::uint32_t;
};
template <>
struct Widen<std::int16_t> {
  using type = std::int32_t;
};
template <>
struct Widen<std::uint32_t> {
  using type = std::uint64_t;
};
template <>
struct Widen<std::int32_t> {
  using type = std::int64_t;
};
template <>
struct Widen<std::uint64_t> {
  using type = unsigned __int128;
};
template <>
struct Widen<std::int64_t> {
  using type = __int128;
};
template <class T>
using Wide = typename Widen<T>::type;

// Wrapping, whatever the sign: computed in an unsigned type of at least 32 bits.
template <class T>
T wrap(auto x) {
  return static_cast<T>(x);
}
template <class T>
std::uint64_t bits(T x) {
  return static_cast<std::uint64_t>(x);
}

template <class T>
struct Add {
  T operator()(T a, T b) const { return wrap<T>(bits(a) + bits(b)); }
};
template <class T>
struct Sub {
  T operator()(T a, T b) const { return wrap<T>(bits(a) - bits(b)); }
};
template <class T>
struct MulLo {
  T operator()(T a, T b) const { return wrap<T>(bits(a) * bits(b)); }
};
template <class T>
struct MulHi {
  T operator()(T a, T b) const { return wrap<T>((Wide<T>(a) * Wide<T>(b)) >> kBits<T>); }
};
template <class T>
struct MulWide {
  Wide<T> operator()(T a, T b) const { return Wide<T>(a) * Wide<T>(b); }
};
template <class T>
struct MadLo {
  T operator()(T a, T b, T c) const { return wrap<T>(bits(a) * bits(b) + bits(c)); }
};
template <class T>
struct MadHi {
  T operator()(T a, T b, T c) const { return wrap<T>(bits(MulHi<T>{}(a, b)) + bits(c)); }
};
template <class T>
struct MadWide {
  Wide<T> operator()(T a, T b, Wide<T> c) const {
    return wrap<Wide<T>>(bits(Wide<T>(a) * Wide<T>(b)) + bits(c));
  }
};
// Division by zero gives all ones on the hardware, and so does the quotient of the smallest by -1.
template <class T>
struct Div {
  T operator()(T a, T b) const {
    if (b == 0) return wrap<T>(~std::uint64_t{0});
    if (std::is_signed_v<T> && b == T(-1)) return wrap<T>(-bits(a));
    return T(a / b);
  }
};
template <class T>
struct Rem {
  T operator()(T a, T b) const {
    if (b == 0) return a;
    if (std::is_signed_v<T> && b == T(-1)) return 0;
    return T(a % b);
  }
};
template <class T>
struct Min {
  T operator()(T a, T b) const { return a < b ? a : b; }
};
template <class T>
struct Max {
  T operator()(T a, T b) const { return a < b ? b : a; }
};
template <class T>
struct Neg {
  T operator()(T a) const { return wrap<T>(-bits(a)); }
};
template <class T>
struct Abs {
  T operator()(T a) const { return a < 0 ? wrap<T>(-bits(a)) : a; }
};

template <class T>
struct And {
  T operator()(T a, T b) const { return a & b; }
};
template <class T>
struct Or {
  T operator()(T a, T b) const { return a | b; }
};
template <class T>
struct Xor {
  T operator()(T a, T b) const { return a ^ b; }
};
template <class T>
struct Not {
  T operator()(T a) const { return T(~a); }
};
template <class T>
struct Shl {
  T operator()(T a, std::uint32_t n) const { return n >= kBits<T> ? T(0) : wrap<T>(bits(a) << n); }
};
template <class T>
struct Shr {
  T operator()(T a, std::uint32_t n) const {
    if (n >= kBits<T>) return a < 0 ? T(-1) : T(0);
    return T(a >> n);
  }
};
template <class T>
struct Popc {
  std::uint32_t operator()(T a) const { return std::uint32_t(std::popcount(Unsigned<T>(a))); }
};
template <class T>
struct Clz {
  std::uint32_t operator()(T a) const { return std::uint32_t(std::countl_zero(Unsigned<T>(a))); }
};
template <class T>
struct Brev {
  T operator()(T a) const {
    std::uint64_t in = bits(a), out = 0;
    for (unsigned k = 0; k < kBits<T>; ++k, in >>= 1) out = out << 1 | (in & 1);
    return wrap<T>(out);
  }
};
// Extracts `count` bits from position `at` on; signed types repeat the top bit of the field.
template <class T>
struct Bfe {
  T operator()(T a, std::uint32_t at, std::uint32_t count) const {
    at &= 0xff;
    count &= 0xff;
    if (count == 0) return 0;
    const unsigned top = std::min(at + count - 1, kBits<T> - 1);
    const bool sign = std::is_signed_v<T> && (bits(a) >> top & 1);
    std::uint64_t out = 0;
    for (unsigned k = 0; k < kBits<T>; ++k) {
      const bool bit = k < count && at + k < kBits<T> ? bits(a) >> (at + k) & 1 : sign;
      out |= std::uint64_t{bit} << k;
    }
    return wrap<T>(out);
  }
};
// Puts the low `count` bits of a into b at position `at`.
template <class T>
struct Bfi {
  T operator()(T a, T b, std::uint32_t at, std::uint32_t count) const {
    at &= 0xff;
    count &= 0xff;
    std::uint64_t out = bits(b);
    for (unsigned k = 0; k < count && at + k < kBits<T>; ++k) {
      const std::uint64_t bit = std::uint64_t{1} << (at + k);
      out = bits(a) >> k & 1 ? out | bit : out & ~bit;
    }
    return wrap<T>(out);
  }
};
// Picks four of the eight bytes of {b, a}; a selector's top bit asks for the byte's sign instead.
struct Prmt {
  std::uint32_t operator()(std::uint32_t a, std::uint32_t b, std::uint32_t choice) const {
    const std::uint64_t both = std::uint64_t{b} << 32 | a;
    std::uint32_t out = 0;
    for (int k = 0; k < 4; ++k) {
      const std::uint32_t selector = choice >> (4 * k) & 0xf;
      auto byte = std::uint32_t(both >> (8 * (selector & 7)) & 0xff);
      if (selector & 8) byte = byte & 0x80 ? 0xff : 0;
      out |= byte << (8 * k);
    }
    return out;
  }
};
// The truth table's bit number abc, for every bit.
struct Lop3 {
  std::uint32_t operator()(std::uint32_t a, std::uint32_t b, std::uint32_t c,
                           std::uint32_t table) const {
    std::uint32_t out = 0;
    for (std::uint32_t abc = 0; abc < 8; ++abc) {
      if (!(table >> abc & 1)) continue;
      out |= (abc & 4 ? a : ~a) & (abc & 2 ? b : ~b) & (abc & 1 ? c : ~c);
    }
    return out;
  }
};
// Shifts {b, a} and keeps one word; the distance wraps at 32 or is clamped there.
template <bool left, bool clamp>
struct FunnelShift {
  std::uint32_t operator()(std::uint32_t a, std::uint32_t b, std::uint32_t n) const {
    n = clamp ? std::min(n, 32u) : n & 31;
    const std::uint64_t both = std::uint64_t{b} << 32 | a;
    return left ? std::uint32_t(both << n >> 32) : std::uint32_t(both >> n);
  }
};

template <template <class> class Op>
Handler of_type(std::string_view type) {
  if (type == "u32" || type == "b32") return instruction<Op<std::uint32_t>>();
  if (type == "s32") return instruction<Op<std::int32_t>>();
  if (type == "u64" || type == "b64") return instruction<Op<std::uint64_t>>();
  if (type == "s64") return instruction<Op<std::int64_t>>();
  if (type == "u16" || type == "b16") return instruction<Op<std::uint16_t>>();
  if (type == "s16") return instruction<Op<std::int16_t>>();
  return {};
}

// mul.wide and mad.wide: 64 bits are not widened further.
template <template <class> class Op>
Handler wide_of_type(std::string_view type) {
  if (type == "u32") return instruction<Op<std::uint32_t>>();
  if (type == "s32") return instruction<Op<std::int32_t>>();
  if (type == "u16") return instruction<Op<std::uint16_t>>();
  if (type == "s16") return instruction<Op<std::int16_t>>();
  return {};
}

Handler find_arithmetic(const Opcode& op) {
  const std::string_view type = op.type();
  if (op.name == "mul" && op.has("wide")) return wide_of_type<MulWide>(type);
  if (op.name == "mad" && op.has("wide")) return wide_of_type<MadWide>(type);
  if (op.name == "mul") return op.has("hi") ? of_type<MulHi>(type) : of_type<MulLo>(type);
  if (op.name == "mad") return op.has("hi") ? of_type<MadHi>(type) : of_type<MadLo>(type);
  if (!op.only({})) return {};
  if (op.name == "add") return of_type<Add>(type);
  if (op.name == "sub") return of_type<Sub>(type);
  if (op.name == "div") return of_type<Div>(type);
  if (op.name == "rem") return of_type<Rem>(type);
  if (op.name == "min") return of_type<Min>(type);
  if (op.name == "max") return of_type<Max>(type);
  if (op.name == "neg") return of_type<Neg>(type);
  if (op.name == "abs") return of_type<Abs>(type);
  return {};
}

Handler find_bits(const Opcode& op) {
  const std::string_view type = op.type();
  if (op.name == "shf") {
    const bool clamp = op.has("clamp");
    if (op.has("l"))
      return clamp ? instruction<FunnelShift<true, true>>()
                   : instruction<FunnelShift<true, false>>();
    return clamp ? instruction<FunnelShift<false, true>>()
                 : instruction<FunnelShift<false, false>>();
  }
  if (!op.only({})) return {};
  if (op.name == "and") return of_type<And>(type);
  if (op.name == "or") return of_type<Or>(type);
  if (op.name == "xor") return of_type<Xor>(type);
  if (op.name == "not") return of_type<Not>(type);
  if (op.name == "shl") return of_type<Shl>(type);
  if (op.name == "shr") return of_type<Shr>(type);
  if (op.name == "popc") return of_type<Popc>(type);
  if (op.name == "clz") return of_type<Clz>(type);
  if (op.name == "brev") return of_type<Brev>(type);
  if (op.name == "bfe") return of_type<Bfe>(type);
  if (op.name == "bfi") return of_type<Bfi>(type);
  if (op.name == "prmt") return instruction<Prmt>();
  if (op.name == "lop3") return instruction<Lop3>();
  return {};
}

}  // namespace

Handler find_integer(const Opcode& op) {
  if (!op.only({"lo", "hi", "wide", "l", "r", "wrap", "clamp"})) return {};
  if (Handler handler = find_arithmetic(op)) return handler;
  return find_bits(op);
}

}  // namespace cudasim::ptx
