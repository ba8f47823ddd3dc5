// The rules of the simulated cuBLAS: arguments, types, handles, streams, workspaces, failures, and
// what is reported.
#include "library_test/blas_support.h"

#include <functional>

using namespace library_test;

namespace {

const float kOne = 1, kZero = 0;

// A correct call of cublasGemmStridedBatchedEx; a test spoils one argument.
struct Call {
  cublasOperation_t op_a = CUBLAS_OP_N, op_b = CUBLAS_OP_N;
  int m = 4, n = 3, k = 2;
  const void *alpha = &kOne, *beta = &kZero;
  const void *a = nullptr, *b = nullptr;
  void* c = nullptr;
  cudaDataType type_a = CUDA_R_32F, type_b = CUDA_R_32F, type_c = CUDA_R_32F;
  int lda = 4, ldb = 2, ldc = 4;
  long long stride_a = 8, stride_b = 6, stride_c = 12;
  int batches = 2;
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  cublasGemmAlgo_t algorithm = CUBLAS_GEMM_DEFAULT;

  Call() {
    a = upload(noise(16, 1));
    b = upload(noise(12, 2));
    c = new_array<float>(24);
  }
  cublasStatus_t operator()(cublasHandle_t handle) const {
    return cublasGemmStridedBatchedEx(handle, op_a, op_b, m, n, k, alpha, a, type_a, lda, stride_a,
                                      b, type_b, ldb, stride_b, beta, c, type_c, ldc, stride_c,
                                      batches, compute, algorithm);
  }
};

cublasStatus_t spoiled(const std::function<void(Call&)>& spoil) {
  cudasim::Session session;
  const Blas blas;
  Call call;
  spoil(call);
  const cublasStatus_t status = call(blas.handle);
  blas.wait();
  CHECK(cudasim::violations().empty());
  return status;
}

// Runs a call that must not be run, and returns the report.
std::string reported(const std::function<void(Call&)>& spoil) {
  cudasim::Session session;
  const Blas blas;
  Call call;
  spoil(call);
  CHECK(call(blas.handle) == CUBLAS_STATUS_SUCCESS);
  (void)cudaStreamSynchronize(blas.stream);
  return only_violation();
}

cublasStatus_t typed(cudaDataType a, cudaDataType b, cudaDataType c, cublasComputeType_t compute) {
  return spoiled([&](Call& call) {
    call.m = 0;  // the types are checked, nothing is read
    call.type_a = a;
    call.type_b = b;
    call.type_c = c;
    call.compute = compute;
  });
}

}  // namespace

TEST_CASE("gemm: what the documentation calls an invalid value") {
  const auto invalid = [](const std::function<void(Call&)>& spoil) {
    CHECK(spoiled(spoil) == CUBLAS_STATUS_INVALID_VALUE);
  };
  CHECK(spoiled([](Call&) {}) == CUBLAS_STATUS_SUCCESS);
  invalid([](Call& c) { c.op_a = static_cast<cublasOperation_t>(7); });
  invalid([](Call& c) { c.op_b = CUBLAS_OP_CONJG; });
  invalid([](Call& c) { c.m = -1; });
  invalid([](Call& c) { c.n = -1; });
  invalid([](Call& c) { c.k = -1; });
  invalid([](Call& c) { c.batches = -1; });
  invalid([](Call& c) { c.lda = 3; });
  invalid([](Call& c) { c.ldb = 1; });
  invalid([](Call& c) { c.ldc = 3; });
  invalid([](Call& c) { c.op_a = CUBLAS_OP_T, c.lda = 1; });
  invalid([](Call& c) { c.op_b = CUBLAS_OP_T, c.ldb = 2; });
  invalid([](Call& c) { c.m = 0, c.lda = 0; });  // a leading dimension is never below 1
  invalid([](Call& c) { c.alpha = nullptr; });
  invalid([](Call& c) { c.beta = nullptr; });
  invalid([](Call& c) { c.a = nullptr; });
  invalid([](Call& c) { c.b = nullptr; });
  invalid([](Call& c) { c.c = nullptr; });
}

