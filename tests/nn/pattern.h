// Inputs that the golden numbers of make_words.py were made with, and slopes to compare gradients
// with.
#pragma once

#include <functional>
#include <vector>

#include <tandem/core/tensor.h>

#include "tests/support/check.h"

namespace tandem::test {

/// ((i k) mod 101 - 50) / 25 for the i-th element: from -2 to 2.
inline Tensor pattern(const Shape& shape, std::int64_t k, DType dtype = float32) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < shape.numel(); ++i) {
    values.push_back(double((i * k) % 101 - 50) / 25);
  }
  return tensor_of(values, shape, dtype);
}

/// d f / d x by central differences, in float64: errors of 1e-8 or so.
inline std::vector<double> slopes(const std::function<Tensor(const Tensor&)>& f, const Tensor& x) {
  constexpr double kStep = 1e-5;
  const std::vector<double> at = doubles(x);
  std::vector<double> result;
  for (std::size_t i = 0; i < at.size(); ++i) {
    std::vector<double> low = at, high = at;
    low[i] -= kStep;
    high[i] += kStep;
    const auto value = [&](const std::vector<double>& v) {
      return f(tensor_of(v, x.shape(), float64)).item<double>();
    };
    result.push_back((value(high) - value(low)) / (2 * kStep));
  }
  return result;
}

}  // namespace tandem::test
