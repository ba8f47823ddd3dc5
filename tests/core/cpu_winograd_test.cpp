// Convolutions by Winograd's method. With whole numbers, and weights that are multiples of four,
// its halves are exact too: every direction gives what the definition gives, without a tolerance.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include <tandem/core/numerics.h>

#include "tests/core/cpu_arrays.h"

using namespace tandem;
using namespace tandem::test;

namespace {

struct Case {
  std::int64_t n, c, height, width, o;
  Size2d padding;

  Window2d window() const { return {{3}, {1}, padding, {1}}; }
  std::int64_t rows() const { return height + 2 * padding.h - 2; }
  std::int64_t columns() const { return width + 2 * padding.w - 2; }
  Shape x() const { return {n, c, height, width}; }
  Shape w() const { return {o, c, 3, 3}; }
  Shape y() const { return {n, o, rows(), columns()}; }
};

// Channels that fill no packet, odd outputs, one row of outputs, all paddings, blocks that are not
// full; a gradient of the weight that is computed in two parts.
const Case kCases[] = {{3, 32, 16, 16, 32, {1}},    {5, 33, 9, 13, 40, {0, 2}},
                       {190, 32, 3, 4, 34, {0}},    {2, 47, 25, 11, 32, {2, 0}},
                       {1, 64, 1, 391, 36, {1, 0}}, {8, 32, 32, 32, 32, {1}}};

// f(index in x, in w and in y) for every product of the definition.
template <class F>
void for_each_product(const Case& k, F f) {
  for (std::int64_t n = 0; n < k.n; ++n) {
    for (std::int64_t o = 0; o < k.o; ++o) {
      for (std::int64_t p = 0; p < k.rows(); ++p) {
        for (std::int64_t q = 0; q < k.columns(); ++q) {
          for (std::int64_t i = 0; i < 9; ++i) {
            const std::int64_t row = p + i / 3 - k.padding.h, column = q + i % 3 - k.padding.w;
            if (row < 0 || row >= k.height || column < 0 || column >= k.width) continue;
            for (std::int64_t c = 0; c < k.c; ++c) {
              f(std::size_t(((n * k.c + c) * k.height + row) * k.width + column),
                std::size_t((o * k.c + c) * 9 + i),
                std::size_t(((n * k.o + o) * k.rows() + p) * k.columns() + q));
            }
          }
        }
      }
    }
  }
}

struct AllowWinograd {
  explicit AllowWinograd(bool allow) { set_allow_winograd(allow); }
  ~AllowWinograd() { set_allow_winograd(before); }
  const bool before = allow_winograd();
};

std::vector<bool> both_libraries() {
  return onednn_available() ? std::vector{false, true} : std::vector{false};
}

// Where an infinite input meets positive weights, an output is infinite; this method subtracts two
// infinities on the way.
bool by_winograd(const Window2d& window, std::int64_t groups, const Shape& x, const Shape& w,
                 DType dtype = float32) {
  std::vector<double> xs(std::size_t(x.numel()));
  xs[std::size_t(x[3] + 1)] = std::numeric_limits<double>::infinity();  // row 1, column 1
  const std::vector<double> ws(std::size_t(w.numel()), 1.0);
  const Shape shape{
      x[0], w[0], count_windows(x[2], w[2], window.stride.h, window.padding.h, window.dilation.h),
      count_windows(x[3], w[3], window.stride.w, window.padding.w, window.dilation.w)};
  Array y = garbage(shape, dtype, Lie::rotated);
  cpu_backend().conv2d(window, groups, lying(Lie::rotated, xs, x, dtype),
                       lying(Lie::row_major, ws, w, dtype), {}, y);
  const std::vector<double> ys = values_of(y);
  const bool nan = std::any_of(ys.begin(), ys.end(), [](double v) { return std::isnan(v); });
  REQUIRE((nan || std::count(ys.begin(), ys.end(), xs[std::size_t(x[3] + 1)]) > 0));
  return nan;
}

// y without a bias, computed as a batch of its own.
Array convolved(const Case& k, const Array& x, const Array& w) {
  REQUIRE(by_winograd(k.window(), 1, k.x(), k.w()));
  Array y = garbage(k.y(), float32, Lie::rotated);
  cpu_backend().conv2d(k.window(), 1, x, w, {}, y);
  return y;
}

}  // namespace

