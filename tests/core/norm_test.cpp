// Batch norm and layer norm beyond the op table: the kernels on every kind of shape, running
// statistics, what is saved, what is refused. PyTorch's numbers: tests/nn/norm.cpp.
#include <doctest/doctest.h>

#include <cmath>

#include "tests/support/check.h"

#include <tandem/core/autograd.h>
#include <tandem/core/backend.h>
#include <tandem/core/normal.h>
#include <tandem/core/ops/factories.h>
#include <tandem/core/ops/norm.h>
#include <tandem/core/ops/reduce.h>

using namespace tandem;
using namespace tandem::test;

namespace {

// One unit of the last place of what is stored.
Tolerance rounding(DType dtype) {
  switch (dtype) {
    case float64:
      return {1e-12, 1e-12};
    case float16:
      return {2e-3, 2e-3};
    case bfloat16:
      return {1.6e-2, 1.6e-2};
    default:
      return {5e-6, 5e-6};
  }
}

// What statistics of `x` are good for: float64, or on a GPU float32, of numbers up to 3.
DType statistics_of(DType x) {
  return backend(dev(0)).statistics_type(x);
}
Tolerance exactness(DType x) {
  return statistics_of(x) == float64 ? Tolerance{1e-12, 1e-12} : rounding(float32);
}

struct Channel {  // in float64, written out
  std::vector<double> x, dy, w, b;
  std::vector<std::size_t> at;  // where its elements stand
};

std::vector<Channel> channels_of(const Shape& s, const std::vector<double>& x,
                                 const std::vector<double>& dy, const std::vector<double>& w,
                                 const std::vector<double>& b, bool by_position) {
  std::vector<Channel> all(static_cast<std::size_t>(s[1]));
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t inner = std::size_t(s[2]), c = i / inner % all.size();
    const std::size_t k = by_position ? i % inner : c;
    Channel& me = all[c];
    me.x.push_back(x[i]), me.dy.push_back(dy[i]), me.w.push_back(w[k]), me.b.push_back(b[k]);
    me.at.push_back(i);
  }
  return all;
}

}  // namespace

TEST_CASE("normalize kernels: every kind of shape and type against sums written out") {
  constexpr double kEps = 0.05;
  for (DType dtype : float_types()) {
    for (const Shape& s : {Shape{3, 1, 1}, Shape{5, 130, 1}, Shape{7, 257, 1}, Shape{4, 3, 7},
                           Shape{2, 3, 129}, Shape{1, 5, 300}, Shape{1, 4, 128}, Shape{6, 1, 2}}) {
      for (const bool by_position : {false, true}) {
        CAPTURE(dtype);
        CAPTURE(s);
        CAPTURE(by_position);
        if (by_position && s[2] == 1) continue;
        const Shape few = by_position ? Shape{1, s[2]} : Shape{s[1], 1};
        const DType inside = dtype == float64 ? float64 : float32;
        const Array x = array_of(random_doubles(s.numel(), 1, -2, 3), s, dtype);
        const Array dy = array_of(random_doubles(s.numel(), 2), s, dtype);
        Normal by{{},
                  {},
                  kEps,
                  array_of(random_doubles(few.numel(), 3, 0.5, 2), few, inside),
                  array_of(random_doubles(few.numel(), 4), few, inside)};
        const auto all = channels_of(s, doubles(x), doubles(dy), doubles(by.weight),
                                     doubles(by.bias), by_position);
        std::vector<double> mean, m2, var, sum_g, sum_gx, mean_g, mean_gx;
        std::vector<double> y(static_cast<std::size_t>(s.numel())), dx(y.size());
        for (const Channel& c : all) {
          const double n = double(c.x.size());
          double m = 0, q = 0, g = 0, gx = 0;
          for (double v : c.x) m += v / n;
          for (double v : c.x) q += (v - m) * (v - m);
          const double invstd = 1 / std::sqrt(q / n + kEps);
          for (std::size_t i = 0; i < c.x.size(); ++i) {
            g += c.w[i] * c.dy[i];
            gx += c.w[i] * c.dy[i] * (c.x[i] - m) * invstd;
          }
          for (std::size_t i = 0; i < c.x.size(); ++i) {
            const double xhat = (c.x[i] - m) * invstd;
            y[c.at[i]] = xhat * c.w[i] + c.b[i];
            dx[c.at[i]] = invstd * (c.w[i] * c.dy[i] - g / n - xhat * gx / n);
          }
          mean.push_back(m), m2.push_back(q), var.push_back(q / n);
          sum_g.push_back(g), sum_gx.push_back(gx);
          mean_g.push_back(g / n), mean_gx.push_back(gx / n);
        }
        litter_pool(dev(0));
        const Moments got = moments(x);
        const Tolerance exact = exactness(dtype), products{2e-6, 2e-5};
        CHECK(close(doubles(got.mean), mean, exact));
        CHECK(close(doubles(got.m2), m2, exact));
        by.mean = got.mean;
        by.var = array_of(var, {s[1]}, statistics_of(dtype));
        CHECK(close(doubles(normalize(x, by)), y, rounding(dtype)));
        const NormalSums sums = normalize_sums(x, by, dy);
        // weight dy is rounded to float32 before it is added
        CHECK(close(doubles(sums.g), sum_g, inside == float64 ? exact : products));
        CHECK(close(doubles(sums.gx), sum_gx, inside == float64 ? exact : products));
        const NormalSums means{array_of(mean_g, {s[1]}, statistics_of(dtype)),
                               array_of(mean_gx, {s[1]}, statistics_of(dtype))};
        CHECK(close(doubles(normalize_grad(x, by, dy, means)), dx, rounding(dtype)));
      }
    }
  }
}

