// Arrays on a simulated GPU that lie in memory in every way a kernel may meet, and the way back to
// the host: whole blocks move, so no kernel of the backend has a part in it. The CPU's twin makes
// them: tests/core/cpu_arrays.h.
#pragma once

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "runtime/cudasim.h"
#include "tests/core/cpu_arrays.h"

namespace tandem::test {

inline Backend& cuda_backend() {
  return backend(cuda(0));
}

/// The block that `a` lies in, moved to `device` byte by byte; `a` lies there as it did.
inline Array moved(const Array& a, Device device) {
  const auto size = std::int64_t(size_of(a.dtype()));
  const std::int64_t count = a.storage()->bytes() / size;
  Array block = Array::empty({count}, a.dtype(), device);
  const void* from = a.storage()->data();
  if (device.kind == DeviceKind::cuda) {
    backend(device).copy_from_host(block.fresh_data(), from, count * size);
  } else {
    backend(a.device()).copy_to_host(block.fresh_data(), from, count * size);
  }
  return block.as_strided(a.shape(), a.strides(), a.offset());
}
inline Array on_gpu(const Array& a) {
  return a.defined() ? moved(a, cuda(0)) : a;
}
inline Array on_host(const Array& a) {
  return a.defined() ? moved(a, cpu(0)) : a;
}

/// Equal bits, apart from what a NaN carries; `actual` may be on a GPU. Nothing was written between
/// its elements if garbage() made it.
inline Verdict same_bits(const Array& actual, const Array& expected) {
  const Array here = on_host(actual);
  if (!gaps_are_intact(here)) return {false, "something was written between the elements"};
  const auto a = values_of(here), e = values_of(expected);
  for (std::size_t i = 0; i < e.size(); ++i) {
    const bool same = std::isnan(e[i]) ? std::isnan(a[i])
                                       : a[i] == e[i] && std::signbit(a[i]) == std::signbit(e[i]);
    if (!same) return {false, str("element ", i, ": ", a[i], ", expected ", e[i])};
  }
  return {};
}

/// A value of every kind that a float can hold, in the first places of `values`.
inline std::vector<double> with_edges(std::vector<double> values) {
  const double inf = std::numeric_limits<double>::infinity();
  const double edges[] = {0.0, -0.0, inf, -inf, std::nan(""), 1e-42, 1, -1, 65504, 3e38};
  for (std::size_t i = 0; i < std::min(values.size(), std::size(edges)); ++i) values[i] = edges[i];
  return values;
}

/// What kernels of floating types are compiled for.
inline constexpr DType kGpuFloats[] = {float32, float16, bfloat16};

/// Half a unit of the last place, relative, plus what a function may err by in float32.
inline Tolerance rounding_of(DType dtype, double in_float = 4e-7) {
  const double half_unit = dtype == float16 ? 0x1p-11 : dtype == bfloat16 ? 0x1p-8 : 0x1p-24;
  const double smallest = dtype == float16 ? 0x1p-25 : 0;  // half of the least subnormal number
  return {half_unit + in_float, smallest + in_float};
}

}  // namespace tandem::test
