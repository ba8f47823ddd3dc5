// The rules with exp, log, tanh and erf run on the CPU's vector instructions: how close they are to
// the exact value, what they do with Inf and NaN, and that bits depend on values alone. The oracle
// is the same formula in long double, through the C library.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "tests/core/cpu_arrays.h"

using namespace tandem;
using namespace tandem::test;

namespace {

template <class C>
Array array_from(const std::vector<C>& values) {
  return Array::from_host(values.data(), {std::int64_t(values.size())}, dtype_of<C>, cpu(0));
}

template <class F, class C>
std::vector<C> forward(const std::vector<C>& x) {
  Array y = garbage({std::int64_t(x.size())}, dtype_of<C>);
  cpu_backend().map(map_op<F>, {}, array_from(x), y);
  return y.to_vector<C>();
}

template <class F, class C>
std::vector<C> grad(const std::vector<C>& saved) {
  Array dx = garbage({std::int64_t(saved.size())}, dtype_of<C>);
  const std::vector<C> one(saved.size(), C(1));
  cpu_backend().map_grad(map_op<F>, {}, array_from(saved), array_from(one), dx);
  return dx.to_vector<C>();
}

template <class C>
std::vector<C> spread(double low, double high, int n) {
  std::vector<C> x;
  for (int i = 0; i < n; ++i) x.push_back(C(low + (high - low) * i / (n - 1)));
  return x;
}

// The largest distance from the exact value, in units of the last place of it or of `floor`.
template <class C, class F>
double worst_ulps(const std::vector<C>& x, const std::vector<C>& y, F exact,
                  double floor = double(std::numeric_limits<C>::min())) {
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const long double e = exact(static_cast<long double>(x[i]));
    const C magnitude = C(std::max<long double>(std::fabs(e), floor));
    const C ulp = std::nextafter(magnitude, std::numeric_limits<C>::infinity()) - magnitude;
    worst = std::max(worst, double(std::fabs(static_cast<long double>(y[i]) - e) / ulp));
  }
  return worst;
}

template <class F>
long double exact(long double x) {
  return F::forward(x, Params<long double>{});
}
template <class F>
long double exact_grad(long double x) {
  return F::grad(x, 1.0L, Params<long double>{});
}

// Inf, NaN and 0 where the C library has them, and the same sign.
template <class F, class C>
void check_kinds(const std::vector<C>& x) {
  const auto y = forward<F>(x);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const C expected = F::forward(x[i], Params<C>{});
    CAPTURE(x[i]);
    CAPTURE(y[i]);
    CAPTURE(expected);
    if (std::isnan(expected)) {
      CHECK(std::isnan(y[i]));
    } else if (std::isinf(expected) || expected == 0) {
      CHECK(y[i] == expected);
    } else if (std::fabs(expected) >= std::numeric_limits<C>::min()) {
      CHECK(close(double(y[i]), double(expected), {1e-5, 0}));
    } else {  // subnormal results may be flushed to zero
      CHECK(std::fabs(y[i]) < std::numeric_limits<C>::min());
    }
  }
}

template <class C>
std::vector<C> edges() {
  using Limits = std::numeric_limits<C>;
  std::vector<C> x = {
      Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN(), C(0), C(-0.0), Limits::max(),
      Limits::lowest(),   Limits::min(),       Limits::denorm_min()};
  for (double v : {1.0, 9.0, 20.0, 88.72, 88.8, 104.0, 709.7, 709.8, 750.0, 1000.0, 1e30}) {
    x.push_back(C(v));
    x.push_back(C(-v));
  }
  return x;
}

}  // namespace

TEST_CASE_TEMPLATE("cpu rules: Inf, NaN and 0 are where the C library has them", C, float, double) {
  check_kinds<Exp>(edges<C>());
  check_kinds<Log>(edges<C>());
  check_kinds<Tanh>(edges<C>());
  check_kinds<Sigmoid>(edges<C>());
  check_kinds<Gelu>(edges<C>());
  check_kinds<Silu>(edges<C>());
  check_kinds<Sqrt>(edges<C>());
  check_kinds<Abs>(edges<C>());
  check_kinds<Relu>(edges<C>());
}