TEST_CASE("gemm: the leading dimensions follow the operations") {
  CHECK(spoiled([](Call& c) { c.op_a = CUBLAS_OP_T, c.lda = 2; }) == CUBLAS_STATUS_SUCCESS);
  CHECK(spoiled([](Call& c) { c.op_b = CUBLAS_OP_C, c.ldb = 3; }) == CUBLAS_STATUS_SUCCESS);
}

TEST_CASE("gemm: combinations of types that cublasGemmEx documents, and others") {
  const auto f32 = CUDA_R_32F, f16 = CUDA_R_16F, b16 = CUDA_R_16BF;
  const auto compute = CUBLAS_COMPUTE_32F;
  CHECK(typed(f32, f32, f32, compute) == CUBLAS_STATUS_SUCCESS);
  CHECK(typed(f16, f16, f16, compute) == CUBLAS_STATUS_SUCCESS);
  CHECK(typed(f16, f16, f32, compute) == CUBLAS_STATUS_SUCCESS);
  CHECK(typed(b16, b16, b16, CUBLAS_COMPUTE_32F_PEDANTIC) == CUBLAS_STATUS_SUCCESS);
  CHECK(typed(b16, b16, f32, compute) == CUBLAS_STATUS_SUCCESS);
  CHECK(typed(f32, f32, f32, CUBLAS_COMPUTE_32F_FAST_TF32) == CUBLAS_STATUS_SUCCESS);
  CHECK(typed(f16, f32, f32, compute) == CUBLAS_STATUS_NOT_SUPPORTED);
  CHECK(typed(f16, b16, f32, compute) == CUBLAS_STATUS_NOT_SUPPORTED);
  CHECK(typed(f16, f16, b16, compute) == CUBLAS_STATUS_NOT_SUPPORTED);
  CHECK(typed(f32, f32, f16, compute) == CUBLAS_STATUS_NOT_SUPPORTED);
  CHECK(typed(f16, f16, f16, CUBLAS_COMPUTE_32F_FAST_TF32) == CUBLAS_STATUS_NOT_SUPPORTED);
  CHECK(typed(f32, f32, f32, CUBLAS_COMPUTE_16F) == CUBLAS_STATUS_NOT_SUPPORTED);
  CHECK(typed(CUDA_R_64F, CUDA_R_64F, CUDA_R_64F, compute) == CUBLAS_STATUS_NOT_SUPPORTED);
  CHECK(spoiled([](Call& c) { c.algorithm = static_cast<cublasGemmAlgo_t>(50); }) ==
        CUBLAS_STATUS_NOT_SUPPORTED);
}

TEST_CASE("gemm: memory that it must not touch is reported and loses the device") {
  const auto fatal = [](const std::function<void(Call&)>& spoil, const char* text) {
    cudasim::Session session;
    const Blas blas;
    Call call;
    spoil(call);
    CHECK(call(blas.handle) == CUBLAS_STATUS_SUCCESS);
    CHECK(cudaStreamSynchronize(blas.stream) != cudaSuccess);
    CHECK(call(blas.handle) == CUBLAS_STATUS_EXECUTION_FAILED);
    CHECK(contains(only_violation(), text));
  };
  static std::vector<float> host(24);
  fatal([](Call& c) { c.c = new_array<float>(23); }, "C takes");
  fatal([](Call& c) { c.lda = 5; }, "A takes");
  fatal([](Call& c) { c.stride_b = 7; }, "B takes");
  fatal([](Call& c) { c.c = host.data(); }, "C is pageable host memory");
  fatal([](Call& c) { (void)cudaFree(const_cast<void*>(c.a)); }, "A uses freed memory");
  fatal([](Call& c) { c.c = new_array<char>(200) + 2; }, "C not aligned");
  fatal(
      [](Call& c) {
        REQUIRE(cudaSetDevice(1) == cudaSuccess);
        c.b = upload(noise(12, 2));
        REQUIRE(cudaSetDevice(0) == cudaSuccess);
      },
      "without peer access");
}

