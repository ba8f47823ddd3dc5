// A cuBLAS handle with its stream.
#pragma once

#include "library_test/support.h"

#include <cublas_v2.h>

namespace library_test {

struct Blas {
  Blas() {
    REQUIRE(cublasCreate(&handle) == CUBLAS_STATUS_SUCCESS);
    REQUIRE(cublasSetStream(handle, stream) == CUBLAS_STATUS_SUCCESS);
  }
  void wait() const { REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess); }

  cudaStream_t stream = new_stream();
  cublasHandle_t handle = nullptr;
};

constexpr cublasOperation_t kOperations[] = {CUBLAS_OP_N, CUBLAS_OP_T, CUBLAS_OP_C};

}  // namespace library_test