TEST_CASE("moments: far from zero, the deviations keep their digits") {
  // A float32 near 1e6 holds sixteenths: the values are exact, their squares would not be.
  std::vector<double> values;
  for (int i = 0; i < 1000; ++i) values.push_back(1e6 + 0.25 * (i % 4));
  const Moments m = moments(array_of(values, {10, 1, 100}));
  const bool wide = statistics_of(float32) == float64;  // else a rounding of float32, and 100
  CHECK(close(doubles(m.mean), {1e6 + 0.375}, {wide ? 1e-15 : 0x1p-24, 0}));
  CHECK(close(doubles(m.m2), {1000 * 0.078125}, {wide ? 1e-9 : 100 * 0x1p-24, 0}));
}

TEST_CASE("batch_norm: training moves the running statistics, with the unbiased variance") {
  // Channels (1, 2, 3, 6) and (0, 0, 0, 4): means 3 and 1, unbiased variances 14/3 and 4.
  const Tensor x = tensor_of({1, 0, 2, 0, 3, 0, 6, 4}, {4, 2});
  Tensor mean = zeros({2}), var = ones({2});
  const std::uint64_t before = mean.version();
  batch_norm(x, mean, var, {}, {}, {.training = true, .momentum = 0.25});
  CHECK(close(mean, {0.75, 0.25}));
  CHECK(close(var, {0.75 + 0.25 * 14 / 3, 0.75 + 0.25 * 4}));
  CHECK(mean.version() == before + 1);
  batch_norm(x, mean, var, {}, {}, {});
  CHECK(mean.version() == before + 1);
  CHECK(close(
      batch_norm(x, mean, var, {}, {}, {.eps = 0}),
      {0.25 / std::sqrt(0.75 + 3.5 / 3), -0.25 / std::sqrt(1.75), 1.25 / std::sqrt(0.75 + 3.5 / 3),
       -0.25 / std::sqrt(1.75), 2.25 / std::sqrt(0.75 + 3.5 / 3), -0.25 / std::sqrt(1.75),
       5.25 / std::sqrt(0.75 + 3.5 / 3), 3.75 / std::sqrt(1.75)}));
}

TEST_CASE("batch_norm: either running statistic may be left out while training") {
  const Tensor x = tensor_of({1, 2, 3, 6}, {4, 1});
  Tensor var = ones({1});
  batch_norm(x, {}, var, {}, {}, {.training = true, .momentum = 1});
  CHECK(close(var, {14.0 / 3}));
}

