// A matrix product on plain pointers, for kernels that are made of products. Private to core/cpu.
#pragma once

#include <cstdint>

#include <tandem/core/device.h>

namespace tandem::host {

/// Row-major with `stride` elements between rows; `transposed`: what is meant is its transpose.
template <class T>
struct Matrix {
  const T* data;
  std::int64_t rows, columns, stride;  // as it lies
  bool transposed = false;

  // What is meant: its size, and some of its rows or columns.
  std::int64_t height() const { return transposed ? columns : rows; }
  std::int64_t width() const { return transposed ? rows : columns; }
  Matrix rows_from(std::int64_t begin, std::int64_t count) const {
    return transposed ? lying_columns(begin, count) : lying_rows(begin, count);
  }
  Matrix columns_from(std::int64_t begin, std::int64_t count) const {
    return transposed ? lying_rows(begin, count) : lying_columns(begin, count);
  }

 private:
  Matrix lying_rows(std::int64_t begin, std::int64_t count) const {
    return {data + begin * stride, count, columns, stride, transposed};
  }
  Matrix lying_columns(std::int64_t begin, std::int64_t count) const {
    return {data + begin, rows, count, stride, transposed};
  }
};

/// c += a b, where c is row-major. The order of additions depends on sizes only. float and double.
template <class T>
void add_product(const Matrix<T>& a, const Matrix<T>& b, T* c, std::int64_t c_stride);

/// c = a b, or c += a b if `accumulate`, in whichever way is the quickest, on this thread alone.
/// Workspace comes from `device`.
void product(Device device, const Matrix<float>& a, const Matrix<float>& b, float* c,
             std::int64_t c_stride, bool accumulate);

}  // namespace tandem::host
