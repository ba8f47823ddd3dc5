// Dropout on a GPU: the CPU's bits, for every type, row length and place in the global batch.
#include <doctest/doctest.h>

#include "tests/cuda/arrays.h"

using namespace tandem;
using namespace tandem::test;

TEST_CASE("dropout: the same mask and products as on the CPU") {
  const DropoutKey keys[] = {{7, 0, 0, 0.5f},
                             {0x123456789abcdefULL, 3, (std::int64_t(1) << 33) + 5, 0.1f}};
  for (DType dtype : kGpuFloats) {
    for (const DropoutKey& key : keys) {
      for (Shape shape : {Shape{}, {7}, {3, 5}, {2, 8}, {5, 1}, {3, 2, 6}, {2, 1030}}) {
        const Array x = lying(Lie::row_major, random_doubles(shape.numel(), 1), shape, dtype);
        const Array shifted = lying(Lie::shifted, values_of(x), shape, dtype);
        Array expected = garbage(shape, dtype);
        cpu_backend().dropout(key, x, expected);
        for (const Array& from : {x, shifted}) {
          for (Lie to : {Lie::row_major, Lie::shifted}) {
            CAPTURE(dtype);
            CAPTURE(shape);
            CAPTURE(int(to));
            Array y = on_gpu(garbage(shape, dtype, to));
            cuda_backend().dropout(key, on_gpu(from), y);
            CHECK(same_bits(y, expected));
          }
        }
      }
    }
  }
  CHECK(cudasim::violations().empty());
}

TEST_CASE(
    "dropout: channels-last images have the masks of the positions that they have row-major") {
  const DropoutKey key{7, 1, 5, 0.4f};
  for (DType dtype : kGpuFloats) {
    for (Shape shape : {Shape{2, 3, 2, 3},
                        {2, 5, 4, 4},
                        {2, 5, 7, 3},
                        {1, 33, 3, 3},
                        {3, 2, 1, 9},
                        {2, 70, 1, 1}}) {
      CAPTURE(dtype);
      CAPTURE(shape);
      const auto values = random_doubles(shape.numel(), 1);
      Array expected = garbage(shape, dtype);
      cpu_backend().dropout(key, lying(Lie::row_major, values, shape, dtype), expected);
      Array y = on_gpu(garbage(shape, dtype, Lie::rotated));
      cuda_backend().dropout(key, on_gpu(lying(Lie::rotated, values, shape, dtype)), y);
      CHECK(same_bits(y, expected));
    }
  }
  CHECK(cudasim::violations().empty());
}

TEST_CASE("dropout: a slice of the rows has the masks that these rows have in the whole") {
  const Array x = on_gpu(array_of(std::vector<double>(60, 1.0), {6, 10}));
  Array whole = on_gpu(garbage({6, 10}, float32)), part = on_gpu(garbage({2, 10}, float32));
  cuda_backend().dropout({1, 2, 100, 0.3f}, x, whole);
  cuda_backend().dropout({1, 2, 103, 0.3f}, x.narrow(0, 3, 2), part);
  const auto all = values_of(on_host(whole));
  CHECK(values_of(on_host(part)) == std::vector<double>(all.begin() + 30, all.begin() + 50));
}
