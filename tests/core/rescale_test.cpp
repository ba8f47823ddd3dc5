// rescale_: products, norms and the finite check in one pass, against sums in double.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include <tandem/core/rescale.h>

#include "tests/support/check.h"
#include "tests/support/op_checks.h"

using namespace tandem;
using namespace tandem::test;

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

double norm_of(const std::vector<double>& values) {
  double sum = 0;
  for (double v : values) sum += v * v;
  return std::sqrt(sum);
}

Measure rescale_one(Array& x, double factor) {
  return rescale_({&x, 1}, factor)[0];
}

}  // namespace

TEST_CASE("rescale: products are rounded once, in every float type and layout") {
  for (DType dtype : float_types()) {
    for (Layout layout :
         {Layout::row_major, Layout::transposed, Layout::rotated, Layout::gaps, Layout::offset}) {
      CAPTURE(dtype);
      CAPTURE(name(layout));
      Dense values{{7, 5, 60}, random_doubles(2100, 1, -2, 2)};
      for (double& v : values.values) v = stored_as(dtype, v);
      Array x = in_layout(layout, values, dtype, dev(0));
      const std::vector<double> stored = doubles(x);
      const std::uint64_t version = x.version();
      const Measure m = rescale_one(x, 0.3);
      std::vector<double> products;
      for (double v : stored) {
        const double exact = dtype == float64 ? v * 0.3 : double(float(v) * 0.3f);
        products.push_back(stored_as(dtype, exact));
      }
      CHECK(close(x, array_of(products, x.shape(), dtype), {0, 0}));
      CHECK(m.finite);
      // 1e-6: float32 sums of 2100 squares; 2^-9: 16-bit products are measured before they are
      // rounded
      const bool narrow = size_of(dtype) == 2;
      CHECK(close(m.norm, norm_of(products),
                  {narrow             ? 0x1p-9
                   : dtype == float64 ? 1e-14
                                      : 1e-6,
                   0}));
      CHECK(x.version() == version + 1);
    }
  }
}

TEST_CASE("rescale: a factor of 1 measures and writes nothing") {
  Array x = array_of(random_doubles(5000, 3), {5000});
  const Array before = x.clone();
  const std::uint64_t version = x.version();
  CHECK(close(rescale_one(x, 1).norm, norm_of(doubles(before)), {1e-6, 0}));
  CHECK(bits_equal(x, before));
  CHECK(x.version() == version);
}

TEST_CASE("rescale: one infinity or NaN anywhere is found, wherever it lies") {
  for (DType dtype : float_types()) {
    for (std::int64_t at : {0, 511, 512, 1023, 1299}) {
      for (double odd : {kInf, -kInf, kNan}) {
        std::vector<double> values(1300, 1);
        values[std::size_t(at)] = odd;
        Array x = array_of(values, {1300}, dtype);
        for (double factor : {1.0, 0.5}) {
          const Measure m = rescale_one(x, factor);
          CHECK(!m.finite);
          CHECK(!std::isfinite(m.norm));
        }
      }
    }
  }
}

TEST_CASE("rescale: the largest numbers of a type are finite, and norms do not overflow") {
  Array x = array_of({3e38, -3e38, 0}, {3});
  Measure m = rescale_one(x, 1);
  CHECK(m.finite);
  CHECK(close(m.norm, 3e38 * std::sqrt(2.0), {1e-6, 0}));
  Array y = array_of({65504, 65504}, {2}, float16);
  m = rescale_one(y, 1);
  CHECK(m.finite);
  CHECK(close(m.norm, 65504 * std::sqrt(2.0), {1e-6, 0}));
}

TEST_CASE("rescale: norms of tiny numbers do not vanish") {
  Array x = array_of({3e-30, 4e-30}, {2});
  CHECK(close(rescale_one(x, 1).norm, 5e-30, {1e-6, 0}));
  Array zero = array_of({0, -0.0}, {2});
  CHECK(rescale_one(zero, 1).norm == 0);
}

TEST_CASE("rescale: products that overflow are infinite, but what was there was finite") {
  Array x = array_of({0x1p120, 1}, {2});
  const Measure m = rescale_one(x, 0x1p20);
  CHECK(m.finite);
  CHECK(m.norm == kInf);
  CHECK(close(x, array_of({kInf, 0x1p20}, {2}), {0, 0}));
}

TEST_CASE("rescale: arrays of several types, devices and sizes, each with its own measure") {
  std::vector<Array> xs{array_of({3, 4}, {2}), array_of({kInf}, {1}, float_types().back(), dev(1)),
                        array_of({}, {0}), array_of({6, 8}, {2}, bfloat16, dev(1)),
                        array_of({5}, {}, float32, dev(2))};
  const std::vector<Measure> measures = rescale_(xs, 2);
  const double norms[] = {10, kInf, 0, 20, 10};
  for (std::size_t i = 0; i < xs.size(); ++i) {
    CHECK(measures[i].norm == norms[i]);
    CHECK(measures[i].finite == (i != 1));
  }
  CHECK(close(xs[3], array_of({12, 16}, {2}), {0, 0}));
  CHECK(rescale_({}, 2).empty());
}

TEST_CASE("rescale: integers and expanded arrays are refused before anything changes") {
  std::vector<Array> xs{array_of({1}, {1}), array_of({1}, {1}, int64)};
  CHECK(throws<UsageError>([&] { rescale_(xs, 2); }, {"[rescale]", "array 1", "int64"}));
  xs[1] = array_of({1}, {1}).expand({3});
  CHECK(throws<UsageError>([&] { rescale_(xs, 2); }, {"[rescale]", "expanded"}));
  CHECK(close(xs[0], array_of({1}, {1}), {0, 0}));
  CHECK(close(rescale_(xs, 1)[1].norm, std::sqrt(3.0), {1e-7, 0}));
}
