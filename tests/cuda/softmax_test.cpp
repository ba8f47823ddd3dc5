// Softmax, its gradient and the negative log-likelihood on the simulated GPU.
#include "tests/cuda/families.h"

using namespace tandem;
using namespace tandem::test;

TEST_CASE("softmax: values and gradients, rows of any length, every layout and type") {
  for (DType dtype : kFloats) {
    for (const Shape& shape : {Shape{1}, Shape{3, 10}, Shape{9, 33}, Shape{2, 3, 17}}) {
      for (int layout = 0; layout < 6; ++layout) {
        for (bool log : {false, true}) {
          CAPTURE(dtype);
          CAPTURE(shape);
          CAPTURE(layout);
          CAPTURE(log);
          const auto x = random_doubles(shape.numel(), 5, -9, 9);
          const auto dy = random_doubles(shape.numel(), 6);
          CHECK(agrees(dtype, [&](const Side& side) {
            const Array in = side.array(x, shape, dtype, Layout(layout));
            Array y = side.garbage(shape, side.dtype), dx = y.clone();
            side.kernels().softmax(log, in, y);
            // the gradient of a given y: the one above is rounded
            auto given = log ? random_doubles(shape.numel(), 7, -4, 0)
                             : random_doubles(shape.numel(), 7, 0, 1);
            side.kernels().softmax_grad(log, side.array(given, shape, dtype, Layout(layout)),
                                        side.array(dy, shape, dtype, Layout(layout)), dx);
            return std::vector{y, dx};
          }));
        }
      }
    }
  }
}

TEST_CASE("softmax: long rows, large numbers, NaN and infinities") {
  for (std::int64_t n : {1024, 1025, 17000}) {  // a warp, a block of 256, one of 1024
    for (bool log : {false, true}) {
      CAPTURE(n);
      CAPTURE(log);
      std::vector<double> x = random_doubles(3 * n, 8, 80, 100);
      x[std::size_t(n)] = kNan, x[std::size_t(2 * n + 1)] = -kInf;
      CHECK(agrees(float32,
                   [&](const Side& side) {
                     const Array in = side.array(x, {3, n}, float32);
                     Array y = side.garbage({3, n}, side.dtype), dx = y.clone();
                     side.kernels().softmax(log, in, y);
                     side.kernels().softmax_grad(log, in, in, dx);
                     return std::vector{y};
                   },
                   {1e-5, 1e-6}));
    }
  }
}

namespace {

struct Loss {
  Array loss, row_weight;
};

Loss nll(const Side& side, const Array& logp, const Array& target, const Array& weight,
         std::int64_t ignored) {
  const DType type = side.dtype == float64 ? float64 : float32;
  Loss l{side.garbage({logp.size(0)}, type), side.garbage({logp.size(0)}, type)};
  side.kernels().nll(logp, target, weight, ignored, l.loss, l.row_weight);
  return l;
}

}  // namespace

TEST_CASE("nll: losses and gradients with ignored rows and weights, every layout and type") {
  const Shape shape{300, 7};
  std::vector<double> target;
  for (int i = 0; i < 300; ++i) target.push_back(i % 11 == 3 ? -100 : (i * 5) % 7);
  for (DType dtype : kFloats) {
    for (int layout = 0; layout < 6; ++layout) {
      for (bool weighted : {false, true}) {
        CAPTURE(dtype);
        CAPTURE(layout);
        CAPTURE(weighted);
        CHECK(agrees(dtype, [&](const Side& side) {
          const DType wide = side.dtype == float64 ? float64 : float32;
          const auto lying = Layout(layout);
          const Array logp = side.array(random_doubles(2100, 9, -5, 0), shape, dtype, lying);
          const Array at = side.typed(target, {300}, int64, int64, lying);
          Array weight;
          if (weighted) {
            weight = side.typed(random_doubles(7, 10, 0.5, 2), {7}, wide, float32, lying);
          }
          const Loss l = nll(side, logp, at, weight, -100);
          auto dloss = random_doubles(300, 11);
          dloss[3] = kNan;  // of an ignored row
          Array dlogp = side.garbage(shape, side.dtype, lying);
          side.kernels().nll_grad(at, l.row_weight, -100,
                                  side.typed(dloss, {300}, wide, float32, Layout::offset), dlogp);
          return std::vector{l.loss, l.row_weight, dlogp};
        }));
      }
    }
  }
}

TEST_CASE("nll: the first target outside of the classes is named, on the CPU's words") {
  std::vector<double> target(40, 2.0);
  const auto message = [&](Device device) {
    const Side side{device, float32};
    const Array logp = side.array(random_doubles(40 * 3, 12), {40, 3}, float32);
    const Array at = side.typed(target, {40}, int64, int64);
    return thrown_message<UsageError>([&] { nll(side, logp, at, {}, 7); });
  };
  CHECK(message(cuda(0)) == "nothing was thrown");
  target[20] = 7;  // ignored
  CHECK(message(cuda(0)) == "nothing was thrown");
  target[39] = -1, target[33] = 3;
  CHECK(message(cuda(0)) == message(cpu(0)));
  CHECK(contains(message(cuda(0)), "target 3 of row 33"));
}
