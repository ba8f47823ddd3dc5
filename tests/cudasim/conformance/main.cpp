// Runs the conformance suite, or says why it cannot: without a usable device the status is 77,
// which ctest shows as "skipped".
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cuda_runtime_api.h>

#include <cstdio>

constexpr int kSkipped = 77;

int main(int argc, char** argv) {
  doctest::Context context(argc, argv);
  if (!context.shouldExit()) {
    int count = 0;
    const cudaError_t error = cudaGetDeviceCount(&count);
    if (error != cudaSuccess || count == 0) {
      std::printf("skipped: %s (%s)\n", cudaGetErrorName(error), cudaGetErrorString(error));
      return kSkipped;
    }
  }
  return context.run();
}