// tanh and erf of float32 are Eigen's rational approximations, accurate to a few units.
TEST_CASE("cpu rules: float32 values are within a few units of the last place") {
  const auto ulps = [](auto rule, double low, double high) {
    using F = decltype(rule);
    const auto x = spread<float>(low, high, 50001);
    return worst_ulps(x, forward<F>(x), exact<F>);
  };
  CHECK(ulps(Exp{}, -87, 88.7) < 2);
  CHECK(ulps(Exp{}, -0.01, 0.01) < 2);
  CHECK(ulps(Log{}, 1e-6, 3) < 2);
  CHECK(ulps(Log{}, 1e-37, 1e38) < 2);
  CHECK(ulps(Log{}, 1e-44, 1e-37) < 2);  // subnormal numbers too
  CHECK(ulps(Tanh{}, -10, 10) < 5);
  CHECK(ulps(Tanh{}, -1e-3, 1e-3) < 5);
  CHECK(ulps(Sigmoid{}, -87, 20) < 4);
  CHECK(ulps(Sqrt{}, 0, 1e10) < 1);
}

TEST_CASE("cpu rules: float64 values are within a few units of the last place") {
  const auto ulps = [](auto rule, double low, double high) {
    using F = decltype(rule);
    const auto x = spread<double>(low, high, 20001);
    return worst_ulps(x, forward<F>(x), exact<F>);
  };
  CHECK(ulps(Exp{}, -708, 709.7) < 3);
  CHECK(ulps(Log{}, 1e-6, 3) < 2);
  CHECK(ulps(Log{}, 1e-320, 1e-307) < 2);
  CHECK(ulps(Tanh{}, -10, 10) < 3);
  CHECK(ulps(Sigmoid{}, -700, 20) < 4);
}

// A unit of 1 is 1.2e-7 in float32. erf cancels against 1 for negative x, hence the floor.
TEST_CASE("cpu rules: gelu is within 1e-6 of the exact value, relative above 1") {
  const auto x = spread<float>(-30, 30, 60001);
  CHECK(worst_ulps(x, forward<Gelu>(x), exact<Gelu>, 1.0) < 8);
  CHECK(worst_ulps(x, grad<Gelu>(x), exact_grad<Gelu>, 1.0) < 8);
  const auto d = spread<double>(-30, 30, 20001);
  CHECK(worst_ulps(d, forward<Gelu>(d), exact<Gelu>, 1.0) < 8);
  CHECK(worst_ulps(d, grad<Gelu>(d), exact_grad<Gelu>, 1.0) < 8);
}

// The derivative has x (1 - s): the rounding of s times x, up to where s is 1 (17 and 37).
TEST_CASE("cpu rules: silu is within a few units, its derivative relative to 1") {
  const auto x = spread<float>(-80, 80, 60001);
  CHECK(worst_ulps(x, forward<Silu>(x), exact<Silu>) < 5);
  CHECK(worst_ulps(x, grad<Silu>(x), exact_grad<Silu>, 1.0) < 12);
  const auto d = spread<double>(-700, 700, 20001);
  CHECK(worst_ulps(d, forward<Silu>(d), exact<Silu>) < 5);
  CHECK(worst_ulps(d, grad<Silu>(d), exact_grad<Silu>, 1.0) < 24);
}

TEST_CASE("cpu rules: derivatives are within a few units of the last place") {
  const auto y = spread<float>(0.001, 0.999, 20001);
  // 1 - y^2 cancels near 1: an absolute error of a unit of 1 is what float32 can give.
  CHECK(worst_ulps(y, grad<Tanh>(y), exact_grad<Tanh>, 1.0) < 2);
  CHECK(worst_ulps(y, grad<Sigmoid>(y), exact_grad<Sigmoid>, 1.0) < 2);
  CHECK(worst_ulps(y, grad<Exp>(y), exact_grad<Exp>) < 1);
  CHECK(worst_ulps(y, grad<Log>(y), exact_grad<Log>) < 1);
  CHECK(worst_ulps(y, grad<Sqrt>(y), exact_grad<Sqrt>) < 2);
}

TEST_CASE("cpu rules: tanh and sigmoid stay in their range") {
  const auto x = spread<float>(-30, 30, 60001);
  for (float y : forward<Tanh>(x)) REQUIRE(std::fabs(y) <= 1.0f);
  for (float y : forward<Sigmoid>(x)) REQUIRE((y >= 0.0f && y <= 1.0f));
}

