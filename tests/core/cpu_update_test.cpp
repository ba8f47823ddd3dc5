// The CPU's optimizer steps: the formulas of update_rules.h written out again, one rounding after
// the other, so that every bit must agree. optim/ compares with PyTorch.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "tests/core/cpu_arrays.h"

using namespace tandem;
using namespace tandem::test;

namespace {

constexpr std::int64_t kN = 37;

struct Sgd {
  double lr = 0.1, momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false, maximize = false, first = false;

  template <class C>
  void step(C& p, C g, C& b) const {
    C d = maximize ? -g : g;
    if (weight_decay != 0) d = std::fma(p, C(weight_decay), d);
    if (momentum != 0) {
      b = first ? d : std::fma(d, C(1 - dampening), C(b * C(momentum)));
      d = nesterov ? std::fma(b, C(momentum), d) : b;
    }
    p = std::fma(d, C(-lr), p);
  }
  std::array<double, kUpdateCoefficients> coefficients() const {
    std::array<double, kUpdateCoefficients> c{};
    c[SgdRule::lr] = lr;
    c[SgdRule::momentum] = momentum;
    c[SgdRule::dampening] = dampening;
    c[SgdRule::weight_decay] = weight_decay;
    c[SgdRule::nesterov] = nesterov;
    c[SgdRule::maximize] = maximize;
    c[SgdRule::first] = first;
    return c;
  }
};

struct Adam {
  double lr = 0.01, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0, decay = 1;
  bool amsgrad = false, maximize = false;
  double correction1 = 1 - 0.9 * 0.9, correction2 = 1 - 0.999 * 0.999;  // the second step

  template <class C>
  void step(C& p, C g, C& m, C& v, C& v_max) const {
    if (maximize) g = -g;
    if (decay != 1) p *= C(decay);
    if (weight_decay != 0) g = std::fma(p, C(weight_decay), g);
    m = std::fma(g, C(1 - beta1), C(m * C(beta1)));
    v = std::fma(C(C(1 - beta2) * g), g, C(v * C(beta2)));
    C second = v;
    if (amsgrad) second = v_max = std::max(v_max, v);
    const C denominator = C(std::sqrt(second) / C(std::sqrt(correction2))) + C(eps);
    p += C(C(-lr / correction1) * m) / denominator;
  }
  std::array<double, kUpdateCoefficients> coefficients() const {
    std::array<double, kUpdateCoefficients> c{};
    c[AdamRule::minus_step] = -lr / correction1;
    c[AdamRule::beta1] = beta1;
    c[AdamRule::beta2] = beta2;
    c[AdamRule::sqrt_correction2] = std::sqrt(correction2);
    c[AdamRule::eps] = eps;
    c[AdamRule::weight_decay] = weight_decay;
    c[AdamRule::decay] = decay;
    c[AdamRule::amsgrad] = amsgrad;
    c[AdamRule::maximize] = maximize;
    return c;
  }
};

// Values as they are stored; state k of element i is positive.
std::vector<double> start(DType dtype, std::uint64_t seed, bool positive = false) {
  return each(random_doubles(kN, seed, positive ? 0.01 : -1),
              [&](double v) { return stored_as(dtype, v); });
}

// Runs one item and gives {param, state...}; undefined states come back empty.
std::vector<std::vector<double>> run(UpdateOp op, DType dtype, Lie lie, int states,
                                     std::array<double, kUpdateCoefficients> c) {
  const Shape shape{1, kN};
  UpdateItem item{.param = lying(lie, start(dtype, 61), shape, dtype),
                  .grad = lying(lie, start(dtype, 62), shape, dtype),
                  .state = {},
                  .c = c};
  for (int k = 0; k < states; ++k) {
    item.state[std::size_t(k)] =
        lying(lie, start(dtype, std::uint64_t(63 + k), k > 0), shape, dtype);
  }
  std::vector<UpdateItem> items{item};
  cpu_backend().update(op, items);
  std::vector<std::vector<double>> result{values_of(item.param)};
  for (int k = 0; k < states; ++k) result.push_back(values_of(item.state[std::size_t(k)]));
  CHECK(values_of(item.grad) == start(dtype, 62));
  return result;
}

// The same with the formulas above, computed in C and rounded to dtype at the end.
template <class C, class Rule>
std::vector<std::vector<double>> expected(const Rule& rule, DType dtype, int states) {
  std::vector<std::vector<double>> values{start(dtype, 61)};
  const auto g = start(dtype, 62);
  for (int k = 0; k < 3; ++k) values.push_back(start(dtype, std::uint64_t(63 + k), k > 0));
  for (std::size_t i = 0; i < std::size_t(kN); ++i) {
    C x[4];
    for (std::size_t k = 0; k < 4; ++k) x[k] = C(values[k][i]);
    if constexpr (std::is_same_v<Rule, Sgd>) {
      rule.step(x[0], C(g[i]), x[1]);
    } else {
      rule.step(x[0], C(g[i]), x[1], x[2], x[3]);
    }
    for (std::size_t k = 0; k < 4; ++k) values[k][i] = stored_as(dtype, double(x[k]));
  }
  values.resize(std::size_t(states + 1));
  return values;
}

template <class Rule>
void check_rule(UpdateOp op, const Rule& rule, int states) {
  for (Lie lie : {Lie::row_major, Lie::shifted}) {
    CHECK(run(op, float32, lie, states, rule.coefficients()) ==
          expected<float>(rule, float32, states));
    CHECK(run(op, float64, lie, states, rule.coefficients()) ==
          expected<double>(rule, float64, states));
    for (DType dtype : {float16, bfloat16}) {
      CHECK(run(op, dtype, lie, states, rule.coefficients()) ==
            expected<float>(rule, dtype, states));
    }
  }
}

}  // namespace

