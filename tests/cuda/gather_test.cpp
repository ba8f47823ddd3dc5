// Gather and scatter_add on the simulated GPU.
#include "tests/cuda/families.h"
#include "tests/support/indices.h"

using namespace tandem;
using namespace tandem::test;

TEST_CASE("gather: x at the index along a dimension, every layout and type; and back") {
  const Shape x_shape{4, 3, 5};
  for (DType dtype : {float32, float16, bfloat16, float64, int64, int32, uint8, boolean}) {
    for (int layout = 0; layout < 6; ++layout) {
      for (int dim = 0; dim < 3; ++dim) {
        for (const bool rows : {false, true}) {
          CAPTURE(dtype);
          CAPTURE(layout);
          CAPTURE(dim);
          CAPTURE(rows);
          Shape shape = x_shape;
          shape[dim] = 7;
          CHECK(equals_cpu(dtype, [&](const Side& side) {
            const auto lying = Layout(layout);
            const Array x = side.array(random_doubles(60, 13, 0, 50), x_shape, dtype, lying);
            const Array list = side.typed(some_index(7, x_shape[dim]), {7}, int64, int64);
            const Array index = rows ? as_rows(list, shape, dim)
                                     : side.typed(some_index(shape.numel(), x_shape[dim]), shape,
                                                  int64, int64, lying);
            std::vector<Array> results{side.garbage(shape, dtype, lying)};
            side.kernels().gather("test", dim, x, index, results[0]);
            if (dtype == float32 || dtype == float16 || dtype == bfloat16) {
              const auto dy = random_doubles(shape.numel(), 14);
              results.push_back(side.garbage(x_shape, dtype, lying));
              side.kernels().scatter_add(dim, index, side.array(dy, shape, dtype, lying),
                                         results[1]);
            }
            return results;
          }));
        }
      }
    }
  }
}

// Sums in the order of i in float32: the bits are the CPU's.
TEST_CASE("scatter_add: whole rows, more than a warp of them and of their columns") {
  for (std::int64_t columns : {1, 31, 200}) {
    for (std::int64_t count : {1, 33, 100}) {
      for (DType dtype : kFloats) {
        CAPTURE(columns);
        CAPTURE(count);
        CAPTURE(dtype);
        CHECK(equals_cpu(dtype, [&](const Side& side) {
          const Array list = side.typed(some_index(count, 9), {count}, int64, int64);
          const Array dy = side.array(random_doubles(count * columns, 15), {count, columns}, dtype);
          Array dx = side.garbage({11, columns}, dtype);  // nobody picks rows 9 and 10
          side.kernels().scatter_add(0, as_rows(list, dy.shape(), 0), dy, dx);
          return std::vector{dx};
        }));
      }
    }
  }
}

TEST_CASE("scatter_add: nothing to add leaves zeros") {
  const Side gpu{cuda(0), float32};
  const Array index = gpu.typed({}, {0, 3}, int64, int64), dy = gpu.array({}, {0, 3}, float32);
  Array dx = gpu.garbage({2, 3}, float32);
  gpu.kernels().scatter_add(0, index, dy, dx);
  CHECK(doubles(dx) == std::vector<double>(6, 0.0));
}

TEST_CASE("gather: an index outside is named with op and position, on the CPU's words") {
  const auto message = [&](Device device, std::int64_t size, std::vector<double> index) {
    const Side side{device, float32};
    const Array x = side.array(std::vector<double>(std::size_t(size * 2), 1.0), {size, 2}, float32);
    const Shape shape{std::int64_t(index.size()), 2};
    const Array list = side.typed(index, {shape[0]}, int64, int64);
    Array y = side.garbage(shape, float32);
    return thrown_message<UsageError>(
        [&] { side.kernels().gather("embedding", 0, x, as_rows(list, shape, 0), y); });
  };
  CHECK(message(cuda(0), 3, {0, 1, 2, 2}) == "nothing was thrown");
  for (const std::vector<double>& index :
       {std::vector<double>{0, 3, -1}, std::vector<double>{2, 0, -1}}) {
    CHECK(message(cuda(0), 3, index) == message(cpu(0), 3, index));
    CHECK(contains(message(cuda(0), 3, index), "[embedding] index"));
  }
  CHECK(message(cuda(0), 0, {0}) == message(cpu(0), 0, {0}));
}
