// Clipping against PyTorch's numbers, and what it does with norms that are not finite.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include <tandem/optim/clip.h>

#include "tests/optim/golden_optim.h"
#include "tests/optim/recipe.h"
#include "tests/support/check.h"

using namespace tandem;
using namespace tandem::optim;
using namespace tandem::test;

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Tensor with_grad(const std::vector<double>& grad, DType dtype = float32, Device device = dev(0)) {
  const Shape shape{std::int64_t(grad.size())};
  Tensor p = tensor_of(std::vector<double>(grad.size(), 0), shape, dtype, device);
  p.requires_grad_();
  p.set_grad(tensor_of(grad, shape, dtype, device));
  return p;
}

}  // namespace

TEST_CASE("clip_grad_norm_: norms 1, 2, 3 and infinity give PyTorch's numbers") {
  for (const ClipGolden& golden : kClipGolden) {
    std::vector<Tensor> params;
    for (std::uint64_t k = 0; k < 3; ++k) {
      params.push_back(golden_tensor(0, k).requires_grad_());
      params.back().set_grad(golden_tensor(1, k));
    }
    CAPTURE(golden.norm_type);
    const GradReport report = clip_grad_norm_(params, golden.max_norm, golden.norm_type);
    // 1e-6: the order in which a thousand float32 numbers are added differs
    CHECK(close(report.norm, golden.total, {1e-6, 0}));
    CHECK(report.clipped == (golden.max_norm < golden.total));
    CHECK(!report.nonfinite);
    CHECK(report.gradients == 3);
    CHECK(close(doubles(params[0].grad())[0], golden.clipped[0], {1e-6, 0}));
    CHECK(close(doubles(params[1].grad())[63], golden.clipped[1], {1e-6, 0}));
    CHECK(close(doubles(params[2].grad())[1002], golden.clipped[2], {1e-6, 0}));
  }
}

TEST_CASE("clip_grad_norm_: a norm below the bound changes no bit, and writes nothing") {
  Tensor p = with_grad({3, 4});
  const std::uint64_t version = p.grad().array().version();
  const GradReport report = clip_grad_norm_({p}, 10);
  CHECK(report.norm == 5);
  CHECK(!report.clipped);
  CHECK(close(p.grad(), {3, 4}, {0, 0}));
  CHECK(p.grad().array().version() == version);
}

TEST_CASE("clip_grad_norm_: afterwards the norm is max_norm total / (total + 1e-6)") {
  Tensor p = with_grad({3, 4});
  CHECK(clip_grad_norm_({p}, 1).clipped);
  // PyTorch: 0.99999982 for norm 5
  CHECK(close(p.grad(), {0.6 * 5 / (5 + 1e-6), 0.8 * 5 / (5 + 1e-6)}, {6e-8, 0}));
  Tensor small = with_grad({1e-6});
  CHECK(clip_grad_norm_({small}, 1e-6).clipped);
  CHECK(close(small.grad(), {0.5e-6}, {1e-6, 0}));
}

TEST_CASE("clip_grad_norm_: parameters without gradient are passed over; none at all gives 0") {
  Tensor with = with_grad({3, 4}), without = tensor_of({1}, {1}).requires_grad_();
  const GradReport report = clip_grad_norm_({without, Tensor(), with}, 1);
  CHECK(report.norm == 5);
  CHECK(report.worst == 2);
  CHECK(report.gradients == 1);
  CHECK(!without.grad().defined());
  for (const GradReport& none : {clip_grad_norm_({without}, 0), clip_grad_norm_({}, 1)}) {
    CHECK(none.norm == 0);
    CHECK(none.worst == -1);
    CHECK(!none.clipped);
  }
}

TEST_CASE("clip_grad_norm_: gradients of several devices share one norm and stay where they are") {
  for (double p : {1.0, 2.0, 3.0, kInfinity}) {
    Tensor a = with_grad({3}, float32, dev(1)), b = with_grad({4}, float32, dev(0));
    const double norm = p == kInfinity ? 4 : std::pow(std::pow(3, p) + std::pow(4, p), 1 / p);
    const GradReport report = clip_grad_norm_({a, b}, 2, p);
    CHECK(close(report.norm, norm, {1e-6, 0}));
    CHECK(report.worst == 1);
    CHECK(close(a.grad(), {3 * 2 / norm}, {1e-6, 0}));
    CHECK(close(b.grad(), {4 * 2 / norm}, {1e-6, 0}));
    CHECK(a.grad().device() == dev(1));
    CHECK(b.grad().device() == dev(0));
  }
}

TEST_CASE("clip_grad_norm_: a NaN makes all gradients NaN, an infinity zeroes the finite ones") {
  for (double p : {1.0, 2.0, 3.0, kInfinity}) {
    Tensor a = with_grad({2}), b = with_grad({1, kNan});
    GradReport report = clip_grad_norm_({a, b}, 1, p);
    CHECK(std::isnan(report.norm));
    CHECK(report.nonfinite);
    CHECK(report.clipped);
    CHECK(report.worst == 1);
    CHECK(close(a.grad(), {kNan}));
    Tensor c = with_grad({1, kInfinity}), d = with_grad({2});
    report = clip_grad_norm_({c, d}, 1, p);
    CHECK(report.norm == kInfinity);
    CHECK(report.nonfinite);
    CHECK(report.worst == 0);
    CHECK(close(c.grad(), {0, kNan}, {0, 0}));
    CHECK(close(d.grad(), {0}, {0, 0}));
    Tensor e = with_grad({5}), f = with_grad({kInfinity}), g = with_grad({kNan});
    CHECK(clip_grad_norm_({e, f, g}, 1, p).worst == 1);  // the first of them
  }
}