TEST_CASE("cpu update: SGD bit for bit, all options, every type") {
  const UpdateOp op = update_op<SgdRule>;
  check_rule(op, Sgd{}, 0);
  check_rule(op, Sgd{.weight_decay = 0.01, .maximize = true}, 0);
  check_rule(op, Sgd{.momentum = 0.9, .first = true}, 1);
  check_rule(op, Sgd{.momentum = 0.9, .dampening = 0.5, .weight_decay = 0.1}, 1);
  check_rule(op, Sgd{.momentum = 0.9, .nesterov = true}, 1);
  check_rule(op, Sgd{.momentum = 0.9, .weight_decay = 0.1, .nesterov = true, .maximize = true}, 1);
}

TEST_CASE("cpu update: Adam and AdamW bit for bit, all options, every type") {
  const UpdateOp op = update_op<AdamRule>;
  check_rule(op, Adam{}, 2);
  check_rule(op, Adam{.weight_decay = 0.1}, 2);
  check_rule(op, Adam{.decay = 0.999, .maximize = true}, 2);
  check_rule(op, Adam{.weight_decay = 0.1, .amsgrad = true}, 3);
}

TEST_CASE("cpu update: many parameters of different sizes, orders and types in one call") {
  const Sgd rule;
  std::vector<UpdateItem> items;
  std::vector<std::vector<double>> sums;
  const Shape shapes[] = {{}, {0}, {3, 4}, {2, 3, 4, 5}, {1025}};
  for (const Shape& shape : shapes) {
    for (Lie lie : {Lie::row_major, Lie::rotated}) {
      for (DType dtype : {float32, float16}) {
        const auto p = whole_numbers(shape.numel(), 67), g = whole_numbers(shape.numel(), 68);
        UpdateItem item{lying(lie, p, shape, dtype), lying(lie, g, shape, dtype), {}, {}};
        item.c = Sgd{.lr = 0.5}.coefficients();
        items.push_back(item);
        sums.push_back(each(p, g, [](double u, double v) { return u - 0.5 * v; }));
      }
    }
  }
  cpu_backend().update(update_op<SgdRule>, items);
  for (std::size_t i = 0; i < items.size(); ++i) CHECK(values_of(items[i].param) == sums[i]);
}

