// Rules of two operands, y = f(a, b): the value, and the derivative with respect to each operand
// times dy.
//
// They are part of the functors: see functors.h, which holds the rules of one operand and the lists
// that make both of them op codes. No Eigen and no CUDA header here.
#pragma once

#include <cmath>
#include <cstdint>

#include <tandem/core/half.h>

namespace tandem {

/// Which elements a rule accepts. Arithmetic happens in float32 for 16- and 32-bit floats.
enum class Domain : std::uint8_t { floats, numbers, bools };

/// What the derivative of a zip with respect to one operand is made of.
enum class Pull : std::uint8_t { none, pass, negate, formula };

template <Pull kPullA, Pull kPullB, Domain kDomain = Domain::numbers>
struct ZipRule {
  static constexpr Pull pull_a = kPullA;  // pass: dy itself; negate: -dy; formula: grad_a()
  static constexpr Pull pull_b = kPullB;
  static constexpr Domain domain = kDomain;
  static constexpr bool compares = false;  // true: the result is bool
};

struct Add : ZipRule<Pull::pass, Pull::pass> {
  template <class T>
  TANDEM_HD static T forward(T a, T b) {
    return a + b;
  }
};

struct Sub : ZipRule<Pull::pass, Pull::negate> {
  template <class T>
  TANDEM_HD static T forward(T a, T b) {
    return a - b;
  }
};

struct Mul : ZipRule<Pull::formula, Pull::formula> {
  template <class T>
  TANDEM_HD static T forward(T a, T b) {
    return a * b;
  }
  template <class T>
  TANDEM_HD static T grad_a(T, T b, T dy) {
    return dy * b;
  }
  template <class T>
  TANDEM_HD static T grad_b(T a, T, T dy) {
    return dy * a;
  }
};

struct Div : ZipRule<Pull::formula, Pull::formula, Domain::floats> {
  template <class T>
  TANDEM_HD static T forward(T a, T b) {
    return a / b;
  }
  template <class T>
  TANDEM_HD static T grad_a(T, T b, T dy) {
    return dy / b;
  }
  template <class T>
  TANDEM_HD static T grad_b(T a, T b, T dy) {
    return -dy * ((a / b) / b);
  }
};

// y = a^b; d/da = b a^(b-1), 0 where b = 0; d/db = a^b log a, 0 where a = 0 and b >= 0
struct Pow : ZipRule<Pull::formula, Pull::formula, Domain::floats> {
  template <class T>
  TANDEM_HD static T forward(T a, T b) {
    return std::pow(a, b);
  }
  template <class T>
  TANDEM_HD static T grad_a(T a, T b, T dy) {
    return b == T(0) ? T(0) : dy * (b * std::pow(a, b - T(1)));
  }
  template <class T>
  TANDEM_HD static T grad_b(T a, T b, T dy) {
    return a == T(0) && b >= T(0) ? T(0) : dy * (std::pow(a, b) * std::log(a));
  }
};

// NaN wins; where both are equal each gets half of dy
struct Maximum : ZipRule<Pull::formula, Pull::formula> {
  template <class T>
  TANDEM_HD static T forward(T a, T b) {
    return a > b || a != a ? a : b;
  }
  template <class T>
  TANDEM_HD static T grad_a(T a, T b, T dy) {
    return a > b ? dy : (a == b ? dy / T(2) : T(0));
  }
  template <class T>
  TANDEM_HD static T grad_b(T a, T b, T dy) {
    return grad_a(b, a, dy);
  }
};

struct Minimum : ZipRule<Pull::formula, Pull::formula> {
  template <class T>
  TANDEM_HD static T forward(T a, T b) {
    return a < b || a != a ? a : b;
  }
  template <class T>
  TANDEM_HD static T grad_a(T a, T b, T dy) {
    return a < b ? dy : (a == b ? dy / T(2) : T(0));
  }
  template <class T>
  TANDEM_HD static T grad_b(T a, T b, T dy) {
    return grad_a(b, a, dy);
  }
};

// Binary cross entropy of the probability sigmoid(a) against the label b, without overflow:
//   y = max(a, 0) - a b + log(1 + exp(-|a|));  d/da = sigmoid(a) - b;  d/db = -a
struct BceWithLogits : ZipRule<Pull::formula, Pull::formula, Domain::floats> {
  template <class T>
  TANDEM_HD static T forward(T a, T b) {
    return (a <= T(0) ? T(0) : a) - a * b + std::log1p(std::exp(-std::fabs(a)));
  }
  template <class T>
  TANDEM_HD static T grad_a(T a, T b, T dy) {
    return dy * (T(1) / (T(1) + std::exp(-a)) - b);
  }
  template <class T>
  TANDEM_HD static T grad_b(T a, T, T dy) {
    return -dy * a;
  }
};

struct CompareRule : ZipRule<Pull::none, Pull::none> {
  static constexpr bool compares = true;
};
// clang-format off
struct Eq : CompareRule { template <class T> TANDEM_HD static bool forward(T a, T b) { return a == b; } };
struct Ne : CompareRule { template <class T> TANDEM_HD static bool forward(T a, T b) { return a != b; } };
struct Lt : CompareRule { template <class T> TANDEM_HD static bool forward(T a, T b) { return a < b; } };
struct Le : CompareRule { template <class T> TANDEM_HD static bool forward(T a, T b) { return a <= b; } };
struct Gt : CompareRule { template <class T> TANDEM_HD static bool forward(T a, T b) { return a > b; } };
struct Ge : CompareRule { template <class T> TANDEM_HD static bool forward(T a, T b) { return a >= b; } };

struct LogicRule : ZipRule<Pull::none, Pull::none, Domain::bools> {};
struct And : LogicRule { TANDEM_HD static bool forward(bool a, bool b) { return a && b; } };
struct Or : LogicRule { TANDEM_HD static bool forward(bool a, bool b) { return a || b; } };
struct Xor : LogicRule { TANDEM_HD static bool forward(bool a, bool b) { return a != b; } };
// clang-format on

}  // namespace tandem
