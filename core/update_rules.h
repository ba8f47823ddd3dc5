// Update rules: one optimizer step of one element, written once for every backend.
//
// Coefficients are computed in double by the optimizer and rounded once here, as PyTorch does; the
// places of fma() give PyTorch 1.13's bits on a CPU. optim/ says what the coefficients mean.
// No Eigen and no CUDA header here or in anything this file includes.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

#include <tandem/core/functors.h>

namespace tandem {

inline constexpr int kUpdateCoefficients = 10;

/// Stochastic gradient descent.
///   d = g + weight_decay p;  b = momentum b + (1 - dampening) d, the first time b = d
///   p = p - lr (nesterov ? d + momentum b : b)
struct SgdRule {
  static constexpr int states = 1;  // b, undefined if momentum is 0
  enum { lr, momentum, dampening, weight_decay, nesterov, maximize, first };

  template <class T>
  struct Step {
    T minus_lr, momentum, one_minus_dampening, weight_decay;
    bool nesterov, maximize, first;

    Step() = default;
    explicit Step(const std::array<double, kUpdateCoefficients>& c)
        : minus_lr(T(-c[SgdRule::lr])),
          momentum(T(c[SgdRule::momentum])),
          one_minus_dampening(T(1 - c[SgdRule::dampening])),
          weight_decay(T(c[SgdRule::weight_decay])),
          nesterov(c[SgdRule::nesterov] != 0),
          maximize(c[SgdRule::maximize] != 0),
          first(c[SgdRule::first] != 0) {}

    TANDEM_HD void operator()(T& p, T g, T& b, T&, T&) const {
      T d = maximize ? -g : g;
      if (weight_decay != T(0)) d = std::fma(p, weight_decay, d);
      if (momentum != T(0)) {
        b = first ? d : std::fma(d, one_minus_dampening, b * momentum);
        d = nesterov ? std::fma(b, momentum, d) : b;
      }
      p = std::fma(d, minus_lr, p);
    }
  };
};

/// x / divisor for one divisor and many x, without divisions and with every bit of them: the
/// remainder of a quotient that is off by less than a unit in the last place corrects it.
/// REQUIRES: 2^-64 <= divisor <= 1; x is 0, infinite, NaN, or a root (a positive one is so large
/// that no remainder vanishes).
///   N. Brisebarre, J.-M. Muller, S. K. Raina: Accelerating correctly rounded floating-point
///   division when the divisor is known in advance (2004), which rests on P. Markstein's theorem
///   (1990): the correction is right if `high_` is 1 / divisor, correctly rounded.
template <class T>
class RootDivisor {
 public:
  RootDivisor() = default;
  explicit RootDivisor(T divisor)
      : divisor_(divisor), high_(T(1) / divisor), low_(std::fma(-high_, divisor, T(1)) * high_) {}

  TANDEM_HD T divide(T x) const {
    const T near = std::fma(x, high_, x * low_);
    const T quotient = std::fma(std::fma(-near, divisor_, x), high_, near);
    return quotient > x ? quotient : x;  // infinity has no remainder
  }

 private:
  T divisor_, high_, low_;  // 1 / divisor = high + low
};

/// Adam, and AdamW where the decay is decoupled.
///   AdamW: p = p decay;  Adam: g = g + weight_decay p
///   m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
///   p = p - lr / (1 - beta1^t) m / (sqrt(v / (1 - beta2^t)) + eps);  amsgrad: the largest v so far
struct AdamRule {
  static constexpr int states = 3;  // m, v, largest v (amsgrad only)
  enum { minus_step, beta1, beta2, sqrt_correction2, eps, weight_decay, decay, amsgrad, maximize };

  template <class T>
  struct Step {
    T minus_step, beta1, one_minus_beta1, beta2, one_minus_beta2, sqrt_correction2, eps;
    T weight_decay, decay, sign;
    RootDivisor<T> by_sqrt_correction2;
    bool amsgrad;

    Step() = default;
    explicit Step(const std::array<double, kUpdateCoefficients>& c)
        : minus_step(T(c[AdamRule::minus_step])),
          beta1(T(c[AdamRule::beta1])),
          one_minus_beta1(T(1 - c[AdamRule::beta1])),
          beta2(T(c[AdamRule::beta2])),
          one_minus_beta2(T(1 - c[AdamRule::beta2])),
          sqrt_correction2(T(c[AdamRule::sqrt_correction2])),
          eps(T(c[AdamRule::eps])),
          weight_decay(T(c[AdamRule::weight_decay])),
          decay(T(c[AdamRule::decay])),
          sign(c[AdamRule::maximize] != 0 ? T(-1) : T(1)),
          by_sqrt_correction2(sqrt_correction2),
          amsgrad(c[AdamRule::amsgrad] != 0) {}

    TANDEM_HD void operator()(T& p, T g, T& m, T& v, T& v_max) const {
      // Products with 1 are exact; as branches they would keep the loop from vectorising.
      g = g * sign;
      p = p * decay;
      if (weight_decay != T(0)) g = std::fma(p, weight_decay, g);
      m = std::fma(g, one_minus_beta1, m * beta1);
      v = std::fma(one_minus_beta2 * g, g, v * beta2);
      T second = v;
      if (amsgrad) {
        v_max = Maximum::forward(v_max, v);
        second = v_max;
      }
      const T denominator = std::sqrt(second) / sqrt_correction2 + eps;
      p = p + (minus_step * m) / denominator;
    }

    /// Most people's Adam and AdamW: no amsgrad, no maximize, no decay in the gradient.
    bool is_plain() const { return sign == T(1) && weight_decay == T(0) && !amsgrad; }
    /// The bits of operator() if it is. On CPUs divisions are what an update waits for, and the
    /// loop is short enough for one of them to be hidden in multiplications.
    TANDEM_HD void plain(T& p, T g, T& m, T& v) const {
      p = p * decay;
      m = std::fma(g, one_minus_beta1, m * beta1);
      v = std::fma(one_minus_beta2 * g, g, v * beta2);
      const T denominator = by_sqrt_correction2.divide(std::sqrt(v)) + eps;
      p = p + (minus_step * m) / denominator;
    }
  };
};

/// Takes a factor into a gradient: g = g factor. What the same pass finds out: is every g, before,
/// neither infinite nor NaN, and the sum of squares of the products (SumOfSquaresRule).
struct RescaleRule {
  template <class T>
  TANDEM_HD static bool finite(T g) {
    return g - g == T(0);
  }
};

using UpdateOps = OpList<SgdRule, AdamRule>;
enum class UpdateOp : std::uint8_t {};
template <class F>
inline constexpr UpdateOp update_op = UpdateOp(detail::position<F>(UpdateOps{}));

}  // namespace tandem