TEST_CASE("cpu update: 16-bit parameters may have float32 state, in any order of dimensions") {
  const Shape shape{2, 3, 4, 5};
  const auto p = whole_numbers(shape.numel(), 69), g = whole_numbers(shape.numel(), 70),
             b = whole_numbers(shape.numel(), 71);
  UpdateItem item{lying(Lie::rotated, p, shape, float16),
                  lying(Lie::rotated, g, shape, float16),
                  {},
                  Sgd{.lr = 0.5, .momentum = 0.5}.coefficients()};
  item.state[0] = lying(Lie::rotated, b, shape, float32);
  std::vector<UpdateItem> items{item};
  cpu_backend().update(update_op<SgdRule>, items);
  const auto buffer = each(g, b, [](double u, double v) { return u + 0.5 * v; });
  CHECK(values_of(item.state[0]) == buffer);
  CHECK(values_of(item.param) == each(p, buffer, [](double u, double v) { return u - 0.5 * v; }));
}

// A number that is a root of a positive one, of any size.
template <class T>
T some_root(std::uint64_t random) {
  using Limits = std::numeric_limits<T>;
  const int exponents = Limits::max_exponent - Limits::min_exponent + Limits::digits;
  const int exponent =
      Limits::min_exponent - Limits::digits + int(random % std::uint64_t(exponents));
  const T square = std::ldexp(T(1) + T(random >> 11) * T(0x1p-53), exponent);
  return std::sqrt(std::min(std::max(square, Limits::denorm_min()), Limits::max()));
}

template <class T>
std::vector<T> divisors() {
  std::vector<T> list{1,
                      std::nextafter(T(1), T(0)),
                      std::nextafter(T(0.5), T(1)),
                      T(0.70710678),
                      T(0.75),
                      T(1) / T(3),
                      T(0.99),
                      T(1e-4),
                      T(3e-8)};
  for (const double beta2 : {0.9, 0.95, 0.99, 0.999, 0.9999}) {
    for (const int t : {1, 2, 3, 10, 100, 5000}) {
      list.push_back(T(std::sqrt(1 - std::pow(beta2, t))));
    }
  }
  return list;
}

TEST_CASE_TEMPLATE("cpu update: a root divided without division has a quotient's bits", T, float,
                   double) {
  std::uint64_t random = 1;
  for (const T divisor : divisors<T>()) {
    CAPTURE(divisor);
    const RootDivisor<T> by(divisor);
    std::int64_t wrong = 0;
    for (int i = 0; i < 200000; ++i) {
      random = random * 6364136223846793005u + 1442695040888963407u;
      const T x = some_root<T>(random);
      wrong += by.divide(x) != x / divisor;
    }
    CHECK(wrong == 0);
    CHECK(by.divide(0) == 0);
    const T infinity = std::numeric_limits<T>::infinity();
    CHECK(by.divide(infinity) == infinity);
    CHECK(std::isnan(by.divide(std::numeric_limits<T>::quiet_NaN())));
    CHECK(by.divide(std::sqrt(std::numeric_limits<T>::denorm_min())) ==
          std::sqrt(std::numeric_limits<T>::denorm_min()) / divisor);
  }
}

TEST_CASE("cpu update: all 2^23 fractions of a float, divided without division") {
  for (const float divisor : {0.0316227749f, 0.0447045378f, 0.707106769f, 0.999999940f, 0.6f}) {
    CAPTURE(divisor);
    const RootDivisor<float> by(divisor);
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < std::int64_t(1) << 23; ++i) {
      const float x = 1 + float(i) * 0x1p-23f;
      wrong += by.divide(x) != x / divisor;
    }
    CHECK(wrong == 0);
  }
}
