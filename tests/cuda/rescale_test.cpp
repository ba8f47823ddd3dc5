// rescale on a GPU: products as on the CPU, sums of squares against double, Inf and NaN wherever
// they are, and sums that do not depend on where tensors lie or on their company.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "tests/cuda/arrays.h"

using namespace tandem;
using namespace tandem::test;

namespace {

constexpr std::int64_t kChunk = 16384;  // elements that a block takes

struct Found {
  std::vector<double> squares, bad;
};

Found rescale(double factor, std::vector<Array>& xs) {
  Array found = on_gpu(garbage({std::int64_t(xs.size()), 2}, float32));
  cuda_backend().rescale(factor, xs, found);
  Found f;
  const auto values = values_of(on_host(found));
  for (std::size_t i = 0; i < values.size(); i += 2) {
    f.squares.push_back(values[i]);
    f.bad.push_back(values[i + 1]);
  }
  return f;
}

double sum_of_squares(const std::vector<double>& values) {
  double sum = 0;
  for (double v : values) sum += v * v;
  return sum;
}

}  // namespace

TEST_CASE("rescale: the CPU's products and squares close to the sum in double") {
  for (DType dtype : kGpuFloats) {
    for (Lie lie : {Lie::row_major, Lie::shifted}) {
      for (double factor : {1.0, 0.3}) {
        CAPTURE(dtype);
        CAPTURE(int(lie));
        CAPTURE(factor);
        std::vector<Array> here, there;
        for (std::int64_t n : {std::int64_t(1), std::int64_t(0), std::int64_t(3), std::int64_t(4),
                               std::int64_t(9), std::int64_t(2047), kChunk + 1}) {
          here.push_back(lying(lie, random_doubles(n, std::uint64_t(n)), {n}, dtype));
          there.push_back(on_gpu(here.back()));
        }
        std::vector<double> exact;
        for (const Array& x : here) {
          exact.push_back(sum_of_squares(
              each(values_of(x), [&](double v) { return float(v) * float(factor); })));
        }
        const Found f = rescale(factor, there);
        Array found = garbage({std::int64_t(here.size()), 2}, float32);
        cpu_backend().rescale(factor, here, found);
        for (std::size_t i = 0; i < here.size(); ++i) CHECK(same_bits(there[i], here[i]));
        CHECK(close(f.squares, exact, {1e-6, 0}));  // trees of float32 additions
        CHECK(f.bad == std::vector<double>(here.size(), 0.0));
      }
    }
  }
  CHECK(cudasim::violations().empty());
}

TEST_CASE("rescale: Inf and NaN are found at every edge, in the tensor that has them") {
  const double kInf = std::numeric_limits<double>::infinity();
  const std::int64_t n = kChunk + 5;
  const std::int64_t edges[] = {0, 3, 4, 31, 32, 1023, 1024, kChunk - 1, kChunk, n - 1};
  for (std::int64_t at : edges) {
    for (double bad : {kInf, -kInf, std::nan("")}) {
      CAPTURE(at);
      CAPTURE(bad);
      std::vector<double> values(std::size_t(n), 1.0);
      values[std::size_t(at)] = bad;
      std::vector<Array> xs = {on_gpu(array_of({1, 2, 3}, {3})),
                               on_gpu(array_of(values, {n}, float16)), on_gpu(array_of({4}, {1}))};
      std::vector<Array> halves = {xs[1]};
      CHECK(rescale(1, halves).bad == std::vector<double>{1});
      std::vector<Array> floats = {xs[0], on_gpu(array_of(values, {n})), xs[2]};
      const Found f = rescale(0.5, floats);
      CHECK(f.bad == std::vector<double>{0, 1, 0});
      CHECK(f.squares[0] == 3.5);
      CHECK(f.squares[2] == 4);
    }
  }
}

TEST_CASE("rescale: a product that overflows is no fault of what was there before") {
  std::vector<Array> xs = {on_gpu(array_of({3e38, 1}, {2}))};
  const Found f = rescale(10, xs);
  CHECK(f.bad == std::vector<double>{0});
  CHECK(std::isinf(f.squares[0]));
}

TEST_CASE("rescale: bits of a sum depend on the tensor alone") {
  const auto values = random_doubles(kChunk + 77, 1);
  const Shape shape{kChunk + 77};
  std::vector<Array> alone = {on_gpu(lying(Lie::row_major, values, shape))};
  std::vector<Array> shifted = {on_gpu(lying(Lie::shifted, values, shape))};
  std::vector<Array> many(150, on_gpu(array_of({1, 2}, {2})));
  many[140] = alone[0];
  const double sum = rescale(1, alone).squares[0];
  CHECK(rescale(1, shifted).squares[0] == sum);
  const Found f = rescale(1, many);
  CHECK(f.squares[140] == sum);
  CHECK(f.squares[149] == 5);
}

TEST_CASE("rescale: float64 is refused by name, with the way out") {
  std::vector<Array> xs = {Array::empty({3}, float64, cuda(0))};
  CHECK(throws<UsageError>([&] { rescale(1, xs); },
                           {"[rescale] float64 is not computed on cuda:0", "to(float32)"}));
}