TEST_CASE("batch_norm: 16-bit values with float32 weights and statistics") {
  const Tensor x = random_tensor({8, 3, 2}, 5, float16);
  Tensor w = full({3}, 2).requires_grad_(), b = zeros({3}).requires_grad_();
  Tensor mean = zeros({3}), var = ones({3});
  const Tensor y = batch_norm(x, mean, var, w, b, {.training = true});
  CHECK(y.dtype() == float16);
  const auto exactly = [](const Tensor& t) { return t.detach().to(cpu(0)).to(float64); };
  const TensorOptions wide{.dtype = float64, .device = cpu(0)};
  Tensor mean64 = zeros({3}, wide), var64 = ones({3}, wide);
  const Tensor exact =
      batch_norm(exactly(x), mean64, var64, exactly(w), exactly(b), {.training = true});
  CHECK(close(y, exact, {5e-4, 1e-6}));  // half a unit of the last place of float16
  CHECK(close(mean, mean64));
  CHECK(close(var, var64));
  sum(y).backward();
  CHECK(w.grad().dtype() == float32);
  CHECK(close(b.grad(), {16, 16, 16}));
}

TEST_CASE("batch_norm: an empty batch leaves the running statistics alone") {
  Tensor mean = ones({3}), var = full({3}, 2);
  const Tensor y = batch_norm(zeros({0, 3, 4}), mean, var, {}, {}, {.training = true});
  CHECK(y.shape() == Shape{0, 3, 4});
  CHECK(close(mean, {1, 1, 1}));
  CHECK(close(var, {2, 2, 2}));
}

TEST_CASE("batch_norm: evaluation's gradient does not notice later moves of the statistics") {
  for (DType dtype : {float32, float64}) {
    if (dtype == float64 && !has_float64()) continue;
    Tensor x = random_tensor({4, 2}, 3, dtype).requires_grad_();
    Tensor mean = zeros({2}, {.dtype = dtype}), var = full({2}, 4, {.dtype = dtype});
    const Tensor y = batch_norm(x, mean, var, {}, {}, {.eps = 0});
    var.fill_(100);
    sum(y).backward();
    CHECK(close(x.grad(), std::vector<double>(8, 0.5)));
  }
}

TEST_CASE("batch_norm and layer_norm: a weight written between forward and backward is noticed") {
  Tensor x = random_tensor({4, 2}, 3).requires_grad_(), w = ones({2});
  const Tensor a = sum(batch_norm(x, {}, {}, w, {}, {.training = true}));
  const Tensor b = sum(layer_norm(x, {2}, w));
  w.fill_(2);
  CHECK(throws<StaleGraphError>([&] { a.backward(); }, {"batch_norm", "changed since forward"}));
  CHECK(throws<StaleGraphError>([&] { b.backward(); }, {"layer_norm", "changed since forward"}));
}

TEST_CASE("batch_norm: what is refused") {
  const Tensor x = random_tensor({4, 3}, 1);
  const auto call = [](const Tensor& in, const Tensor& mean, const Tensor& w, bool training) {
    return [=] { batch_norm(in, mean, mean, w, {}, {.training = training}); };
  };
  CHECK(throws<UsageError>(call({}, {}, {}, true), {"[batch_norm]", "x"}));
  CHECK(throws<UsageError>(call(ones({3}), {}, {}, true), {"(N, C, ...)", "(3,)"}));
  CHECK(throws<UsageError>(call(x.to(int64), {}, {}, true), {"int64", "to(float32)"}));
  CHECK(throws<UsageError>(call(x, {}, {}, false), {"running_mean is undefined"}));
  CHECK(throws<UsageError>(call(x, ones({2}), {}, true), {"running_mean is (2,)", "(3,)"}));
  CHECK(throws<UsageError>(call(x, {}, ones({4}), true), {"weight is (4,)"}));
  CHECK(throws<UsageError>(call(x, {}, ones({3}).to(float64), true), {"float32", "float64"}));
  CHECK(throws<UsageError>(call(x, {}, ones({3}).to(dev(1)), true), {dev_name(0), dev_name(1)}));
  CHECK(throws<UsageError>(call(ones({1, 3}), {}, {}, true), {"more than one value per channel"}));
}

TEST_CASE("layer_norm: what is refused") {
  const Tensor x = random_tensor({4, 3}, 1);
  CHECK(throws<UsageError>([&] { layer_norm(x, {4}); }, {"(4, 3) does not end in (4,)"}));
  CHECK(throws<UsageError>([&] { layer_norm(x, {2, 4, 3}); }, {"does not end in"}));
  CHECK(throws<UsageError>([&] { layer_norm(x, {}); }, {"does not end in"}));
  CHECK(throws<UsageError>([&] { layer_norm(x, {3}, ones({1})); }, {"weight is (1,)"}));
  CHECK(throws<UsageError>([&] { layer_norm(x.to(int64), {3}); }, {"to(float32)"}));
}
