// clip_grad_norm_ against PyTorch's numbers, and what it does with norms that are not finite.
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

Tensor with_grad(const std::vector<double>& grad, DType dtype = float32, Device device = cpu(0)) {
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
    const Tensor total = clip_grad_norm_(params, golden.max_norm, golden.norm_type);
    // 1e-6: the order in which a thousand float32 numbers are added differs
    CHECK(total.dim() == 0);
    CHECK(close(total, {golden.total}, {1e-6, 0}));
    CHECK(close(doubles(params[0].grad())[0], golden.clipped[0], {1e-6, 0}));
    CHECK(close(doubles(params[1].grad())[63], golden.clipped[1], {1e-6, 0}));
    CHECK(close(doubles(params[2].grad())[1002], golden.clipped[2], {1e-6, 0}));
  }
}

TEST_CASE("clip_grad_norm_: a norm below the bound changes no bit") {
  Tensor p = with_grad({3, 4});
  CHECK(close(clip_grad_norm_({p}, 10), {5.0}, {0, 0}));
  CHECK(close(p.grad(), {3, 4}, {0, 0}));
}

TEST_CASE("clip_grad_norm_: parameters without gradient are passed over; none at all gives 0") {
  Tensor with = with_grad({3, 4}), without = tensor_of({1}, {1}).requires_grad_();
  CHECK(close(clip_grad_norm_({without, with}, 1), {5.0}, {0, 0}));
  CHECK(!without.grad().defined());
  CHECK(close(clip_grad_norm_({without}, 1), {0.0}, {0, 0}));
  CHECK(close(clip_grad_norm_({}, 1), {0.0}, {0, 0}));
}

TEST_CASE("clip_grad_norm_: gradients of several devices share one norm, on the first device") {
  Tensor a = with_grad({3}, float32, cpu(1)), b = with_grad({4}, float32, cpu(0));
  const Tensor total = clip_grad_norm_({a, b}, 2.5);
  CHECK(total.device() == cpu(1));
  CHECK(close(total, {5.0}, {1e-6, 0}));
  CHECK(close(a.grad(), {1.5}, {1e-6, 0}));
  CHECK(close(b.grad(), {2.0}, {1e-6, 0}));
  CHECK(b.grad().device() == cpu(0));
}

TEST_CASE("clip_grad_norm_: a NaN makes all gradients NaN, an infinity zeroes the finite ones") {
  Tensor a = with_grad({1, kNan}), b = with_grad({2});
  CHECK(std::isnan(doubles(clip_grad_norm_({a, b}, 1))[0]));
  CHECK(close(b.grad(), {kNan}));
  Tensor c = with_grad({1, kInfinity}), d = with_grad({2});
  CHECK(close(clip_grad_norm_({c, d}, 1), {kInfinity}));
  CHECK(close(c.grad(), {0, kNan}, {0, 0}));
  CHECK(close(d.grad(), {0}, {0, 0}));
}

TEST_CASE("clip_grad_norm_: error_if_nonfinite throws before anything changes") {
  Tensor a = with_grad({1, kInfinity}), b = with_grad({2});
  CHECK(throws<UsageError>(
      [&] {
        clip_grad_norm_({a, b}, 1, 2, {.error_if_nonfinite = true});
      },
      {"[clip_grad_norm_]", "inf"}));
  CHECK(close(a.grad(), {1, kInfinity}, {0, 0}));
  CHECK(close(b.grad(), {2}, {0, 0}));
}

TEST_CASE("clip_grad_norm_: float16 gradients are summed in float32, so 300^2 does not overflow") {
  Tensor a = with_grad({300, 400}, float16), b = with_grad({0}, float64);
  const Tensor total = clip_grad_norm_({a, b}, 50);
  CHECK(total.dtype() == float64);
  CHECK(close(total, {500.0}, {1e-6, 0}));
  // 2^-10: the factor and the products are rounded to float16
  CHECK(close(a.grad(), {30, 40}, {1.0 / 1024, 0}));
}

TEST_CASE("clip_grad_norm_: a negative bound or a norm of 0 is refused") {
  Tensor p = with_grad({1});
  CHECK(throws<UsageError>([&] { clip_grad_norm_({p}, -1); }, {"max_norm", "-1"}));
  CHECK(throws<UsageError>([&] { clip_grad_norm_({p}, 1, 0); }, {"norm_type", "0"}));
}

TEST_CASE("clip_grad_norm_: empty gradients count as zero") {
  Tensor empty = with_grad({}), p = with_grad({-2});
  CHECK(close(clip_grad_norm_({empty, p}, 1, kInfinity), {2.0}, {0, 0}));
}
