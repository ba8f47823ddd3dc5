// Matrix products, through Eigen unless panels.h or oneDNN take them. Transposed operands are read
// as they lie.
#define EIGEN_DONT_PARALLELIZE
// Eigen's shortcut for small products adds in an order that depends on where the result lies.
#define EIGEN_GEMM_TO_COEFFBASED_THRESHOLD 0
#include <Eigen/Core>
#include <algorithm>
#include <vector>

#include <tandem/core/cpu/accumulate.h>
#include <tandem/core/cpu/backend.h>
#include <tandem/core/cpu/gemm.h>
#include <tandem/core/cpu/onednn.h>
#include <tandem/core/cpu/panels.h>
#include <tandem/core/cpu/team.h>
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

// Note [Parts of a product]
//   Libraries compute a product in panels; the rest that fills none is added up in another order.
//   So a part has the bits of the whole if it begins with a panel, the last part has all of the
//   rest, and sizes of parts do not change the choice of a kernel. Measured: Eigen's panels are of
//   4 rows and of 8, 12, 16, 24 or 48 columns; those of oneDNN's thin products of 16 or 48 columns
//   and up to 96 rows; its other products may be cut anywhere if no part is thin. With AVX-512
//   oneDNN's choices are others, which nobody has measured: there the cut depends on the shape
//   alone and is the same with one thread.
struct Cut {
  bool rows = true;                 // else columns, of the result
  std::vector<std::int64_t> at{0};  // where parts begin, and the end
  double largest = 1;               // part, as a share

  Cut() = default;
  // The bounds of `parts` nearly equal parts of n at multiples of the grain.
  Cut(bool by_rows, std::int64_t n, std::int64_t grain, int parts) : rows(by_rows), largest(0) {
    for (int i = 1; i <= parts; ++i) {
      const std::int64_t even = (n * i / parts + grain / 2) / grain * grain;
      at.push_back(i == parts ? n : std::min(n, std::max(even, at.back() + grain)));
      largest = std::max(largest, double(at.back() - at[std::size_t(i - 1)]) / double(n));
    }
  }
  int parts() const { return int(at.size()) - 1; }
  std::int64_t least() const {
    std::int64_t size = at.back();
    for (std::size_t i = 1; i < at.size(); ++i) size = std::min(size, at[i] - at[i - 1]);
    return size;
  }
};

// The cut into at most so many parts whose largest part is the smallest.
Cut cut_product(std::int64_t m, std::int64_t n, int most, bool by_onednn) {
  constexpr std::int64_t kRows = 96, kColumns = 48;
  const bool thick = by_onednn && !host::onednn_is_thin(m, n);
  Cut best;
  best.at.push_back(m);
  if (m == 1 || n == 1) return best;  // vectors have kernels of their own
  for (int parts = 2; parts <= most; ++parts) {
    for (const bool rows : {true, false}) {
      const std::int64_t grain = rows ? kRows : kColumns;
      const Cut cut(rows, rows ? m : n, grain, parts);
      const std::int64_t least = cut.least();
      if (least < grain) continue;
      if (thick && host::onednn_is_thin(rows ? least : m, rows ? n : least)) continue;
      if (cut.largest < best.largest) best = cut;
    }
  }
  return best;
}

enum class Way { eigen, onednn, panels };

template <class T>
Way way_of(const host::Matrix<T>& a, const host::Matrix<T>& b) {
  if constexpr (std::is_same_v<T, float>) {
    if (host::panels_take(a, b)) return Way::panels;
    if (host::onednn_takes(a, b)) return Way::onednn;
  }
  return Way::eigen;
}

// A copy of `a` where oneDNN would be slow to read it, and `a` becomes it; else undefined.
template <class T>
Array spread(Device device, host::Matrix<T>& a, const host::Matrix<T>& b, Way way) {
  if constexpr (std::is_same_v<T, float>) {
    if (way == Way::onednn) return host::onednn_spread(device, a, b);
  }
  return {};
}

template <class T>
double nanoseconds_of(const host::Matrix<T>& a, const host::Matrix<T>& b) {
  return double(a.height() * a.width()) * double(b.width()) * (sizeof(T) == 4 ? 0.03 : 0.06);
}

// However many threads there are.
template <class T>
int parts_of_shape(const host::Matrix<T>& a, const host::Matrix<T>& b) {
  return int(std::clamp(nanoseconds_of(a, b) / 300'000, 1.0, 8.0));
}

template <class T>
void multiply_here(const host::Matrix<T>& a, const host::Matrix<T>& b, T* out, std::int64_t stride,
                   bool accumulate, Way way) {
  if constexpr (std::is_same_v<T, float>) {
    if (way == Way::panels) return host::panels_product(a, b, out, stride, accumulate);
    if (way == Way::onednn && host::onednn_product(a, b, out, stride, accumulate)) return;
  }
  for (std::int64_t i = 0; i < a.height() && !accumulate; ++i) {
    std::fill_n(out + i * stride, b.width(), T(0));
  }
  host::add_product(a, b, out, stride);
}

// Row-major out = a b, or out += a b, in at most so many parts.
template <class T>
void multiply_matrices(Device device, int most, const host::Matrix<T>& a, const host::Matrix<T>& b,
                       T* out, bool accumulate) {
  const Way way = way_of(a, b);
  const std::int64_t n = b.width();
  host::Matrix<T> left = a;
  const Array copy = spread(device, left, b, way);
  if (way == Way::onednn && host::onednn_has_avx512()) most = parts_of_shape(a, b);
  if (most == 1) return multiply_here(left, b, out, n, accumulate, way);
  const Cut cut = cut_product(a.height(), n, most, way == Way::onednn);
  host::for_each_part(device, cut.parts(), [&](int part) {
    const std::int64_t begin = cut.at[std::size_t(part)],
                       count = cut.at[std::size_t(part) + 1] - begin;
    if (cut.rows) {
      multiply_here(left.rows_from(begin, count), b, out + begin * n, n, accumulate, way);
    } else {
      multiply_here(left, b.columns_from(begin, count), out + begin, n, accumulate, way);
    }
  });
}

template <class T>
void multiply(const Array& a, const Array& b, Array& c, bool accumulate) {
  const Operand<T> left(a), right(b);
  const std::int64_t batch = c.size(0), size = c.size(1) * c.size(2);
  const double nanoseconds = nanoseconds_of(left.matrix(0), right.matrix(0));  // of one product
  T* out = c.fresh_data<T>();
  const int most = host::parts_for(nanoseconds);
  if (batch == 1 || most > batch) {
    for (std::int64_t i = 0; i < batch; ++i) {
      multiply_matrices<T>(c.device(), most, left.matrix(i), right.matrix(i), out + i * size,
                           accumulate);
    }
    return;
  }
  host::for_each_range(c.device(), batch, double(batch) * nanoseconds,
                       [&](std::int64_t i, std::int64_t end) {
                         for (; i < end; ++i) {
                           multiply_matrices<T>(c.device(), 1, left.matrix(i), right.matrix(i),
                                                out + i * size, accumulate);
                         }
                       });
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
  const std::int64_t m = a.height(), n = b.width();
  if (m == 1 && n == 1) {
    *c += dot(a.data, a.transposed ? a.stride : 1, b.data, b.transposed ? 1 : b.stride, a.width());
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

void host::product(Device device, const Matrix<float>& a, const Matrix<float>& b, float* c,
                   std::int64_t c_stride, bool accumulate) {
  const Way way = way_of(a, b);
  Matrix<float> left = a;
  const Array copy = spread(device, left, b, way);
  multiply_here(left, b, c, c_stride, accumulate, way);
}

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
