// The CPU's kernels on rows: softmax, negative log-likelihood, dropout.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "tests/core/cpu_arrays.h"

using namespace tandem;
using namespace tandem::test;

namespace {

std::vector<double> softmax_rows(bool log, const std::vector<double>& x, std::int64_t n) {
  std::vector<double> y;
  for (std::size_t row = 0; row < x.size(); row += std::size_t(n)) {
    double largest = x[row], sum = 0;
    for (std::size_t i = row; i < row + std::size_t(n); ++i) largest = std::max(largest, x[i]);
    for (std::size_t i = row; i < row + std::size_t(n); ++i) sum += std::exp(x[i] - largest);
    for (std::size_t i = row; i < row + std::size_t(n); ++i) {
      y.push_back(log ? x[i] - largest - std::log(sum) : std::exp(x[i] - largest) / sum);
    }
  }
  return y;
}

// Half a unit of the last place of the 16-bit types; a few units of float32 and float64.
Tolerance rounding(DType dtype) {
  switch (dtype) {
    case DType::float64:
      return {1e-14, 1e-14};
    case DType::float16:
      return {5e-4, 1e-7};
    case DType::bfloat16:
      return {4e-3, 1e-7};
    default:
      return {2e-6, 1e-6};
  }
}

}  // namespace

TEST_CASE("cpu softmax: values and gradients, rows of any length, every layout and type") {
  for (DType dtype : {float32, float64, float16, bfloat16}) {
    for (const Shape& shape : {Shape{1}, Shape{5}, Shape{3, 10}, Shape{2, 3, 17}, Shape{2, 1100},
                               Shape{4, 1}, Shape{0, 3}, Shape{3, 0}}) {
      for (Lie lie : kLies) {
        for (bool log : {false, true}) {
          CAPTURE(dtype);
          CAPTURE(shape);
          CAPTURE(int(lie));
          CAPTURE(log);
          const Array x = lying(lie, random_doubles(shape.numel(), 51, -9, 9), shape, dtype);
          Array y = garbage(shape, dtype);
          cpu_backend().softmax(log, x, y);
          const auto expected = softmax_rows(log, values_of(x), shape.back());
          REQUIRE(close(values_of(y), expected, rounding(dtype)));

          const Array dy = lying(lie, random_doubles(shape.numel(), 52), shape, dtype);
          Array dx = garbage(shape, dtype);
          cpu_backend().softmax_grad(log, y, dy, dx);
          const auto out = values_of(y), g = values_of(dy);
          std::vector<double> dexpected;
          const auto n = std::size_t(shape.back());
          for (std::size_t i = 0; i < out.size(); ++i) {
            double sum = 0;
            for (std::size_t j = i / n * n; j < i / n * n + n; ++j) {
              sum += log ? g[j] : g[j] * out[j];
            }
            dexpected.push_back(log ? g[i] - std::exp(out[i]) * sum : out[i] * (g[i] - sum));
          }
          REQUIRE(close(values_of(dx), dexpected, rounding(dtype)));
        }
      }
    }
  }
}

TEST_CASE("cpu softmax: masked and huge scores, a row of -Inf only, NaN") {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  const Array x = array_of({1, -inf, 1, 1000, 0, -1000, -inf, -inf, -inf, 0, nan, 0}, {4, 3});
  Array y = garbage({4, 3}, float32), log = garbage({4, 3}, float32);
  cpu_backend().softmax(false, x, y);
  cpu_backend().softmax(true, x, log);
  const double half = std::log(0.5);
  CHECK(close(values_of(y), {0.5, 0, 0.5, 1, 0, 0, nan, nan, nan, nan, nan, nan}, {1e-6, 0}));
  CHECK(close(values_of(log), {half, -inf, half, 0, -1000, -2000, nan, nan, nan, nan, nan, nan},
              {1e-6, 0}));
}

TEST_CASE("cpu softmax: bits depend on the row alone") {
  const std::int64_t n = 37;
  const auto values = random_doubles(5 * n, 53);
  for (bool log : {false, true}) {
    Array all = garbage({5, n}, float32);
    const Array x = array_of(values, {5, n});
    cpu_backend().softmax(log, x, all);
    for (std::int64_t row = 0; row < 5; ++row) {
      Array one = garbage({1, n}, float32, Lie::shifted);
      cpu_backend().softmax(log, x.narrow(0, row, 1), one);
      CHECK(bits_equal(dense_copy(one), dense_copy(all.narrow(0, row, 1))));
    }
  }
}

namespace {
DType real(DType dtype) {
  return dtype == float64 ? float64 : float32;
}
}  // namespace

TEST_CASE("cpu nll: minus the weighted log-probability of the target, and its gradient") {
  for (DType dtype : {float32, float64, float16, bfloat16}) {
    for (Lie lie : kLies) {
      const auto values = whole_numbers(15, 54);
      const Array logp = lying(lie, values, {5, 3}, dtype);
      const Array target = lying(lie, {2, 0, 1, 7, 2}, {5}, int64);  // row 3 is ignored
      const Array weight = lying(lie, {3, 0.5, 2}, {3}, real(dtype));
      for (const bool weighted : {false, true}) {
        const std::vector<double> w =
            weighted ? std::vector<double>{2, 3, 0.5, 0, 2} : std::vector<double>{1, 1, 1, 0, 1};
        Array loss = garbage({5}, real(dtype), lie), row_weight = garbage({5}, real(dtype), lie);
        cpu_backend().nll(logp, target, weighted ? weight : Array(), 7, loss, row_weight);
        CHECK(values_of(row_weight) == w);
        CHECK(values_of(loss) == std::vector<double>{-values[2] * w[0], -values[3] * w[1],
                                                     -values[7] * w[2], 0, -values[14] * w[4]});
        Array dlogp = garbage({5, 3}, dtype, lie);
        const double inf = std::numeric_limits<double>::infinity();
        const Array dloss = lying(lie, {1, 2, 3, inf, 4}, {5}, real(dtype));
        cpu_backend().nll_grad(target, row_weight, 7, dloss, dlogp);
        CHECK(values_of(dlogp) == std::vector<double>{0, 0, -w[0], -2 * w[1], 0, 0, 0, -3 * w[2], 0,
                                                      0, 0, 0, 0, 0, -4 * w[4]});
        CHECK(gaps_are_intact(dlogp));
        CHECK(gaps_are_intact(loss));
        CHECK(gaps_are_intact(row_weight));
      }
    }
  }
  Array none = garbage({0}, float32), no_weight = garbage({0}, float32);
  cpu_backend().nll(garbage({0, 3}, float32), garbage({0}, int64), Array(), -100, none, no_weight);
}

