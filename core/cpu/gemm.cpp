// Matrix products, through Eigen unless oneDNN takes them. Transposed operands are read as they
// lie.
#define EIGEN_DONT_PARALLELIZE
// Eigen's shortcut for small products adds in an order that depends on where the result lies.
#define EIGEN_GEMM_TO_COEFFBASED_THRESHOLD 0
#include <Eigen/Core>
#include <vector>

#include <tandem/core/cpu/accumulate.h>
#include <tandem/core/cpu/backend.h>
#include <tandem/core/cpu/gemm.h>
#include <tandem/core/cpu/onednn.h>
#include <tandem/core/cpu/traverse.h>

namespace tandem {
namespace {

template <class T>
using RowMajor = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// One matrix of a batch as Eigen sees it: rows, or rows of the transpose.
template <class T>
struct Operand {
  Array array;  // owns what `data` points to
  bool transposed;
  std::int64_t outer;  // elements between rows (of the transpose)

  explicit Operand(const Array& x) : array(x) {
    if (!fits(1, 2) && !fits(2, 1)) array = x.contiguous();
    transposed = !fits(1, 2);
    outer =
        std::max<std::int64_t>(array.strides()[transposed ? 2 : 1], array.size(transposed ? 1 : 2));
  }
  host::Matrix<T> matrix(std::int64_t batch) const {
    const T* data = array.data<T>() + batch * array.strides()[0];
    return {data, array.size(transposed ? 2 : 1), array.size(transposed ? 1 : 2), outer,
            transposed};
  }

 private:
  // Can `row` count rows that are dense along `column`?
  bool fits(int row, int column) const {
    const Shape& s = array.strides();
    return (s[column] == 1 || array.size(column) == 1) &&
           (s[row] >= array.size(column) || array.size(row) == 1);
  }
};

// A product of one element: Eigen's order would depend on where the operands lie.
template <class T>
T dot(const T* a, std::int64_t a_stride, const T* b, std::int64_t b_stride, std::int64_t n) {
  std::vector<T> products(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) {
    products[std::size_t(i)] = a[i * a_stride] * b[i * b_stride];
  }
  return host::reduce_run<SumRule>(products.data(), n);
}

template <class T>
void multiply(const Array& a, const Array& b, Array& c, bool accumulate) {
  const Operand<T> left(a), right(b);
  const std::int64_t m = c.size(1), n = c.size(2);
  for (std::int64_t i = 0; i < c.size(0); ++i) {
    T* out = c.fresh_data<T>() + i * m * n;
    if constexpr (std::is_same_v<T, float>) {
      if (host::onednn_product(left.matrix(i), right.matrix(i), out, n, accumulate)) continue;
    }
    if (!accumulate) std::fill_n(out, m * n, T(0));
    host::add_product(left.matrix(i), right.matrix(i), out, n);
  }
}

// Whole numbers, any strides: rare, and there is nothing to gain from Eigen.
void multiply_whole(const Array& a, const Array& b, Array& c, bool accumulate) {
  using T = std::int64_t;
  const std::int64_t m = c.size(1), n = c.size(2);
  for (std::int64_t i = 0; i < c.size(0) * m; ++i) {
    const T* row = a.data<T>() + i / m * a.strides()[0] + i % m * a.strides()[1];
    T* out = c.fresh_data<T>() + i * n;
    if (!accumulate) std::fill_n(out, n, T(0));
    for (std::int64_t k = 0; k < a.size(2); ++k) {
      const T factor = row[k * a.strides()[2]];
      const T* other = b.data<T>() + i / m * b.strides()[0] + k * b.strides()[1];
      for (std::int64_t j = 0; j < n; ++j) out[j] += factor * other[j * b.strides()[2]];
    }
  }
}

}  // namespace

template <class T>
void host::add_product(const Matrix<T>& a, const Matrix<T>& b, T* c, std::int64_t c_stride) {
  using Rows = Eigen::Map<const RowMajor<T>, 0, Eigen::OuterStride<>>;
  const std::int64_t m = a.transposed ? a.columns : a.rows, n = b.transposed ? b.rows : b.columns;
  if (m == 1 && n == 1) {
    const std::int64_t depth = a.transposed ? a.rows : a.columns;
    *c += dot(a.data, a.transposed ? a.stride : 1, b.data, b.transposed ? 1 : b.stride, depth);
    return;
  }
  const Rows p(a.data, a.rows, a.columns, Eigen::OuterStride<>(a.stride));
  const Rows q(b.data, b.rows, b.columns, Eigen::OuterStride<>(b.stride));
  Eigen::Map<RowMajor<T>, 0, Eigen::OuterStride<>> out(c, m, n, Eigen::OuterStride<>(c_stride));
  if (a.transposed && b.transposed) {
    out.noalias() += p.transpose() * q.transpose();
  } else if (a.transposed) {
    out.noalias() += p.transpose() * q;
  } else if (b.transposed) {
    out.noalias() += p * q.transpose();
  } else {
    out.noalias() += p * q;
  }
}

template void host::add_product(const Matrix<float>&, const Matrix<float>&, float*, std::int64_t);
template void host::add_product(const Matrix<double>&, const Matrix<double>&, double*,
                                std::int64_t);

void CpuBackend::gemm(const Array& a, const Array& b, Array& c, bool accumulate) {
  if (c.numel() == 0) return;
  if (a.size(2) == 0) {
    if (!accumulate) fill(c, 0);
    return;
  }
  switch (a.dtype()) {
    case DType::float32:
      return multiply<float>(a, b, c, accumulate);
    case DType::float64:
      return multiply<double>(a, b, c, accumulate);
    case DType::int64:
      return multiply_whole(a, b, c, accumulate);
    default: {  // 16 bits: accumulate in float32, round once
      if (onednn_.gemm(a, b, c, accumulate)) return;
      Array sum =
          accumulate ? c.to(DType::float32) : Array::empty(c.shape(), DType::float32, c.device());
      multiply<float>(a.to(DType::float32), b.to(DType::float32), sum, accumulate);
      cast(sum, c);
    }
  }
}

}  // namespace tandem
