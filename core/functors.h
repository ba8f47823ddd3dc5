// Functors: every pointwise rule of the library, written once; those of two operands are in
// zip_rules.h.
//
// A rule is a small struct of static functions: the value, and the derivative times dy. The same
// struct runs in the CPU's loops, in CUDA's kernels, and as the oracle of the tests. Rules with
// exp, log, tanh or erf are marked `packet`: written with functions that Eigen knows by the same
// names, so the CPU also runs them on whole arrays. The lists at the end *are* the op codes and the
// dispatch tables of every backend. To add a rule, see docs/add_an_op.md; for reductions see
// reduce_rules.h.
// No Eigen and no CUDA header here or in anything this file includes.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include <tandem/core/half.h>
#include <tandem/core/zip_rules.h>

namespace tandem {

/// What backward needs of a map y = f(x).
enum class Saves : std::uint8_t { nothing, input, output };

/// Numbers that a rule takes along, in the type it computes in.
template <class T>
struct Params {
  T a{}, b{};
};

namespace detail {
template <class X, class = void>
struct ScalarOf {
  using type = X;
};
template <class X>  // Eigen's expressions
struct ScalarOf<X, std::void_t<typename X::Scalar>> {
  using type = typename X::Scalar;
};
}  // namespace detail

/// float for a float and for an array of floats.
template <class X>
using scalar_of = typename detail::ScalarOf<X>::type;

// ---- maps: y = f(x)

template <Saves kSaves, Domain kDomain = Domain::floats, bool kPacket = false>
struct MapRule {
  static constexpr Saves saves = kSaves;
  static constexpr Domain domain = kDomain;
  static constexpr bool packet = kPacket;
};

// y = -x
struct Neg : MapRule<Saves::nothing, Domain::numbers> {
  template <class T>
  TANDEM_HD static T forward(T x, Params<T>) {
    return -x;
  }
  template <class T>
  TANDEM_HD static T grad(T, T dy, Params<T>) {
    return -dy;
  }
};

// y = |x|; the derivative at 0 is 0
struct Abs : MapRule<Saves::input, Domain::numbers> {
  template <class T>
  TANDEM_HD static T forward(T x, Params<T>) {
    if constexpr (std::is_floating_point_v<T>) {
      return std::fabs(x);
    } else {
      return x < 0 ? -x : x;
    }
  }
  template <class T>
  TANDEM_HD static T grad(T x, T dy, Params<T>) {
    return x > 0 ? dy : (x < 0 ? -dy : T(0));
  }
};

struct Exp : MapRule<Saves::output, Domain::floats, true> {
  template <class X, class P>
  TANDEM_HD static auto forward(const X& x, P) {
    using std::exp;
    return exp(x);
  }
  template <class X, class P>
  TANDEM_HD static auto grad(const X& y, const X& dy, P) {
    return dy * y;
  }
};

struct Log : MapRule<Saves::input, Domain::floats, true> {
  template <class X, class P>
  TANDEM_HD static auto forward(const X& x, P) {
    using std::log;
    return log(x);
  }
  template <class X, class P>
  TANDEM_HD static auto grad(const X& x, const X& dy, P) {
    return dy / x;
  }
};

struct Sqrt : MapRule<Saves::output> {
  template <class T>
  TANDEM_HD static T forward(T x, Params<T>) {
    return std::sqrt(x);
  }
  template <class T>
  TANDEM_HD static T grad(T y, T dy, Params<T>) {
    return dy / (T(2) * y);
  }
};

struct Tanh : MapRule<Saves::output, Domain::floats, true> {
  template <class X, class P>
  TANDEM_HD static auto forward(const X& x, P) {
    using std::tanh;
    return tanh(x);
  }
  template <class X, class P>
  TANDEM_HD static auto grad(const X& y, const X& dy, P) {
    return dy * (scalar_of<X>(1) - y * y);
  }
};

// y = 1 / (1 + exp(-x))
struct Sigmoid : MapRule<Saves::output, Domain::floats, true> {
  template <class X, class P>
  TANDEM_HD static auto forward(const X& x, P) {
    using std::exp;
    return scalar_of<X>(1) / (scalar_of<X>(1) + exp(-x));
  }
  template <class X, class P>
  TANDEM_HD static auto grad(const X& y, const X& dy, P) {
    return dy * (scalar_of<X>(1) - y) * y;
  }
};

// y = max(x, 0); NaN stays NaN; the derivative at 0 is 0
struct Relu : MapRule<Saves::output, Domain::numbers> {
  template <class T>
  TANDEM_HD static T forward(T x, Params<T>) {
    return x <= T(0) ? T(0) : x;
  }
  template <class T>
  TANDEM_HD static T grad(T y, T dy, Params<T>) {
    return y <= T(0) ? T(0) : dy;
  }
};

// y = x Phi(x) = x / 2 (1 + erf(x / sqrt 2)), the exact form (not the tanh approximation)
struct Gelu : MapRule<Saves::input, Domain::floats, true> {
  template <class X, class P>
  TANDEM_HD static auto forward(const X& x, P) {
    using std::erf;
    using T = scalar_of<X>;
    return x * T(0.5) * (T(1) + erf(x * T(0.70710678118654752440)));
  }
  // dy (Phi(x) + x exp(-x^2 / 2) / sqrt(2 pi))
  template <class X, class P>
  TANDEM_HD static auto grad(const X& x, const X& dy, P) {
    using std::erf;
    using std::exp;
    using T = scalar_of<X>;
    return dy * (T(0.5) * (T(1) + erf(x * T(0.70710678118654752440))) +
                 x * T(0.39894228040143267794) * exp(x * x * T(-0.5)));
  }
};

// y = x / (1 + exp(-x))
struct Silu : MapRule<Saves::input, Domain::floats, true> {
  template <class X, class P>
  TANDEM_HD static auto forward(const X& x, P) {
    using std::exp;
    return x / (scalar_of<X>(1) + exp(-x));
  }
  // s = sigmoid(x):  dy s (1 + x (1 - s))
  template <class X, class P>
  TANDEM_HD static auto grad(const X& x, const X& dy, P) {
    using std::exp;
    using T = scalar_of<X>;
    return dy / (T(1) + exp(-x)) * (T(1) + x * (T(1) - T(1) / (T(1) + exp(-x))));
  }
};

// y = x where x > 0, else a x; the derivative at 0 is a
struct LeakyRelu : MapRule<Saves::input> {
  template <class T>
  TANDEM_HD static T forward(T x, Params<T> p) {
    return x > T(0) ? x : p.a * x;
  }
  template <class T>
  TANDEM_HD static T grad(T x, T dy, Params<T> p) {
    return x > T(0) ? dy : p.a * dy;
  }
};

// y = min(max(x, a), b); NaN stays NaN; dy passes where a <= x <= b
struct Clamp : MapRule<Saves::input, Domain::numbers> {
  template <class T>
  TANDEM_HD static T forward(T x, Params<T> p) {
    const T low = x < p.a ? p.a : x;
    return low > p.b ? p.b : low;
  }
  template <class T>
  TANDEM_HD static T grad(T x, T dy, Params<T> p) {
    return x >= p.a && x <= p.b ? dy : T(0);
  }
};

struct LogicalNot : MapRule<Saves::nothing, Domain::bools> {
  TANDEM_HD static bool forward(bool x, Params<bool>) { return !x; }
};

// ---- zips with a number for one operand, made of the rules above

/// f(x, s) with the number s = Params::a.
template <class F>
struct WithRight : MapRule<F::pull_a == Pull::formula ? Saves::input : Saves::nothing, F::domain> {
  template <class T>
  TANDEM_HD static T forward(T x, Params<T> p) {
    return F::forward(x, p.a);
  }
  template <class T>
  TANDEM_HD static T grad([[maybe_unused]] T x, T dy, [[maybe_unused]] Params<T> p) {
    if constexpr (F::pull_a == Pull::formula) {
      return F::grad_a(x, p.a, dy);
    } else {
      return dy;
    }
  }
};

/// f(s, x) with the number s = Params::a.
template <class F>
struct WithLeft : MapRule<F::pull_b == Pull::formula ? Saves::input : Saves::nothing, F::domain> {
  template <class T>
  TANDEM_HD static T forward(T x, Params<T> p) {
    return F::forward(p.a, x);
  }
  template <class T>
  TANDEM_HD static T grad([[maybe_unused]] T x, T dy, [[maybe_unused]] Params<T> p) {
    if constexpr (F::pull_b == Pull::formula) {
      return F::grad_b(p.a, x, dy);
    } else {
      return F::pull_b == Pull::negate ? -dy : dy;
    }
  }
};

// ---- the lists: op codes and dispatch tables

template <class... F>
struct OpList {
  static constexpr int size = int(sizeof...(F));
};

namespace detail {
template <class F, class... G>
constexpr int position(OpList<G...>) {
  constexpr bool same[] = {std::is_same_v<F, G>...};
  for (int i = 0; i < int(sizeof...(G)); ++i) {
    if (same[i]) return i;
  }
  return -1;
}
}  // namespace detail

using MapOps = OpList<Neg, Abs, Exp, Log, Sqrt, Tanh, Sigmoid, Relu, Gelu, Silu, LeakyRelu, Clamp,
                      LogicalNot, WithRight<Add>, WithRight<Mul>, WithRight<Div>, WithRight<Pow>,
                      WithLeft<Sub>, WithLeft<Div>, WithLeft<Pow>>;
using ZipOps = OpList<Add, Sub, Mul, Div, Pow, Maximum, Minimum, BceWithLogits, Eq, Ne, Lt, Le, Gt,
                      Ge, And, Or, Xor>;

/// Op codes: positions in the lists.
enum class MapOp : std::uint8_t {};
enum class ZipOp : std::uint8_t {};

template <class F>
inline constexpr MapOp map_op = MapOp(detail::position<F>(MapOps{}));
template <class F>
inline constexpr ZipOp zip_op = ZipOp(detail::position<F>(ZipOps{}));

}  // namespace tandem
