// Every entry point of the simulated libraries can be made to fail.
#include "library_test/dnn_support.h"

#include <cublas_v2.h>

using namespace library_test;

namespace {

// A step of a small net, up to its first error: how many calls it made.
struct Step {
  int calls = 0;
  bool failed = false;

  template <class Status>
  Step& operator()(Status status) {
    ++calls;
    failed = static_cast<int>(status) != 0;
    return *this;
  }
};

// A chain of calls that ends with the first that fails.
#define TRY(call) \
  if (step(call).failed) return step

Step run_step() {
  Step step;
  const float one = 1, zero = 0;
  cudaStream_t stream = nullptr;
  cublasHandle_t blas = nullptr;
  cudnnHandle_t dnn = nullptr;
  cudnnTensorDescriptor_t x = nullptr;
  cudnnFilterDescriptor_t w = nullptr;
  cudnnConvolutionDescriptor_t convolution = nullptr;
  cudnnPoolingDescriptor_t pooling = nullptr;
  cudnnActivationDescriptor_t activation = nullptr;
  void* p = nullptr;
  std::size_t bytes = 0;
  int n = 0, c = 0, h = 0, v = 0;
  const auto algorithm = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM;
  TRY(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  TRY(cudaMalloc(&p, 1 << 16));
  float* const f = static_cast<float*>(p);
  TRY(cudaMemsetAsync(f, 0, 1 << 16, stream));
  TRY(cublasCreate(&blas));
  TRY(cublasSetStream(blas, stream));
  TRY(cublasSetWorkspace(blas, f + 8192, 32 << 10));
  TRY(cublasSetMathMode(blas, CUBLAS_DEFAULT_MATH));
  TRY(cublasSetPointerMode(blas, CUBLAS_POINTER_MODE_HOST));
  TRY(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 2, &one, f, 2, f + 4, 2, &zero, f + 8, 2));
  TRY(cublasSgemv(blas, CUBLAS_OP_N, 2, 2, &one, f, 2, f + 4, 1, &zero, f + 12, 1));
  TRY(cudnnCreate(&dnn));
  TRY(cudnnSetStream(dnn, stream));
  TRY(cudnnCreateTensorDescriptor(&x));
  TRY(cudnnSetTensor4dDescriptor(x, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, 1, 4, 4));
  TRY(cudnnCreateFilterDescriptor(&w));
  TRY(cudnnSetFilter4dDescriptor(w, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, 1, 1, 1, 1));
  TRY(cudnnCreateConvolutionDescriptor(&convolution));
  TRY(cudnnSetConvolution2dDescriptor(convolution, 0, 0, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION,
                                      CUDNN_DATA_FLOAT));
  TRY(cudnnSetConvolutionGroupCount(convolution, 1));
  TRY(cudnnSetConvolutionMathType(convolution, CUDNN_FMA_MATH));
  TRY(cudnnGetConvolution2dForwardOutputDim(convolution, x, w, &n, &c, &h, &v));
  TRY(cudnnGetConvolutionForwardWorkspaceSize(dnn, x, w, convolution, x, algorithm, &bytes));
  TRY(cudnnConvolutionForward(dnn, &one, x, f, w, f + 16, convolution, algorithm, f + 4096, bytes,
                              &zero, x, f + 32));
  TRY(cudnnCreatePoolingDescriptor(&pooling));
  TRY(cudnnSetPooling2dDescriptor(pooling, CUDNN_POOLING_MAX_DETERMINISTIC, CUDNN_PROPAGATE_NAN, 1,
                                  1, 0, 0, 1, 1));
  TRY(cudnnPoolingForward(dnn, pooling, &one, x, f + 32, &zero, x, f + 64));
  TRY(cudnnCreateActivationDescriptor(&activation));
  TRY(cudnnDestroyActivationDescriptor(activation));
  TRY(cudnnDestroyPoolingDescriptor(pooling));
  TRY(cudnnDestroyConvolutionDescriptor(convolution));
  TRY(cudnnDestroyFilterDescriptor(w));
  TRY(cudnnDestroyTensorDescriptor(x));
  TRY(cudaStreamSynchronize(stream));
  TRY(cudnnDestroy(dnn));
  TRY(cublasDestroy(blas));
  TRY(cudaFree(p));
  TRY(cudaStreamDestroy(stream));
  return step;
}

}  // namespace

TEST_CASE("injection: a sweep fails every call once, and the call says so at once") {
  int n = 1;
  for (;; ++n) {
    cudasim::Session session;
    cudasim::fail_any_call(n, cudaErrorUnknown);
    const Step step = run_step();
    CHECK(cudasim::violations().empty());
    if (!step.failed) {
      CHECK(cudasim::leaks().empty());
      break;
    }
    CHECK(step.calls == n);
  }
  CHECK(n == 38);  // one more than there are calls
}
