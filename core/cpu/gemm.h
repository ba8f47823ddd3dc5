// A matrix product on plain pointers, for kernels that are made of products. Private to core/cpu.
#pragma once

#include <cstdint>

namespace tandem::host {

/// Row-major with `stride` elements between rows; `transposed`: what is meant is its transpose.
template <class T>
struct Matrix {
  const T* data;
  std::int64_t rows, columns, stride;  // as it lies
  bool transposed = false;
};

/// c += a b, where c is row-major. The order of additions depends on sizes only. float and double.
template <class T>
void add_product(const Matrix<T>& a, const Matrix<T>& b, T* c, std::int64_t c_stride);

}  // namespace tandem::host
