// Packet: as many numbers as one instruction takes, with the functions that functors.h calls.
//
// A rule marked `packet` is a template; on Packet<float> it becomes AVX2 (or what the machine has)
// through Eigen's packet functions. Every element takes the same instructions wherever it lies, so
// its bits depend on its value only: a replica that gets rows 7 to 12 computes what one device
// would. Where Eigen differs from the C library in kind (Inf, NaN, 0), it is put right here.
// Private to core/cpu.
#pragma once

#define EIGEN_DONT_PARALLELIZE
#include <Eigen/Core>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <unsupported/Eigen/SpecialFunctions>

namespace tandem::host {

template <class C>
struct Packet {
  using Scalar = C;
  using Native = typename Eigen::internal::packet_traits<C>::type;
  using Traits = Eigen::internal::packet_traits<C>;
  static constexpr int size = Eigen::internal::unpacket_traits<Native>::size;

  Native v;

  Packet() = default;
  Packet(C x) : v(Eigen::internal::pset1<Native>(x)) {}  // a number meets a packet: T(1) - y
  static Packet of(const Native& v) {
    Packet p;
    p.v = v;
    return p;
  }
  static Packet load(const C* from) { return of(Eigen::internal::ploadu<Native>(from)); }
  /// `n` numbers and zeros. REQUIRES: n <= size.
  static Packet load(const C* from, std::int64_t n) {
    C all[std::size_t(size)]{};
    std::copy_n(from, n, all);
    return load(all);
  }
  void store(C* to) const { Eigen::internal::pstoreu(to, v); }
  void store(C* to, std::int64_t n) const {
    C all[std::size_t(size)];
    store(all);
    std::copy_n(all, n, to);
  }

  friend Packet operator+(Packet a, Packet b) { return of(Eigen::internal::padd(a.v, b.v)); }
  friend Packet operator-(Packet a, Packet b) { return of(Eigen::internal::psub(a.v, b.v)); }
  friend Packet operator*(Packet a, Packet b) { return of(Eigen::internal::pmul(a.v, b.v)); }
  friend Packet operator/(Packet a, Packet b) { return of(Eigen::internal::pdiv(a.v, b.v)); }
  /// a b + c, rounded once where the machine can.
  friend Packet fma(Packet a, Packet b, Packet c) {
    return of(Eigen::internal::pmadd(a.v, b.v, c.v));
  }
  friend Packet operator-(Packet a) { return of(Eigen::internal::pnegate(a.v)); }

  /// Where the first is less than (unlike) the second: a, else b. Nothing is less than a NaN.
  friend Packet where_less(Packet x, Packet y, Packet a, Packet b) {
    return of(Eigen::internal::pselect(Eigen::internal::pcmp_lt(x.v, y.v), a.v, b.v));
  }
  friend Packet where_equal(Packet x, Packet y, Packet a, Packet b) {
    return of(Eigen::internal::pselect(Eigen::internal::pcmp_eq(x.v, y.v), a.v, b.v));
  }

  // Eigen's stops at the smallest normal number, but a masked score (-inf) has to give exactly 0.
  friend Packet exp(Packet x) {
    static const C lowest = std::log(std::numeric_limits<C>::min());
    const Packet y = of(Eigen::internal::pexp(x.v));
    return where_less(x, lowest, C(0), where_equal(x, x, y, x));
  }
  // Eigen's takes subnormal numbers for the smallest normal one; they are scaled up first.
  friend Packet log(Packet x) {
    const C ln2 = C(0.69314718055994530942), digits = C(std::numeric_limits<C>::digits);
    const C scale = C(std::int64_t(1) << std::numeric_limits<C>::digits);
    const Packet tiny = std::numeric_limits<C>::min();
    const Packet y = of(Eigen::internal::plog(where_less(x, tiny, x * scale, x).v));
    return where_less(x, tiny, y - digits * ln2, y);
  }
  friend Packet tanh(Packet x) {
    if constexpr (Traits::HasTanh) {
      return where_equal(x, x, of(Eigen::internal::ptanh(x.v)), x);
    } else {
      return each(x, [](C c) { return std::tanh(c); });
    }
  }
  friend Packet erf(Packet x) {
    if constexpr (Traits::HasErf) {
      return where_equal(x, x, of(Eigen::internal::perf(x.v)), x);
    } else {
      return each(x, [](C c) { return std::erf(c); });
    }
  }

 private:
  template <class F>
  static Packet each(Packet x, F f) {
    C all[std::size_t(size)];
    x.store(all);
    for (C& c : all) c = f(c);
    return load(all);
  }
};

/// Rows become columns.
template <class C>
void transpose(std::array<Packet<C>, std::size_t(Packet<C>::size)>& square) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wignored-attributes"  // of a register as a template's argument
  Eigen::internal::PacketBlock<typename Packet<C>::Native> block;
#pragma GCC diagnostic pop
  for (std::size_t i = 0; i < square.size(); ++i) block.packet[i] = square[i].v;
  Eigen::internal::ptranspose(block);
  for (std::size_t i = 0; i < square.size(); ++i) square[i] = Packet<C>::of(block.packet[i]);
}

/// out[i] = f(in[i]...), where f takes and gives packets. `out` may be one of the inputs.
template <class C, class F, class... In>
void for_each_packet(std::int64_t n, C* out, F&& f, const In*... in) {
  constexpr int k = Packet<C>::size;
  std::int64_t i = 0;
  for (; i + k <= n; i += k) f(Packet<C>::load(in + i)...).store(out + i);
  if (i < n) f(Packet<C>::load(in + i, n - i)...).store(out + i, n - i);
}

}  // namespace tandem::host
