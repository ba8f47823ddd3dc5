// cuBLAS: products of matrices, and of a matrix and a vector. Arguments are checked as the cuBLAS
// documentation says, function by function; the arithmetic is in gemm.cpp.
#include "blas/context.h"
#include "blas/gemm.h"

#include <algorithm>
#include <cstring>

using namespace cudasim;
using namespace cudasim::blas;

namespace {

constexpr std::size_t kSufficientWorkspace = 16 << 10;  // below, functions may fail
constexpr std::size_t kSpoiled = 256 << 10;             // at most, of a workspace

// ---- what every product checks ------------------------------------------------------------------

// Where a product runs, or why not.
struct Target {
  CUstream_st* stream = nullptr;
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
};

Target target_of(State& s, cublasHandle_t handle, const char* function) {
  if (!is_current(s, handle->device, function)) return {nullptr, CUBLAS_STATUS_EXECUTION_FAILED};
  CUstream_st* stream = find_stream(s, handle->stream, function);
  if (!stream) return {nullptr, CUBLAS_STATUS_EXECUTION_FAILED};
  if (handle->workspace_is == WorkspaceIs::dropped)
    violation(s, std::string(function) +
                     ": cublasSetStream has dropped the workspace that cublasSetWorkspace gave");
  if (handle->workspace_is == WorkspaceIs::the_users &&
      handle->workspace.bytes < kSufficientWorkspace)
    return {nullptr, CUBLAS_STATUS_ALLOC_FAILED};
  return {stream};
}

Workspace used_workspace(const cublasContext& handle) {
  if (handle.workspace_is != WorkspaceIs::the_users) return {};
  return {handle.workspace.data, std::min(handle.workspace.bytes, kSpoiled)};
}

bool is_operation(cublasOperation_t op) {
  return op == CUBLAS_OP_N || op == CUBLAS_OP_T || op == CUBLAS_OP_C;
}

// Multiplication of float32: which inputs the settings allow it to round.
Inputs inputs_of(const cublasContext& handle, cublasComputeType_t compute, cudaDataType type) {
  if (type != CUDA_R_32F) return Inputs::exact;
  switch (compute) {
    case CUBLAS_COMPUTE_32F_FAST_TF32:
      return Inputs::tf32;
    case CUBLAS_COMPUTE_32F_FAST_16F:
      return Inputs::float16;
    case CUBLAS_COMPUTE_32F_FAST_16BF:
      return Inputs::bfloat16;
    case CUBLAS_COMPUTE_32F:
      break;
    default:
      return Inputs::exact;
  }
  switch (handle.math & ~CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION) {
    case CUBLAS_TF32_TENSOR_OP_MATH:
      return Inputs::tf32;
    case CUBLAS_TENSOR_OP_MATH:
      return Inputs::float16;
    default:
      return Inputs::exact;
  }
}

bool real_of(cudaDataType type, Real& real) {
  switch (type) {
    case CUDA_R_32F:
      real = Real::float32;
      return true;
    case CUDA_R_16F:
      real = Real::float16;
      return true;
    case CUDA_R_16BF:
      real = Real::bfloat16;
      return true;
    default:
      return false;
  }
}

// ---- products of matrices -----------------------------------------------------------------------

struct Matrix {
  const void* data;
  cudaDataType type;
  int ld;
  long long stride;  // from batch to batch
};

struct Gemm {
  const char* function;
  cublasOperation_t op_a, op_b;
  int m, n, k;
  const void *alpha, *beta;
  Matrix a, b, c;
  int batches;
  cublasComputeType_t compute;
  cublasGemmAlgo_t algorithm;
};

// The table "supported types" of cublasGemmEx, without the complex and integer rows.
bool is_supported(const Gemm& g) {
  const cudaDataType in = g.a.type, out = g.c.type;
  if (g.b.type != in) return false;
  switch (g.compute) {
    case CUBLAS_COMPUTE_32F:
    case CUBLAS_COMPUTE_32F_PEDANTIC:
      if (in == CUDA_R_16F || in == CUDA_R_16BF) return out == in || out == CUDA_R_32F;
      return in == CUDA_R_32F && out == CUDA_R_32F;
    case CUBLAS_COMPUTE_32F_FAST_TF32:
    case CUBLAS_COMPUTE_32F_FAST_16F:
    case CUBLAS_COMPUTE_32F_FAST_16BF:
      return in == CUDA_R_32F && out == CUDA_R_32F;
    default:
      return false;
  }
}

bool is_algorithm(cublasGemmAlgo_t a) {
  return (a >= CUBLAS_GEMM_DEFAULT && a <= CUBLAS_GEMM_ALGO23) || a == CUBLAS_GEMM_AUTOTUNE ||
         (a >= CUBLAS_GEMM_DEFAULT_TENSOR_OP && a <= CUBLAS_GEMM_ALGO15_TENSOR_OP);
}

cublasStatus_t refuse(const Gemm& g) {
  if (!is_operation(g.op_a) || !is_operation(g.op_b)) return CUBLAS_STATUS_INVALID_VALUE;
  if (g.m < 0 || g.n < 0 || g.k < 0 || g.batches < 0) return CUBLAS_STATUS_INVALID_VALUE;
  const int rows_a = g.op_a == CUBLAS_OP_N ? g.m : g.k, rows_b = g.op_b == CUBLAS_OP_N ? g.k : g.n;
  if (g.a.ld < std::max(1, rows_a) || g.b.ld < std::max(1, rows_b) || g.c.ld < std::max(1, g.m))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (!g.alpha || !g.beta) return CUBLAS_STATUS_INVALID_VALUE;
  if (!is_supported(g) || !is_algorithm(g.algorithm)) return CUBLAS_STATUS_NOT_SUPPORTED;
  return CUBLAS_STATUS_SUCCESS;
}

Operand operand(const char* name, const Matrix& matrix, std::int64_t batches, std::int64_t rows,
                std::int64_t columns, Access access) {
  Operand o{name, matrix.data, {}, {batches, columns, rows}, {matrix.stride, matrix.ld, 1}, access};
  real_of(matrix.type, o.type);
  return o;
}

cublasStatus_t multiply(State& s, Lock& lock, cublasHandle_t handle, const Gemm& g) {
  if (cublasStatus_t status = refuse(g)) return status;
  const Target target = target_of(s, handle, g.function);
  if (!target.stream) return target.status;
  if (g.m == 0 || g.n == 0 || g.batches == 0) return CUBLAS_STATUS_SUCCESS;
  float alpha, beta;  // for every supported compute type
  std::memcpy(&alpha, g.alpha, sizeof alpha);
  std::memcpy(&beta, g.beta, sizeof beta);
  const bool product = alpha != 0 && g.k > 0;
  if (!g.c.data || (product && (!g.a.data || !g.b.data))) return CUBLAS_STATUS_INVALID_VALUE;
  const bool ta = g.op_a != CUBLAS_OP_N, tb = g.op_b != CUBLAS_OP_N;
  const blas::Product p{
      g.batches, g.m, g.n, g.k, ta, tb, alpha, beta, inputs_of(*handle, g.compute, g.a.type)};
  LibraryOperation op{.function = g.function, .workspace = used_workspace(*handle)};
  op.operands = {
      operand("C", g.c, g.batches, g.m, g.n, beta != 0 ? Access::update : Access::write)};
  if (product) {
    op.operands.push_back(
        operand("A", g.a, g.batches, ta ? g.k : g.m, ta ? g.m : g.k, Access::read));
    op.operands.push_back(
        operand("B", g.b, g.batches, tb ? g.n : g.k, tb ? g.k : g.n, Access::read));
  }
  op.compute = [p, product](const std::vector<Operand>& o) {
    product ? blas::multiply(p, o[1], o[2], o[0]) : blas::multiply(p, {}, {}, o[0]);
    return "";
  };
  enqueue_library(s, lock, *target.stream, std::move(op));
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t multiply(cublasHandle_t handle, const Gemm& g) {
  return call(g.function, handle,
              [&](State& s, Lock& lock) { return multiply(s, lock, handle, g); });
}

}  // namespace

extern "C" {

cublasStatus_t CUBLASWINAPI cublasSgemm_v2(cublasHandle_t handle, cublasOperation_t op_a,
                                           cublasOperation_t op_b, int m, int n, int k,
                                           const float* alpha, const float* a, int lda,
                                           const float* b, int ldb, const float* beta, float* c,
                                           int ldc) {
  return multiply(handle, {"cublasSgemm",
                           op_a,
                           op_b,
                           m,
                           n,
                           k,
                           alpha,
                           beta,
                           {a, CUDA_R_32F, lda, 0},
                           {b, CUDA_R_32F, ldb, 0},
                           {c, CUDA_R_32F, ldc, 0},
                           1,
                           CUBLAS_COMPUTE_32F,
                           CUBLAS_GEMM_DEFAULT});
}

cublasStatus_t CUBLASWINAPI cublasSgemmStridedBatched(
    cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n, int k,
    const float* alpha, const float* a, int lda, long long stride_a, const float* b, int ldb,
    long long stride_b, const float* beta, float* c, int ldc, long long stride_c, int batches) {
  return multiply(handle, {"cublasSgemmStridedBatched",
                           op_a,
                           op_b,
                           m,
                           n,
                           k,
                           alpha,
                           beta,
                           {a, CUDA_R_32F, lda, stride_a},
                           {b, CUDA_R_32F, ldb, stride_b},
                           {c, CUDA_R_32F, ldc, stride_c},
                           batches,
                           CUBLAS_COMPUTE_32F,
                           CUBLAS_GEMM_DEFAULT});
}

cublasStatus_t CUBLASWINAPI cublasGemmEx(cublasHandle_t handle, cublasOperation_t op_a,
                                         cublasOperation_t op_b, int m, int n, int k,
                                         const void* alpha, const void* a, cudaDataType type_a,
                                         int lda, const void* b, cudaDataType type_b, int ldb,
                                         const void* beta, void* c, cudaDataType type_c, int ldc,
                                         cublasComputeType_t compute, cublasGemmAlgo_t algorithm) {
  return multiply(handle, {"cublasGemmEx",
                           op_a,
                           op_b,
                           m,
                           n,
                           k,
                           alpha,
                           beta,
                           {a, type_a, lda, 0},
                           {b, type_b, ldb, 0},
                           {c, type_c, ldc, 0},
                           1,
                           compute,
                           algorithm});
}

cublasStatus_t CUBLASWINAPI cublasGemmStridedBatchedEx(
    cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n, int k,
    const void* alpha, const void* a, cudaDataType type_a, int lda, long long stride_a,
    const void* b, cudaDataType type_b, int ldb, long long stride_b, const void* beta, void* c,
    cudaDataType type_c, int ldc, long long stride_c, int batches, cublasComputeType_t compute,
    cublasGemmAlgo_t algorithm) {
  return multiply(handle, {"cublasGemmStridedBatchedEx",
                           op_a,
                           op_b,
                           m,
                           n,
                           k,
                           alpha,
                           beta,
                           {a, type_a, lda, stride_a},
                           {b, type_b, ldb, stride_b},
                           {c, type_c, ldc, stride_c},
                           batches,
                           compute,
                           algorithm});
}

// y = alpha op(A) x + beta y. A vector that runs backwards begins at its last address, as in BLAS.
cublasStatus_t CUBLASWINAPI cublasSgemv_v2(cublasHandle_t handle, cublasOperation_t op, int m,
                                           int n, const float* alpha, const float* a, int lda,
                                           const float* x, int incx, const float* beta, float* y,
                                           int incy) {
  const char* function = "cublasSgemv";
  return call(function, handle, [&](State& s, Lock& lock) {
    if (!is_operation(op) || m < 0 || n < 0 || incx == 0 || incy == 0 || lda < std::max(1, m))
      return CUBLAS_STATUS_INVALID_VALUE;
    if (!alpha || !beta) return CUBLAS_STATUS_INVALID_VALUE;
    const Target target = target_of(s, handle, function);
    if (!target.stream) return target.status;
    if (m == 0 || n == 0) return CUBLAS_STATUS_SUCCESS;
    const bool transposed = op != CUBLAS_OP_N, product = *alpha != 0;
    if (!y || (product && (!a || !x))) return CUBLAS_STATUS_INVALID_VALUE;
    const std::int64_t rows = transposed ? n : m, inner = transposed ? m : n;
    if (incx < 0) x += (1 - inner) * incx;
    if (incy < 0) y += (1 - rows) * incy;
    const blas::Product p{1,      rows,       1,
                          inner,  transposed, false,
                          *alpha, *beta,      inputs_of(*handle, CUBLAS_COMPUTE_32F, CUDA_R_32F)};
    LibraryOperation o{.function = function, .workspace = used_workspace(*handle)};
    o.operands = {{"y",
                   y,
                   Real::float32,
                   {1, 1, rows},
                   {0, 0, incy},
                   *beta != 0 ? Access::update : Access::write}};
    if (product) {
      o.operands.push_back({"A", a, Real::float32, {1, n, m}, {0, lda, 1}, Access::read});
      o.operands.push_back({"x", x, Real::float32, {1, 1, inner}, {0, 0, incx}, Access::read});
    }
    o.compute = [p, product](const std::vector<Operand>& all) {
      product ? blas::multiply(p, all[1], all[2], all[0]) : blas::multiply(p, {}, {}, all[0]);
      return "";
    };
    enqueue_library(s, lock, *target.stream, std::move(o));
    return CUBLAS_STATUS_SUCCESS;
  });
}

}  // extern "C"