TEST_CASE("clip_grad_norm_: error_if_nonfinite throws before anything changes") {
  Tensor a = with_grad({1, kInfinity}), b = with_grad({2});
  CHECK(throws<UsageError>(
      [&] {
        clip_grad_norm_({b, a}, 1, 2, {.error_if_nonfinite = true});
      },
      {"[clip_grad_norm_]", "parameter 1", "inf"}));
  CHECK(close(a.grad(), {1, kInfinity}, {0, 0}));
  CHECK(close(b.grad(), {2}, {0, 0}));
  CHECK_NOTHROW(clip_grad_norm_({b}, 1, 2, {.error_if_nonfinite = true}));
}

TEST_CASE("clip_grad_norm_: finite gradients whose norm leaves float32 are clipped, not zeroed") {
  for (double p : {1.0, 2.0, 3.0, kInfinity}) {
    Tensor a = with_grad({3e38, 1e38}), b = with_grad({3e38});
    const double norm = p == kInfinity ? 3e38 : 1e38 * std::pow(2 * std::pow(3.0, p) + 1, 1 / p);
    const GradReport report = clip_grad_norm_({a, b}, 2, p, {.error_if_nonfinite = true});
    CHECK(close(report.norm, norm, {1e-6, 0}));
    CHECK(!report.nonfinite);
    CHECK(close(a.grad(), {3e38 * 2 / norm, 1e38 * 2 / norm}, {1e-6, 0}));
  }
}

TEST_CASE("clip_grad_norm_: 16-bit gradients are summed in float32, so 300^2 does not overflow") {
  for (double p : {2.0, 3.0}) {
    Tensor a = with_grad({300, 400}, float16),
           b = with_grad({0}, has_float64() ? float64 : float32);
    const double norm = p == 2 ? 500 : 449.79414452754724;
    const GradReport report = clip_grad_norm_({a, b}, 50, p);
    CHECK(close(report.norm, norm, {1e-6, 0}));
    // 2^-11: the products are rounded to float16
    CHECK(close(a.grad(), {300 * 50 / norm, 400 * 50 / norm}, {0x1p-11, 0}));
    CHECK(a.grad().dtype() == float16);
  }
}

TEST_CASE("clip_grad_norm_: a negative bound or a norm of 0 is refused") {
  Tensor p = with_grad({1});
  CHECK(throws<UsageError>([&] { clip_grad_norm_({p}, -1); }, {"max_norm", "-1"}));
  CHECK(throws<UsageError>([&] { clip_grad_norm_({p}, 1, 0); }, {"norm_type", "0"}));
}

TEST_CASE("clip_grad_norm_: empty gradients count as zero") {
  Tensor empty = with_grad({}), p = with_grad({-2});
  for (double norm : {2.0, 1.0, 3.0, kInfinity}) {
    CHECK(close(clip_grad_norm_({empty, p}, 10, norm).norm, 2, {1e-6, 0}));
  }
}

TEST_CASE("clip_grads_with_norm_: a norm from elsewhere gives what clip_grad_norm_ would") {
  Tensor a = with_grad({3, 4}), b = with_grad({3, 4});
  clip_grad_norm_({a}, 1);
  CHECK(clip_grads_with_norm_({b}, 1, 5));
  CHECK(bits_equal(a.grad(), b.grad()));
  CHECK(!clip_grads_with_norm_({b}, 1, 0.5));
  CHECK(bits_equal(a.grad(), b.grad()));
  CHECK(throws<UsageError>([&] { clip_grads_with_norm_({b}, -1, 1); }, {"max_norm", "-1"}));
  CHECK(throws<UsageError>([&] { clip_grads_with_norm_({b}, 1, -2); }, {"-2"}));
}

TEST_CASE("clip_grad_value_: every element to [-limit, limit], NaN stays NaN") {
  Tensor a = with_grad({-3, 0.5, 2, kInfinity, kNan}), b = with_grad({0.25}, float32, dev(1));
  const GradReport report = clip_grad_value_({a, Tensor(), b}, 1);
  CHECK(close(a.grad(), {-1, 0.5, 1, 1, kNan}, {0, 0}));
  CHECK(close(b.grad(), {0.25}, {0, 0}));
  CHECK(std::isnan(report.norm));
  CHECK(report.nonfinite);
  CHECK(report.clipped);
  CHECK(report.worst == 0);
}

TEST_CASE("clip_grad_value_: in place, and only where something is too large") {
  Tensor a = with_grad({-0.5, 1}), b = with_grad({1.5});
  const Tensor view = b.grad();
  const std::uint64_t version = a.grad().array().version();
  const GradReport report = clip_grad_value_({a, b}, 1);
  CHECK(report.norm == 1.5);
  CHECK(report.worst == 1);
  CHECK(close(view, {1}, {0, 0}));
  CHECK(a.grad().array().version() == version);
  CHECK(!clip_grad_value_({a, b}, 1).clipped);
  CHECK(throws<UsageError>([&] { clip_grad_value_({a}, -1); }, {"limit", "-1"}));
}
