// What the simulated cuBLAS computes, against BLAS (Debian's reference implementation, where CMake
// found it; else loops written here), and against Eigen for batches and 16-bit types.
#include "library_test/blas_support.h"

#include <Eigen/Core>

#include <cmath>
#include <limits>

#ifdef CUDASIM_CBLAS
#include <cblas.h>
#endif

using namespace library_test;

namespace {

struct Shape {
  int m, n, k;
};
constexpr Shape kShapes[] = {{1, 1, 1}, {3, 1, 4}, {1, 5, 2}, {4, 3, 1}, {5, 7, 6}, {8, 8, 8}};

bool transposed(cublasOperation_t op) {
  return op != CUBLAS_OP_N;
}

// C = alpha op(A) op(B) + beta C in float64.
void reference(bool ta, bool tb, Shape s, double alpha, const double* a, int lda, const double* b,
               int ldb, double beta, double* c, int ldc) {
#ifdef CUDASIM_CBLAS
  cblas_dgemm(CblasColMajor, ta ? CblasTrans : CblasNoTrans, tb ? CblasTrans : CblasNoTrans, s.m,
              s.n, s.k, alpha, a, lda, b, ldb, beta, c, ldc);
#else
  for (int row = 0; row < s.m; ++row)
    for (int column = 0; column < s.n; ++column) {
      double sum = 0;
      for (int l = 0; l < s.k; ++l)
        sum += (ta ? a[l + row * lda] : a[row + l * lda]) *
               (tb ? b[column + l * ldb] : b[l + column * ldb]);
      double& out = c[row + column * ldc];
      out = alpha * sum + beta * out;
    }
#endif
}

std::vector<double> widen(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

// Both sum in float64 and round once to float: they may differ by a unit in the last place where
// the sums, in different orders, fall on two sides of a tie.
bool rounds_to(float got, double exact) {
  return std::fabs(got - exact) <= 0.5000001 * std::ldexp(1.0, std::ilogb(exact) - 23) + 1e-15;
}

void check_sgemm(cublasOperation_t op_a, cublasOperation_t op_b, Shape s, int padding, float alpha,
                 float beta) {
  cudasim::Session session;
  const Blas blas;
  const bool ta = transposed(op_a), tb = transposed(op_b);
  const int lda = (ta ? s.k : s.m) + padding, ldb = (tb ? s.n : s.k) + padding;
  const int ldc = s.m + 2 * padding;
  const std::vector<float> a = noise(lda * (ta ? s.m : s.k), 1),
                           b = noise(ldb * (tb ? s.k : s.n), 2);
  const std::vector<float> c = noise(ldc * s.n, 3);
  float* const out = upload(c);
  REQUIRE(cublasSgemm(blas.handle, op_a, op_b, s.m, s.n, s.k, &alpha, upload(a), lda, upload(b),
                      ldb, &beta, out, ldc) == CUBLAS_STATUS_SUCCESS);
  blas.wait();
  std::vector<double> expected = widen(c);
  reference(ta, tb, s, alpha, widen(a).data(), lda, widen(b).data(), ldb, beta, expected.data(),
            ldc);
  const std::vector<float> got = download(out, c.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    CAPTURE(i);
    if (static_cast<int>(i) % ldc < s.m)
      CHECK(rounds_to(got[i], expected[i]));
    else
      CHECK(got[i] == c[i]);  // between the columns
  }
}

}  // namespace

TEST_CASE("cublasSgemm: every transposition, shape and leading dimension, as BLAS") {
  for (cublasOperation_t op_a : kOperations)
    for (cublasOperation_t op_b : kOperations)
      for (const Shape& shape : kShapes)
        for (int padding : {0, 3}) check_sgemm(op_a, op_b, shape, padding, 1.0f, 0.0f);
}

TEST_CASE("cublasSgemm: alpha and beta scale as in BLAS") {
  for (float alpha : {0.0f, 1.0f, -0.3f})
    for (float beta : {0.0f, 1.0f, 0.7f})
      check_sgemm(CUBLAS_OP_T, CUBLAS_OP_N, {4, 5, 3}, 1, alpha, beta);
}

TEST_CASE("cublasSgemm: nothing is read that a zero factor makes needless") {
  cudasim::Session session;
  const Blas blas;
  const float zero = 0, one = 1, two = 2;
  float *a = new_array<float>(4), *b = new_array<float>(4);  // NaN, and unwritten
  float* c = new_array<float>(4);
  SUBCASE("beta = 0: C may be NaN") {
    a = upload<float>({1, 2, 3, 4});
    b = upload<float>({1, 0, 0, 1});
    REQUIRE(cublasSgemm(blas.handle, CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 2, &one, a, 2, b, 2, &zero, c,
                        2) == CUBLAS_STATUS_SUCCESS);
    blas.wait();
    CHECK(download(c, 4) == std::vector<float>{1, 2, 3, 4});
  }
  SUBCASE("alpha = 0: A and B may be NaN, or null") {
    c = upload<float>({1, 2, 3, 4});
    REQUIRE(cublasSgemm(blas.handle, CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 2, &zero, a, 2, nullptr, 2,
                        &two, c, 2) == CUBLAS_STATUS_SUCCESS);
    blas.wait();
    CHECK(download(c, 4) == std::vector<float>{2, 4, 6, 8});
  }
  SUBCASE("k = 0: the product is zero") {
    c = upload<float>({1, 2, 3, 4});
    REQUIRE(cublasSgemm(blas.handle, CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 0, &one, a, 2, b, 1, &two, c,
                        2) == CUBLAS_STATUS_SUCCESS);
    blas.wait();
    CHECK(download(c, 4) == std::vector<float>{2, 4, 6, 8});
  }
  SUBCASE("m = 0: nothing is touched") {
    REQUIRE(cublasSgemm(blas.handle, CUBLAS_OP_N, CUBLAS_OP_N, 0, 2, 2, &one, nullptr, 1, nullptr,
                        2, &zero, nullptr, 1) == CUBLAS_STATUS_SUCCESS);
    blas.wait();
  }
  CHECK(cudasim::violations().empty());
}

TEST_CASE("cublasSgemmStridedBatched: batches with gaps, one B for all of them, as Eigen") {
  using Eigen::Map, Eigen::MatrixXd, Eigen::MatrixXf;
  cudasim::Session session;
  const Blas blas;
  const int m = 3, n = 4, k = 2, batches = 3, stride_a = m * k + 5, stride_c = m * n + 1;
  const std::vector<float> a = noise(stride_a * batches, 1), b = noise(n * k, 2);
  const std::vector<float> c(stride_c * batches, 0.25f);
  float* const out = upload(c);
  const float alpha = 2, beta = 0.5f;
  REQUIRE(cublasSgemmStridedBatched(blas.handle, CUBLAS_OP_N, CUBLAS_OP_T, m, n, k, &alpha,
                                    upload(a), m, stride_a, upload(b), n, 0, &beta, out, m,
                                    stride_c, batches) == CUBLAS_STATUS_SUCCESS);
  blas.wait();
  const std::vector<float> got = download(out, c.size());
  for (int batch = 0; batch < batches; ++batch) {
    const MatrixXd left = Map<const MatrixXf>(a.data() + batch * stride_a, m, k).cast<double>();
    const MatrixXd right = Map<const MatrixXf>(b.data(), n, k).cast<double>();
    const MatrixXd expected = (2 * left * right.transpose()).array() + 0.125;
    for (int i = 0; i < m * n; ++i) CHECK(rounds_to(got[batch * stride_c + i], expected.data()[i]));
    CHECK(got[batch * stride_c + m * n] == 0.25f);
  }
}

namespace {

// A product of 16-bit inputs is as close to the exact result as its type allows.
template <class In, class Out>
void check_narrow(cudaDataType in, cudaDataType out, int mantissa_bits) {
  cudasim::Session session;
  const Blas blas;
  const Shape s{6, 5, 9};
  std::vector<In> a, b;
  for (float v : noise(s.m * s.k, 4)) a.push_back(static_cast<In>(v));
  for (float v : noise(s.k * s.n, 5)) b.push_back(static_cast<In>(v));
  Out* const c = new_array<Out>(s.m * s.n);
  const float alpha = 1.5f, beta = 0;
  REQUIRE(cublasGemmStridedBatchedEx(blas.handle, CUBLAS_OP_N, CUBLAS_OP_N, s.m, s.n, s.k, &alpha,
                                     upload(a), in, s.m, 0, upload(b), in, s.k, 0, &beta, c, out,
                                     s.m, s.m * s.n, 1, CUBLAS_COMPUTE_32F,
                                     CUBLAS_GEMM_DEFAULT) == CUBLAS_STATUS_SUCCESS);
  blas.wait();
  std::vector<double> wide_a, wide_b, expected(s.m * s.n);
  for (In v : a) wide_a.push_back(static_cast<float>(v));
  for (In v : b) wide_b.push_back(static_cast<float>(v));
  reference(false, false, s, alpha, wide_a.data(), s.m, wide_b.data(), s.k, 0, expected.data(),
            s.m);
  const std::vector<Out> got = download(c, expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double unit = std::ldexp(1.0, std::ilogb(expected[i]) - mantissa_bits);
    CHECK(std::fabs(static_cast<float>(got[i]) - expected[i]) <= 0.5000001 * unit);
  }
}

}  // namespace

TEST_CASE("cublasGemmStridedBatchedEx: 16-bit inputs, 16- and 32-bit results, correctly rounded") {
  check_narrow<Eigen::half, Eigen::half>(CUDA_R_16F, CUDA_R_16F, 10);
  check_narrow<Eigen::half, float>(CUDA_R_16F, CUDA_R_32F, 23);
  check_narrow<Eigen::bfloat16, Eigen::bfloat16>(CUDA_R_16BF, CUDA_R_16BF, 7);
  check_narrow<Eigen::bfloat16, float>(CUDA_R_16BF, CUDA_R_32F, 23);
}

TEST_CASE("cublasGemmEx: sums of many float16 products keep what float16 would lose") {
  cudasim::Session session;
  const Blas blas;
  const int k = 4096;  // in float16, 2048 + 1 is 2048
  const std::vector<Eigen::half> ones(k, Eigen::half(1.0f));
  float* const c = new_array<float>(1);
  const float alpha = 1, beta = 0;
  REQUIRE(cublasGemmEx(blas.handle, CUBLAS_OP_T, CUBLAS_OP_N, 1, 1, k, &alpha, upload(ones),
                       CUDA_R_16F, k, upload(ones), CUDA_R_16F, k, &beta, c, CUDA_R_32F, 1,
                       CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT) == CUBLAS_STATUS_SUCCESS);
  blas.wait();
  CHECK(download(c, 1).front() == 4096.0f);
}

TEST_CASE("TF32: inputs keep 10 mantissa bits where the math mode or compute type allows it") {
  cudasim::Session session;
  const Blas blas;
  const float fine = 1.0f + std::ldexp(1.0f, -12), coarse = 1.0f + std::ldexp(1.0f, -10);
  const float alpha = 1, beta = 0;
  float* const a = upload<float>({fine, coarse});
  float* const one = upload<float>({1.0f});
  float* const c = new_array<float>(2);
  const auto result = [&](cublasMath_t math, cublasComputeType_t compute) {
    REQUIRE(cublasSetMathMode(blas.handle, math) == CUBLAS_STATUS_SUCCESS);
    REQUIRE(cublasGemmEx(blas.handle, CUBLAS_OP_N, CUBLAS_OP_N, 2, 1, 1, &alpha, a, CUDA_R_32F, 2,
                         one, CUDA_R_32F, 1, &beta, c, CUDA_R_32F, 2, compute,
                         CUBLAS_GEMM_DEFAULT) == CUBLAS_STATUS_SUCCESS);
    blas.wait();
    return download(c, 2);
  };
  const std::vector<float> exact{fine, coarse}, rounded{1.0f, coarse};
  CHECK(result(CUBLAS_DEFAULT_MATH, CUBLAS_COMPUTE_32F) == exact);
  CHECK(result(CUBLAS_TF32_TENSOR_OP_MATH, CUBLAS_COMPUTE_32F) == rounded);
  CHECK(result(CUBLAS_TF32_TENSOR_OP_MATH, CUBLAS_COMPUTE_32F_PEDANTIC) == exact);
  CHECK(result(CUBLAS_PEDANTIC_MATH, CUBLAS_COMPUTE_32F) == exact);
  CHECK(result(CUBLAS_DEFAULT_MATH, CUBLAS_COMPUTE_32F_FAST_TF32) == rounded);
}

TEST_CASE("cublasSgemv: both operations, vectors with gaps and backwards, as BLAS") {
  const int m = 4, n = 3, lda = 5;
  for (cublasOperation_t op : kOperations)
    for (int incx : {1, 2, -1, -3})
      for (int incy : {1, -2}) {
        CAPTURE(incx);
        CAPTURE(incy);
        cudasim::Session session;
        const Blas blas;
        const int rows = transposed(op) ? n : m, inner = transposed(op) ? m : n;
        const std::vector<float> a = noise(lda * n, 1),
                                 x = noise(1 + (inner - 1) * std::abs(incx), 2);
        const std::vector<float> y = noise(1 + (rows - 1) * std::abs(incy), 3);
        float* const out = upload(y);
        const float alpha = -2, beta = 0.25f;
        REQUIRE(cublasSgemv(blas.handle, op, m, n, &alpha, upload(a), lda, upload(x), incx, &beta,
                            out, incy) == CUBLAS_STATUS_SUCCESS);
        blas.wait();
        std::vector<double> expected = widen(y);
        const auto at = [](int i, int count, int inc) {
          return inc > 0 ? i * inc : (i - count + 1) * inc;
        };
        for (int i = 0; i < rows; ++i) {
          double sum = 0;
          for (int l = 0; l < inner; ++l)
            sum += static_cast<double>(transposed(op) ? a[l + i * lda] : a[i + l * lda]) *
                   x[at(l, inner, incx)];
          double& e = expected[at(i, rows, incy)];
          e = alpha * sum + beta * e;
        }
        const std::vector<float> got = download(out, y.size());
        for (std::size_t i = 0; i < got.size(); ++i) CHECK(rounds_to(got[i], expected[i]));
      }
}
