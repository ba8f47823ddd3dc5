// Reductions and places of extrema on the simulated GPU.
#include "tests/cuda/families.h"

#include <tandem/core/reduce_rules.h>

using namespace tandem;
using namespace tandem::test;

namespace {

constexpr ReduceOp kOps[] = {reduce_op<SumRule>, reduce_op<SumOfSquaresRule>, reduce_op<MaxRule>,
                             reduce_op<MinRule>};

using Dims = std::vector<int>;

struct Task {
  Shape shape;
  Dims dims;
};

// `x` without the dimensions `dims`, which keep size 1.
Array reduced(const Side& side, ReduceOp op, const Array& x, const Dims& dims,
              Layout out = Layout::row_major) {
  Shape kept = x.shape();
  for (int d : dims) kept[d] = 1;
  Array y = side.garbage(kept, x.dtype(), out);
  side.kernels().reduce(op, x, y);
  return y;
}

}  // namespace

TEST_CASE("reduce: rows and columns around the sizes of warps, blocks and parts") {
  // 8 rows a block, a warp for up to 1024 values; parts of at least 4096 (256 side by side)
  for (const Task& t : {Task{{1}, {0}}, Task{{33}, {0}}, Task{{9, 32}, {1}}, Task{{2, 1024}, {1}},
                        Task{{2, 1025}, {1}}, Task{{20011}, {0}}, Task{{2, 9000}, {1}},
                        Task{{7, 33}, {0}}, Task{{40, 70}, {0}}, Task{{1100, 3}, {0}},
                        Task{{5, 16}, {1}}, Task{{3, 1}, {1}}, Task{{4, 3}, {}}}) {
    for (ReduceOp op : kOps) {
      CAPTURE(t.shape);
      CAPTURE(int(op));
      const auto x = random_doubles(t.shape.numel(), 1, -2, 2);
      CHECK(agrees(float32,
                   [&](const Side& side) {
                     return std::vector{reduced(side, op, side.array(x, t.shape, float32), t.dims)};
                   },
                   {3e-6, 1e-4}));  // up to 20011 terms, at most 2 each
    }
  }
}

TEST_CASE("reduce: any dimensions, every layout and type") {
  const Shape shape{2, 5, 3, 17};
  for (DType dtype : {float32, float16, bfloat16, int64}) {
    for (int layout = 0; layout < 6; ++layout) {
      for (const Dims& dims :
           std::vector<Dims>{{3}, {0}, {1, 3}, {0, 2}, {0, 2, 3}, {0, 1, 2, 3}}) {
        for (ReduceOp op : kOps) {
          CAPTURE(dtype);
          CAPTURE(layout);
          CAPTURE(dims);
          CAPTURE(int(op));
          const auto x = random_doubles(shape.numel(), 2, -9, 9);
          CHECK(agrees(dtype, [&](const Side& side) {
            const Array a = side.array(x, shape, dtype, Layout(layout));
            return std::vector{reduced(side, op, a, dims, Layout::transposed)};
          }));
        }
      }
    }
  }
}

TEST_CASE("reduce: int64 is exact, NaN wins, infinities stay, an empty sum is 0") {
  const std::vector<std::int64_t> big(600, (std::int64_t(1) << 53) + 1);
  for (const Shape& shape : {Shape{600, 1}, Shape{1, 600}}) {
    const Array x = Array::from_host(big.data(), shape, int64, cuda(0));
    const Array y = reduced({cuda(0), int64}, reduce_op<SumRule>, x, {0, 1});
    CHECK(y.to_vector<std::int64_t>()[0] == 600 * ((std::int64_t(1) << 53) + 1));
    const Array m = reduced({cuda(0), int64}, reduce_op<MaxRule>, x, {0, 1});
    CHECK(m.to_vector<std::int64_t>()[0] == (std::int64_t(1) << 53) + 1);
  }
  std::vector<double> x = random_doubles(4 * 40, 3);
  x[7] = kNan, x[40 + 39] = -kInf, x[80] = kInf, x[159] = kNan, x[158] = kInf;
  for (ReduceOp op : kOps) {
    for (const Dims& dims : {Dims{0}, Dims{1}}) {
      CAPTURE(int(op));
      CHECK(agrees(float32, [&](const Side& side) {
        return std::vector{reduced(side, op, side.array(x, {4, 40}, float32), dims)};
      }));
    }
  }
  const Array none = Side{cuda(0)}.garbage({3, 0}, float32);
  CHECK(doubles(reduced({cuda(0)}, reduce_op<SumRule>, none, {1})) == std::vector<double>(3, 0.0));
}

TEST_CASE("arg_reduce: the first of equals, NaN before all others, every layout and type") {
  for (DType dtype : {float32, float16, bfloat16, int64}) {
    for (int layout = 0; layout < 6; ++layout) {
      for (int dim = 0; dim < 2; ++dim) {
        for (bool largest : {true, false}) {
          CAPTURE(dtype);
          CAPTURE(layout);
          CAPTURE(dim);
          CAPTURE(largest);
          std::vector<double> x;  // many equals
          for (double v : random_doubles(35 * 39, 4, -4, 4)) x.push_back(std::floor(v));
          if (dtype != int64) x[3] = x[90] = x[91] = kNan, x[200] = kInf, x[240] = -kInf;
          CHECK(equals_cpu(dtype, [&](const Side& side) {
            const Array a = side.array(x, {35, 39}, dtype, Layout(layout));
            Shape kept = a.shape();
            kept[dim] = 1;
            Array y = side.garbage(kept, int64);
            side.kernels().arg_reduce(largest, a, dim, y);
            return std::vector{y};
          }));
        }
      }
    }
  }
}

TEST_CASE("arg_reduce: of one, of nothing but infinities, of a row cut into parts") {
  std::vector<double> x(20000, -kInf);
  const auto at = [&](bool largest, const Shape& shape, int dim) {
    return equals_cpu(float32, [&](const Side& side) {
      const Array a = side.array({x.begin(), x.begin() + shape.numel()}, shape, float32);
      Shape kept = shape;
      kept[dim] = 1;
      Array y = side.garbage(kept, int64);
      side.kernels().arg_reduce(largest, a, dim, y);
      return std::vector{y};
    });
  };
  CHECK(at(true, {20000}, 0));
  CHECK(at(true, {5, 1}, 1));
  x[12345] = x[19999] = 3;
  CHECK(at(true, {20000}, 0));
  x[19000] = kNan;
  CHECK(at(true, {20000}, 0));
  CHECK(at(false, {10000, 2}, 0));
}

TEST_CASE("reduce: float64 is refused") {
  const Side gpu{cuda(0), float64};
  const Array x = gpu.array({1, 2}, {2}, float64);
  CHECK(throws<UsageError>([&] { reduced(gpu, reduce_op<SumRule>, x, {0}); }, {"float64"}));
}
