// What can be asked of NVIDIA's real libraries without a driver, compared with the simulated ones.
// Where they are not installed there is nothing to compare.
#include "library_test/real_library.h"
#include "library_test/support.h"

#include <cublas_v2.h>

using namespace library_test;

TEST_CASE("cuBLAS: the words for every status are those of the real library") {
  const RealLibrary real("libcublas.so." + std::to_string(CUBLAS_VER_MAJOR));
  if (!real.found()) return;
  const auto name = real.get<decltype(cublasGetStatusName)>("cublasGetStatusName");
  const auto text = real.get<decltype(cublasGetStatusString)>("cublasGetStatusString");
  for (int i = -1; i < 20; ++i) {
    const auto status = static_cast<cublasStatus_t>(i);
    CHECK(std::string(name(status)) == cublasGetStatusName(status));
    CHECK(std::string(text(status)) == cublasGetStatusString(status));
  }
}
