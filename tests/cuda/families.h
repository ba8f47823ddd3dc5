// What the tests of the kernel families share: the same call on the simulated GPU and, in float64,
// on the CPU (whose kernels tests/core compares with formulas written out as loops).
#pragma once

#include <doctest/doctest.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "tests/support/check.h"
#include "tests/support/op_checks.h"

#include <tandem/core/array_ops.h>
#include <tandem/core/backend.h>

namespace tandem::test {

/// Where a call computes, and the type that stands for "the float under test" there.
struct Side {
  Device device = cpu(0);
  DType dtype = float64;

  /// `x`, with the values it has in `rounded`, lying in that layout.
  Array array(const std::vector<double>& x, const Shape& shape, DType rounded,
              Layout layout = Layout::row_major) const {
    return typed(x, shape, dtype, rounded, layout);
  }
  Array typed(const std::vector<double>& x, const Shape& shape, DType type, DType rounded,
              Layout layout = Layout::row_major) const {
    Dense values{shape, x};
    for (double& v : values.values) v = stored_as(rounded, v);
    return in_layout(layout, values, type, device);
  }
  /// For a kernel to write: bytes of 0xff, NaN in every floating type. `rotated` and `transposed`
  /// lie like that, everything else is row-major.
  Array garbage(const Shape& shape, DType type, Layout layout = Layout::row_major) const {
    const std::vector<std::uint8_t> bytes(std::size_t(shape.numel() + 1) * size_of(type), 0xff);
    std::vector<int> order;
    for (int d = 0; d < shape.dim(); ++d) order.push_back(d);
    if (layout == Layout::transposed) order = {order.rbegin(), order.rend()};
    if (layout == Layout::rotated && shape.dim() > 1) {
      order.erase(order.begin() + 1);
      order.push_back(1);
    }
    Shape base;
    std::vector<int> back(order.size());
    for (std::size_t d = 0; d < order.size(); ++d) {
      base.push_back(shape[order[d]]);
      back[std::size_t(order[d])] = int(d);
    }
    return Array::from_host(bytes.data(), base, type, device).permute(back);
  }
  Backend& kernels() const { return backend(device); }
};

inline constexpr DType kFloats[] = {float32, float16, bfloat16};

/// One rounding to the type, on top of float32 arithmetic with sums of a few thousand terms.
inline Tolerance rounding(DType dtype) {
  switch (dtype) {
    case DType::float16:
      return {5e-4, 3e-6};
    case DType::bfloat16:
      return {4e-3, 3e-6};
    default:
      return {3e-6, 3e-6};
  }
}

inline Verdict same_values(const std::vector<Array>& actual, const std::vector<Array>& expected,
                           Tolerance tolerance) {
  if (actual.size() != expected.size()) return {false, "another number of results"};
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const Verdict v = close(doubles(actual[i]), doubles(expected[i]), tolerance);
    if (!v) return {false, "result " + std::to_string(i) + ": " + v.why};
  }
  return {};
}

/// `call`(side) on cuda(0) in `dtype` gives what it gives on cpu(0) in float64, and the same bits
/// when it is called again.
inline Verdict agrees(DType dtype, const std::function<std::vector<Array>(const Side&)>& call,
                      Tolerance tolerance) {
  const Side gpu{cuda(0), dtype};
  const std::vector<Array> first = call(gpu), second = call(gpu);
  for (std::size_t i = 0; i < first.size(); ++i) {
    const Verdict v = bits_equal(first[i], second[i]);
    if (!v) return {false, "called twice: " + v.why};
  }
  return same_values(first, call({cpu(0), dtype == int64 ? int64 : float64}), tolerance);
}
inline Verdict agrees(DType dtype, const std::function<std::vector<Array>(const Side&)>& call) {
  return agrees(dtype, call, rounding(dtype));
}

/// Exactly what the CPU gives in the same type; only the bits of a NaN may differ, which a GPU
/// makes its own when it rounds to 16 bits.
inline Verdict equals_cpu(DType dtype, const std::function<std::vector<Array>(const Side&)>& call) {
  return same_values(call({cuda(0), dtype}), call({cpu(0), dtype}), {0, 0});
}

inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kInf = std::numeric_limits<double>::infinity();

}  // namespace tandem::test