TEST_CASE("cpu nll: a target outside of the classes is refused before anything is written") {
  const Array logp = array_of(std::vector<double>(20, -1.0), {2, 10});
  for (const auto& [bad, text] : {std::pair{12.0, "target 12 of row 1"},
                                  {-1.0, "target -1 of row 1"},
                                  {10.0, "target 10 of row 1"}}) {
    Array loss = array_of({7, 8}, {2}), row_weight = array_of({7, 8}, {2});
    const Array target = array_of({3, bad}, {2}, int64);
    CHECK(throws<UsageError>(
        [&] { cpu_backend().nll(logp, target, Array(), -100, loss, row_weight); },
        {"[cross_entropy]", text, "is outside [0, 10)"}));
    CHECK(values_of(loss) == std::vector<double>{7, 8});
    CHECK(values_of(row_weight) == std::vector<double>{7, 8});
  }
}

// Known answers of the authors' test-suite (kat_vectors of Random123).
TEST_CASE("philox: known answers") {
  const Philox4 zero = philox(0, 0, 0, 0, 0, 0);
  CHECK(zero.v[0] == 0x6627e8d5u);
  CHECK(zero.v[1] == 0xe169c58du);
  CHECK(zero.v[2] == 0xbc57ac4cu);
  CHECK(zero.v[3] == 0x9b00dbd8u);
  const Philox4 pi =
      philox(0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u, 0xa4093822u, 0x299f31d0u);
  CHECK(pi.v[0] == 0xd16cfe09u);
  CHECK(pi.v[1] == 0x94fdccebu);
  CHECK(pi.v[2] == 0x5001e420u);
  CHECK(pi.v[3] == 0x24126ea1u);
}

TEST_CASE("cpu dropout: keeps about 1-p, scaled; each row has a mask of its own") {
  const DropoutKey key{.seed = 5, .call = 1, .first_row = 0, .p = 0.25f};
  const std::int64_t rows = 40, n = 501;
  const Array x = array_of(std::vector<double>(std::size_t(rows * n), 3.0), {rows, n});
  Array y = garbage({rows, n}, float32);
  cpu_backend().dropout(key, x, y);
  const auto values = values_of(y);
  double kept = 0;
  for (double v : values) {
    REQUIRE((v == 0 || v == 4));
    kept += v != 0;
  }
  // 20040 draws: the standard deviation of the share is 0.003
  CHECK(close(kept / double(rows * n), 0.75, {0, 0.012}));
  int equal = 0;
  for (std::size_t i = 0; i < std::size_t(n); ++i) equal += values[i] == values[std::size_t(n) + i];
  CHECK(equal < int(0.75 * double(n)));  // independent rows agree in 62.5 % of the places
}

TEST_CASE("cpu dropout: part of the batch gets its part of the mask; seed and call change it") {
  DropoutKey key{.seed = 5, .call = 1, .first_row = 0, .p = 0.5f};
  for (DType dtype : {float32, float64, float16, bfloat16}) {
    const Array x = array_of(random_doubles(6 * 7 * 3, 55), {6, 7, 3}, dtype);
    Array all = garbage({6, 7, 3}, dtype), part = garbage({2, 7, 3}, dtype);
    key = {.seed = 5, .call = 1, .first_row = 10, .p = 0.5f};
    cpu_backend().dropout(key, x, all);
    key.first_row = 13;
    cpu_backend().dropout(key, x.narrow(0, 3, 2), part);
    CHECK(bits_equal(part, dense_copy(all.narrow(0, 3, 2))));
    for (DropoutKey other : {DropoutKey{6, 1, 10, 0.5f}, DropoutKey{5, 2, 10, 0.5f}}) {
      Array y = garbage({6, 7, 3}, dtype);
      cpu_backend().dropout(other, x, y);
      CHECK(values_of(y) != values_of(all));
    }
  }
}

TEST_CASE("cpu dropout: probabilities of 0 and 1, no rows, no dimensions") {
  const Array x = array_of({1, 2, 3}, {3});
  Array y = garbage({3}, float32), none = garbage({0, 4}, float32), one = garbage({}, float32);
  cpu_backend().dropout({.seed = 1, .call = 0, .first_row = 0, .p = 0.0f}, x, y);
  CHECK(values_of(y) == std::vector<double>{1, 2, 3});
  cpu_backend().dropout({.seed = 1, .call = 0, .first_row = 0, .p = 1.0f}, x, y);
  CHECK(values_of(y) == std::vector<double>{0, 0, 0});
  cpu_backend().dropout({}, garbage({0, 4}, float32), none);
  cpu_backend().dropout({}, array_of({2}, {}), one);
  CHECK(values_of(one) == std::vector<double>{2});
}