TEST_CASE("winograd: outputs and both gradients are exact on whole numbers, however arrays lie") {
  const AllowWinograd allowed(true);
  for (const Case& k : kCases) {
    CAPTURE(k.x());
    CAPTURE(k.w());
    const auto xs = whole_numbers(k.x().numel(), 1), biases = whole_numbers(k.o, 3),
               dys = whole_numbers(k.y().numel(), 4);
    auto ws = whole_numbers(k.w().numel(), 2);
    for (double& v : ws) v *= 4;
    std::vector<double> ys, dxs(xs.size()), dws(ws.size());
    for (std::int64_t i = 0; i < k.y().numel(); ++i) {
      ys.push_back(biases[std::size_t(i / (k.rows() * k.columns()) % k.o)]);
    }
    for_each_product(k, [&](std::size_t x, std::size_t w, std::size_t y) {
      ys[y] += xs[x] * ws[w];
      dxs[x] += dys[y] * ws[w];
      dws[w] += dys[y] * xs[x];
    });
    for (const bool library : both_libraries()) {
      const UseOneDnn use(library);
      REQUIRE((k.height == 1 || by_winograd(k.window(), 1, k.x(), k.w())));
      for (const Lie in : {Lie::row_major, Lie::rotated}) {
        for (const Lie out : {Lie::row_major, Lie::rotated}) {
          CAPTURE(library);
          CAPTURE(int(in));
          CAPTURE(int(out));
          const Array x = lying(in, xs, k.x()), w = lying(out, ws, k.w()),
                      bias = lying(Lie::row_major, biases, {k.o}), dy = lying(out, dys, k.y());
          Array y = garbage(k.y(), float32, out), dx = garbage(k.x(), float32, in),
                dw = garbage(k.w(), float32, in);
          cpu_backend().conv2d(k.window(), 1, x, w, bias, y);
          cpu_backend().conv2d_grad_input(k.window(), 1, w, dy, dx);
          cpu_backend().conv2d_grad_weight(k.window(), 1, x, dy, dw);
          CHECK(values_of(y) == ys);
          CHECK(values_of(dx) == dxs);
          CHECK(values_of(dw) == dws);
        }
      }
    }
  }
}

TEST_CASE("winograd: errors stay within a few roundings of the sum of all products' sizes") {
  const AllowWinograd allowed(true);
  const Case k{4, 64, 14, 14, 32, {1}};
  const Array x = lying(Lie::rotated, random_doubles(k.x().numel(), 1), k.x()),
              w = lying(Lie::row_major, random_doubles(k.w().numel(), 2), k.w());
  const std::vector<double> xs = values_of(x), ws = values_of(w);  // as they were rounded
  std::vector<double> ys(std::size_t(k.y().numel())), sizes(ys.size());
  for_each_product(k, [&](std::size_t a, std::size_t b, std::size_t y) {
    ys[y] += xs[a] * ws[b];
    sizes[y] += std::abs(xs[a] * ws[b]);
  });
  for (const bool library : both_libraries()) {
    const UseOneDnn use(library);
    const std::vector<double> actual = values_of(convolved(k, x, w));
    double worst = 0;
    for (std::size_t i = 0; i < ys.size(); ++i) {
      worst = std::max(worst, std::abs(actual[i] - ys[i]) / sizes[i]);
    }
    // Sixteen sums of 64 products each are added up: about four roundings are typical of that.
    CHECK(worst < 4 * 0x1p-24);
    CHECK(worst > 0);
  }
}

TEST_CASE("winograd: a sample's bits do not depend on the rest of its batch") {
  const AllowWinograd allowed(true);
  const Case all{9, 32, 13, 16, 48, {1}};
  const Array x = lying(Lie::rotated, random_doubles(all.x().numel(), 1), all.x()),
              w = lying(Lie::row_major, random_doubles(all.w().numel(), 2), all.w());
  for (const bool library : both_libraries()) {
    const UseOneDnn use(library);
    const Array y = convolved(all, x, w);
    for (const std::int64_t begin : {0, 3, 4}) {
      Case some = all;
      some.n = 5;
      const Array part = convolved(some, x.narrow(0, begin, some.n), w);
      CHECK(bits_equal(dense_copy(part), dense_copy(y.narrow(0, begin, some.n))));
    }
  }
}

TEST_CASE("winograd: is for large float32 convolutions with windows of 3 x 3 and a stride of 1") {
  const AllowWinograd allowed(true);
  const Shape x{3, 32, 16, 16}, w{32, 32, 3, 3};
  const Window2d window{{3}, {1}, {1}, {1}};
  for (const bool library : both_libraries()) {
    const UseOneDnn use(library);
    CHECK(by_winograd(window, 1, x, w));
    CHECK_FALSE(by_winograd(window, 2, {3, 64, 16, 16}, {64, 32, 3, 3}));
    CHECK_FALSE(by_winograd({{3}, {2}, {1}, {1}}, 1, {12, 32, 16, 16}, w));
    CHECK_FALSE(by_winograd({{3}, {1}, {1}, {2}}, 1, x, w));
    CHECK_FALSE(by_winograd({{3}, {1}, {3}, {1}}, 1, x, w));
    CHECK_FALSE(by_winograd({{5}, {1}, {1}, {1}}, 1, x, {32, 32, 5, 5}));
    CHECK_FALSE(by_winograd(window, 1, x, w, float64));
    CHECK_FALSE(by_winograd(window, 1, x, w, bfloat16));
    CHECK_FALSE(by_winograd(window, 1, x, {31, 32, 3, 3}));
    CHECK_FALSE(by_winograd(window, 1, {3, 31, 16, 16}, {32, 31, 3, 3}));
    CHECK_FALSE(by_winograd(window, 1, {1, 32, 14, 14}, w));  // half of a block
  }
}

TEST_CASE("winograd: may be switched off, and then the plain sums are computed") {
  const AllowWinograd allowed(false);
  CHECK_FALSE(by_winograd({{3}, {1}, {1}, {1}}, 1, {3, 32, 16, 16}, {32, 32, 3, 3}));
}