// A replica works on a part of the batch: what it computes must be what one device would compute.
TEST_CASE_TEMPLATE("cpu rules: bits depend on the value, not on place, length or layout", C, float,
                   double) {
  const std::int64_t n = 67;
  const auto values = random_doubles(n, 21, 0.01, 9);
  const Array x = lying(Lie::row_major, values, {n}, dtype_of<C>);
  for (MapOp op :
       {map_op<Exp>, map_op<Log>, map_op<Tanh>, map_op<Sigmoid>, map_op<Gelu>, map_op<Silu>}) {
    Array whole = garbage({n}, dtype_of<C>), dwhole = garbage({n}, dtype_of<C>);
    cpu_backend().map(op, {}, x, whole);
    cpu_backend().map_grad(op, {}, x, x, dwhole);
    for (std::int64_t start = 0; start < n; ++start) {
      for (std::int64_t length : {std::int64_t(1), std::int64_t(5), n - start}) {
        if (start + length > n) continue;
        const Array in = x.narrow(0, start, length);
        Array part = garbage({n}, dtype_of<C>, Lie::shifted).narrow(0, start % 7, length);
        if (start % 7 + length > n) continue;
        cpu_backend().map(op, {}, in, part);
        REQUIRE(bits_equal(dense_copy(part), dense_copy(whole.narrow(0, start, length))));
        cpu_backend().map_grad(op, {}, in, in, part);
        REQUIRE(bits_equal(dense_copy(part), dense_copy(dwhole.narrow(0, start, length))));
      }
    }
    Array y = garbage({n}, dtype_of<C>, Lie::gaps);
    cpu_backend().map(op, {}, lying(Lie::gaps, values, {n}, dtype_of<C>), y);
    CHECK(bits_equal(dense_copy(y), whole));
  }
}

TEST_CASE("cpu rules: 16-bit values are computed in float32 and rounded once") {
  for (DType dtype : {float16, bfloat16}) {
    const Array x = lying(Lie::row_major, random_doubles(1000, 22, -8, 8), {1000}, dtype);
    Array y = garbage({1000}, dtype), wide = garbage({1000}, float32);
    cpu_backend().map(map_op<Sigmoid>, {}, x, y);
    cpu_backend().map(map_op<Sigmoid>, {}, lying(Lie::row_major, values_of(x), {1000}), wide);
    CHECK(values_of(y) == each(values_of(wide), [&](double v) { return stored_as(dtype, v); }));
  }
}

TEST_CASE("cpu zips: maximum and minimum keep NaN; pow and its derivatives at 0") {
  const double nan = std::nan("");
  const auto zip = [](ZipOp op, const std::vector<double>& a, const std::vector<double>& b) {
    const Shape shape{std::int64_t(a.size())};
    Array y = garbage(shape, float32);
    cpu_backend().zip(op, lying(Lie::row_major, a, shape), lying(Lie::row_major, b, shape), y);
    return values_of(y);
  };
  CHECK(close(zip(zip_op<Maximum>, {nan, 1, nan, 2}, {1, nan, nan, 3}), {nan, nan, nan, 3}));
  CHECK(close(zip(zip_op<Minimum>, {nan, 1, nan, 2}, {1, nan, nan, 3}), {nan, nan, nan, 2}));
  CHECK(close(zip(zip_op<Pow>, {0, 0, -2, 2, -8}, {0, 2, 3, -1, 0.5}), {1, 0, -8, 0.5, nan}));
  const Array a = lying(Lie::row_major, {0, 0, 3}, {3}), b = lying(Lie::row_major, {0, 2, 2}, {3}),
              dy = lying(Lie::row_major, {1, 1, 1}, {3});
  Array da = garbage({3}, float32), db = garbage({3}, float32);
  cpu_backend().zip_grad(zip_op<Pow>, 0, a, b, dy, da);
  cpu_backend().zip_grad(zip_op<Pow>, 1, a, b, dy, db);
  CHECK(close(values_of(da), {0, 0, 6}));
  CHECK(close(values_of(db), {0, 0, 9 * std::log(3.0)}));
}