TEST_CASE("gemm: a peer's memory may be used where access is enabled, and pinned memory") {
  cudasim::Session session;
  const Blas blas;
  Call call;
  REQUIRE(cudaSetDevice(1) == cudaSuccess);
  call.b = upload(noise(12, 2));
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
  REQUIRE(cudaDeviceEnablePeerAccess(1, 0) == cudaSuccess);
  REQUIRE(cudaMallocHost(&call.c, 24 * sizeof(float)) == cudaSuccess);
  CHECK(call(blas.handle) == CUBLAS_STATUS_SUCCESS);
  blas.wait();
  CHECK(static_cast<float*>(call.c)[23] == static_cast<float*>(call.c)[23]);
  CHECK(cudasim::violations().empty());
}

TEST_CASE("gemm: reading what nobody has written is reported") {
  CHECK(contains(reported([](Call& c) { c.a = new_array<float>(16); }),
                 "reads 64 bytes of A that nobody has written"));
  CHECK(contains(reported([](Call& c) { c.beta = &kOne; }),
                 "reads 96 bytes of C that nobody has written"));
}

TEST_CASE("gemm: its result counts as written, and only that") {
  cudasim::Session session;
  const Blas blas;
  Call first;
  first.m = 2;  // columns of 2 with gaps of 2
  CHECK(first(blas.handle) == CUBLAS_STATUS_SUCCESS);
  Call second;
  second.a = first.c;
  CHECK(second(blas.handle) == CUBLAS_STATUS_SUCCESS);
  blas.wait();
  CHECK(contains(only_violation(), "reads 32 bytes of A"));  // 16 floats, every other pair written
}

TEST_CASE("gemm: outputs that overlap anything are reported") {
  CHECK(contains(reported([](Call& c) { c.a = c.c = upload(noise(24, 1)); }), "C overlaps A"));
  CHECK(contains(reported([](Call& c) { c.stride_c = 11; }), "elements of C overlap"));
  CHECK(contains(reported([](Call& c) { c.stride_c = 0; }), "elements of C overlap"));
}

TEST_CASE("gemm: columns of one buffer may be operands and result, interleaved") {
  cudasim::Session session;
  const Blas blas;
  float* const all = upload(noise(12 * 6, 1));
  Call call;
  call.a = all;
  call.b = all + 4;
  call.c = all + 8;
  call.lda = call.ldb = call.ldc = 12;
  call.stride_a = call.stride_b = call.stride_c = 36;
  CHECK(call(blas.handle) == CUBLAS_STATUS_SUCCESS);
  blas.wait();
  CHECK(cudasim::violations().empty());
}

