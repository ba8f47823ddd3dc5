// The parameters and gradients of tests/golden/make_optim.py, computed here from the same hash.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "tests/support/check.h"

#include <tandem/core/ops/factories.h>
#include <tandem/core/tensor.h>

namespace tandem::test {

inline constexpr std::int64_t kSizes[] = {5, 64, 1003};

inline std::uint64_t splitmix64(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

/// In [-1, 1) times a power of two from 1 to 1/128; exact in float32. Step 0: the parameter itself.
inline Tensor golden_tensor(std::uint64_t step, std::uint64_t param, DType dtype = float32,
                            Device device = dev(0)) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < kSizes[param]; ++i) {
    const std::uint64_t h = splitmix64((step * 16 + param) * 4096 + std::uint64_t(i));
    values.push_back(std::ldexp(double(h >> 40) / 8388608.0 - 1.0, -int(h & 7)));
  }
  const TensorOptions options{.dtype = dtype, .device = device};
  if (dtype == float64) return from_vector(values, options);
  return from_vector(std::vector<float>(values.begin(), values.end()), options);
}

}  // namespace tandem::test
