// Conformance of error codes and of the last error.
#include "conformance/support.h"

#include <string>

using namespace conformance;

TEST_CASE("cudaGetLastError: cudaSuccess where nothing failed") {
  (void)cudaGetLastError();
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("cudaGetLastError: returns the last error and resets it") {
  CHECK(cudaSetDevice(-1) == cudaErrorInvalidDevice);
  CHECK(cudaGetLastError() == cudaErrorInvalidDevice);
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("cudaPeekAtLastError: does not reset the error") {
  CHECK(cudaSetDevice(-1) == cudaErrorInvalidDevice);
  CHECK(cudaPeekAtLastError() == cudaErrorInvalidDevice);
  CHECK(cudaPeekAtLastError() == cudaErrorInvalidDevice);
  CHECK(cudaGetLastError() == cudaErrorInvalidDevice);
}

TEST_CASE("cudaGetLastError: a call that succeeds does not clear an earlier error") {
  CHECK(cudaSetDevice(-1) == cudaErrorInvalidDevice);
  OK(cudaSetDevice(0));
  CHECK(cudaGetLastError() == cudaErrorInvalidDevice);
}

TEST_CASE("cudaGetLastError: the error belongs to the host thread that made the call") {
  CHECK(cudaSetDevice(-1) == cudaErrorInvalidDevice);
  cudaError_t elsewhere = cudaErrorUnknown;
  std::thread([&] { elsewhere = cudaGetLastError(); }).join();
  CHECK(elsewhere == cudaSuccess);
  CHECK(cudaGetLastError() == cudaErrorInvalidDevice);
}

TEST_CASE("cudaGetErrorName: the enumerator's name") {
  CHECK(std::string(cudaGetErrorName(cudaErrorInvalidValue)) == "cudaErrorInvalidValue");
  CHECK(std::string(cudaGetErrorName(cudaErrorNotReady)) == "cudaErrorNotReady");
}

TEST_CASE("cudaGetErrorString: a description") {
  CHECK(std::string(cudaGetErrorString(cudaSuccess)) == "no error");
  CHECK(std::string(cudaGetErrorString(cudaErrorMemoryAllocation)) == "out of memory");
}

TEST_CASE("cudaGetErrorName, cudaGetErrorString: an unknown code is not recognised") {
  const auto unknown = static_cast<cudaError_t>(123456);
  CHECK(std::string(cudaGetErrorName(unknown)) == "unrecognized error code");
  CHECK(std::string(cudaGetErrorString(unknown)) == "unrecognized error code");
}

TEST_CASE("non-sticky errors: the next call succeeds") {
  void* p = nullptr;
  FAILS(cudaMalloc(&p, ~std::size_t{0} / 2), cudaErrorMemoryAllocation);
  OK(cudaMalloc(&p, 64));
  OK(cudaFree(p));
}