TEST_CASE("handles: null, destroyed, of another device, left over") {
  cudasim::Session session;
  cublasHandle_t handle = nullptr;
  CHECK(cublasCreate(nullptr) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(cublasDestroy(nullptr) == CUBLAS_STATUS_NOT_INITIALIZED);
  CHECK(Call()(nullptr) == CUBLAS_STATUS_NOT_INITIALIZED);
  REQUIRE(cublasCreate(&handle) == CUBLAS_STATUS_SUCCESS);
  CHECK(cudasim::leaks().back() == "cuBLAS handle #1");
  CHECK(cublasDestroy(handle) == CUBLAS_STATUS_SUCCESS);
  CHECK(cudasim::violations().empty());
  CHECK(cublasDestroy(handle) == CUBLAS_STATUS_NOT_INITIALIZED);
  CHECK(contains(only_violation(), "cublasDestroy: not a live cuBLAS handle"));
}

TEST_CASE("handles: the device that was current at their creation must be current") {
  cudasim::Session session;
  const Blas blas;
  const Call call;
  REQUIRE(cudaSetDevice(1) == cudaSuccess);
  CHECK(call(blas.handle) == CUBLAS_STATUS_EXECUTION_FAILED);
  CHECK(contains(only_violation(), "belongs to device 0, but device 1 is current"));
}

TEST_CASE("cublasSetStream: a stream of the handle's device, and not the default stream") {
  cudasim::Session session;
  const Blas blas;
  cudaStream_t stream = nullptr;
  CHECK(cublasGetStream(blas.handle, &stream) == CUBLAS_STATUS_SUCCESS);
  CHECK(stream == blas.stream);
  REQUIRE(cudaSetDevice(1) == cudaSuccess);
  const cudaStream_t other = new_stream();
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
  CHECK(cublasSetStream(blas.handle, other) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(contains(only_violation(), "the stream belongs to device 1, the handle to device 0"));
  CHECK(cublasSetStream(blas.handle, nullptr) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(contains(cudasim::violations().back(), "default stream"));
}

TEST_CASE("a handle without a stream would use the default stream, which is refused") {
  cudasim::Session session;
  cublasHandle_t handle = nullptr;
  REQUIRE(cublasCreate(&handle) == CUBLAS_STATUS_SUCCESS);
  CHECK(Call()(handle) == CUBLAS_STATUS_EXECUTION_FAILED);
  CHECK(contains(only_violation(), "default stream"));
}

TEST_CASE("cublasSetWorkspace: aligned to 256 bytes; less than 16 KiB makes products fail") {
  cudasim::Session session;
  const Blas blas;
  const Call call;
  char* const buffer = new_array<char>(32 << 10);
  CHECK(cublasSetWorkspace(blas.handle, buffer + 16, 16 << 10) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(cublasSetWorkspace(blas.handle, nullptr, 16 << 10) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(cublasSetWorkspace(blas.handle, buffer, (16 << 10) - 1) == CUBLAS_STATUS_SUCCESS);
  CHECK(call(blas.handle) == CUBLAS_STATUS_ALLOC_FAILED);
  CHECK(cublasSetWorkspace(blas.handle, buffer, 16 << 10) == CUBLAS_STATUS_SUCCESS);
  CHECK(call(blas.handle) == CUBLAS_STATUS_SUCCESS);
  blas.wait();
  CHECK(cudasim::violations().empty());
}

TEST_CASE("workspace: full of NaN and unwritten after a product") {
  cudasim::Session session;
  const Blas blas;
  char* const buffer = new_array<char>(16 << 10);
  REQUIRE(cudaMemsetAsync(buffer, 0, 16 << 10, blas.stream) == cudaSuccess);
  REQUIRE(cublasSetWorkspace(blas.handle, buffer, 16 << 10) == CUBLAS_STATUS_SUCCESS);
  Call call;
  CHECK(call(blas.handle) == CUBLAS_STATUS_SUCCESS);
  blas.wait();
  CHECK(download(buffer, 1).front() == '\xff');
  CHECK(cublasSetWorkspace(blas.handle, new_array<char>(16 << 10), 16 << 10) ==
        CUBLAS_STATUS_SUCCESS);
  call.a = buffer;
  CHECK(call(blas.handle) == CUBLAS_STATUS_SUCCESS);
  blas.wait();
  CHECK(contains(only_violation(), "reads 64 bytes of A that nobody has written"));
}

TEST_CASE("workspace: shared with an operand, outside an allocation, or dropped by a new stream") {
  cudasim::Session session;
  const Blas blas;
  Call call;
  char* const buffer = new_array<char>(16 << 10);
  REQUIRE(cublasSetWorkspace(blas.handle, buffer, 16 << 10) == CUBLAS_STATUS_SUCCESS);
  SUBCASE("shared") {
    call.c = buffer + 1024;
    CHECK(call(blas.handle) == CUBLAS_STATUS_SUCCESS);
    CHECK(contains(only_violation(), "the workspace overlaps C"));
  }
  SUBCASE("too long") {
    REQUIRE(cublasSetWorkspace(blas.handle, buffer, 17 << 10) == CUBLAS_STATUS_SUCCESS);
    CHECK(call(blas.handle) == CUBLAS_STATUS_SUCCESS);
    CHECK(cudaStreamSynchronize(blas.stream) != cudaSuccess);
    CHECK(contains(only_violation(), "the workspace takes 17408 bytes"));
  }
  SUBCASE("dropped") {
    REQUIRE(cublasSetStream(blas.handle, blas.stream) == CUBLAS_STATUS_SUCCESS);
    CHECK(call(blas.handle) == CUBLAS_STATUS_SUCCESS);
    CHECK(contains(only_violation(), "cublasSetStream has dropped the workspace"));
  }
}

TEST_CASE("settings: modes are kept and answered; what would break determinism is reported") {
  cudasim::Session session;
  const Blas blas;
  cublasMath_t math = CUBLAS_PEDANTIC_MATH;
  CHECK(cublasGetMathMode(blas.handle, &math) == CUBLAS_STATUS_SUCCESS);
  CHECK(math == CUBLAS_DEFAULT_MATH);
  CHECK(cublasSetMathMode(blas.handle, CUBLAS_TF32_TENSOR_OP_MATH) == CUBLAS_STATUS_SUCCESS);
  CHECK(cublasGetMathMode(blas.handle, &math) == CUBLAS_STATUS_SUCCESS);
  CHECK(math == CUBLAS_TF32_TENSOR_OP_MATH);
  CHECK(cublasSetMathMode(blas.handle, static_cast<cublasMath_t>(7)) ==
        CUBLAS_STATUS_INVALID_VALUE);
  CHECK(cublasSetPointerMode(blas.handle, CUBLAS_POINTER_MODE_HOST) == CUBLAS_STATUS_SUCCESS);
  int version = 0;
  CHECK(cublasGetVersion(blas.handle, &version) == CUBLAS_STATUS_SUCCESS);
  CHECK(version == CUBLAS_VERSION);
  CHECK(cublasSetAtomicsMode(blas.handle, CUBLAS_ATOMICS_NOT_ALLOWED) == CUBLAS_STATUS_SUCCESS);
  CHECK(cudasim::violations().empty());
  CHECK(cublasSetAtomicsMode(blas.handle, CUBLAS_ATOMICS_ALLOWED) == CUBLAS_STATUS_SUCCESS);
  CHECK(contains(only_violation(), "not deterministic"));
  CHECK(cublasSetPointerMode(blas.handle, CUBLAS_POINTER_MODE_DEVICE) ==
        CUBLAS_STATUS_NOT_SUPPORTED);
}

TEST_CASE("injection: cuBLAS functions are counted and fail by name, with statuses of their own") {
  cudasim::Session session;
  cublasHandle_t handle = nullptr;
  cudasim::fail_call("cublasCreate", 1, cudaErrorMemoryAllocation);
  CHECK(cublasCreate(&handle) == CUBLAS_STATUS_ALLOC_FAILED);
  CHECK(handle == nullptr);
  const Blas blas;
  const Call call;
  cudasim::fail_call("cublasGemmStridedBatchedEx", 2, cudaErrorUnknown);
  CHECK(call(blas.handle) == CUBLAS_STATUS_SUCCESS);
  CHECK(call(blas.handle) == CUBLAS_STATUS_EXECUTION_FAILED);
  cudasim::fail_call("cublasGemmStridedBatchedEx", 1, cudaErrorNotSupported);
  CHECK(call(blas.handle) == CUBLAS_STATUS_NOT_SUPPORTED);
  CHECK(cudasim::calls("cublasGemmStridedBatchedEx") == 3);
  CHECK(cudaGetLastError() == cudaSuccess);  // the runtime's last error is not the libraries'
}

TEST_CASE("a lost device: products fail, handles can be destroyed") {
  cudasim::Session session;
  const Blas blas;
  const Call call;
  cudasim::lose_device(0, cudaErrorIllegalAddress);
  CHECK(call(blas.handle) == CUBLAS_STATUS_EXECUTION_FAILED);
  CHECK(cublasDestroy(blas.handle) == CUBLAS_STATUS_SUCCESS);
}
