// Matrix products through cuBLAS, which counts columns first: a row-major c (M, N) is its c^T (N,
// M), and c^T = b^T a^T, so the operands change places and nothing is copied. Transposed views and
// batches are read as they lie; only strides that cuBLAS cannot take make a copy.
#include <algorithm>
#include <climits>

#include <tandem/core/cuda/backend.h>
#include <tandem/core/cuda/kernels/whole_gemm.h>
#include <tandem/core/cuda/layout.h>
#include <tandem/core/numerics.h>

namespace tandem {
namespace {

// One matrix of a batch as cuBLAS sees it: `op` of columns that lie `ld` elements apart.
struct Operand {
  Array array;  // owns what is read
  cublasOperation_t op;
  int ld;

  explicit Operand(const Array& x) : array(x) {
    if (!fits(1, 2) && !fits(2, 1)) array = x.contiguous();
    const bool rows = fits(1, 2);  // rows are dense: they are cuBLAS's columns
    op = rows ? CUBLAS_OP_N : CUBLAS_OP_T;
    const int outer = rows ? 1 : 2, inner = rows ? 2 : 1;
    const std::int64_t step = array.size(outer) == 1 ? 1 : array.strides()[outer];
    ld = gpu::narrow<int>("matmul", std::max(step, array.size(inner)));
  }
  long long batch_stride() const { return array.size(0) == 1 ? 0 : array.strides()[0]; }

 private:
  // Can `row` count rows that are dense along `column`?
  bool fits(int row, int column) const {
    const Shape& s = array.strides();
    return (s[column] == 1 || array.size(column) == 1) &&
           (array.size(row) == 1 || (s[row] >= array.size(column) && s[row] <= INT_MAX));
  }
};

cudaDataType type_of(DType dtype) {
  return dtype == DType::float32 ? CUDA_R_32F
                                 : (dtype == DType::float16 ? CUDA_R_16F : CUDA_R_16BF);
}

// Sums are float32; operands of float32 are rounded to TF32 only if the program allows it.
cublasComputeType_t compute_type(DType dtype) {
  const bool tf32 = dtype == DType::float32 && allow_tf32();
  return tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

// Room for the partial sums of a product whose inner dimension is split. A function of the shape
// alone, as the order of additions may depend on it.
std::int64_t workspace_for(const Array& c) {
  constexpr std::int64_t kLeast = std::int64_t(64) << 10, kSplits = 16;
  return std::clamp(c.numel() * kSplits * 4, kLeast, CudaBackend::kMostWorkspace);
}

}  // namespace

void CudaBackend::gemm(const Array& a, const Array& b, Array& c, bool accumulate) {
  gpu::refuse_float64("matmul", c);
  if (c.numel() == 0) return;
  const std::int64_t m = c.size(1), n = c.size(2), k = a.size(2);
  if (k == 0) {
    if (!accumulate) fill(c, 0);
    return;
  }
  if (c.dtype() == DType::int64) return multiply_whole(a, b, c, accumulate);

  const auto size = [](std::int64_t v) { return gpu::narrow<int>("matmul", v); };
  const Operand left(a), right(b);
  const float one = 1, beta = accumulate ? 1 : 0;
  const cudaDataType type = type_of(c.dtype());
  blas(workspace_for(c), [&](cublasHandle_t handle) {
    TANDEM_CUDA_CHECK(
        device(), cublasGemmStridedBatchedEx(
                      handle, right.op, left.op, size(n), size(m), size(k), &one,
                      right.array.data(), type, right.ld, right.batch_stride(), left.array.data(),
                      type, left.ld, left.batch_stride(), &beta, c.fresh_data(), type, size(n),
                      m * n, size(c.size(0)), compute_type(c.dtype()), CUBLAS_GEMM_DEFAULT));
  });
}

// Whole numbers: rare, and cuBLAS has none of 64 bits.
void CudaBackend::multiply_whole(const Array& a, const Array& b, Array& c, bool accumulate) {
  const auto matrix = [](const Array& x) {
    const Shape& s = x.strides();
    return gpu::WholeMatrix{x.data<std::int64_t>(), s[0], s[1], s[2]};
  };
  launch("matmul", [&](cudaStream_t on) {
    gpu::multiply_whole(matrix(a), matrix(b), c.fresh_data<std::int64_t>(), c.size(0), c.size(1),
                        c.size(2), a.size(2), accumulate, on);
  });
}

}  // namespace tandem
