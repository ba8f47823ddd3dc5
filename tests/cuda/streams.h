// What tests about order share: arrays whose values are known, and a program's own stream.
#pragma once

#include <cuda_runtime_api.h>
#include <doctest/doctest.h>

#include <vector>

#include "runtime/cudasim.h"
#include "tests/support/check.h"

#include <tandem/core/array.h>

namespace tandem::test {

inline std::vector<float> numbers(std::int64_t n, float first = 0) {
  std::vector<float> v(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = first + float(i % 1000);
  return v;
}

inline Array on(Device device, const std::vector<float>& values) {
  return Array::from_host(values.data(), {std::int64_t(values.size())}, float32, device);
}

// A stream of the GPU that `device` is on.
struct UserStream {
  cudaStream_t handle = nullptr;
  explicit UserStream(Device device) {
    const int gpu = device.index % cudasim::config_from_environment().devices;
    REQUIRE(cudaSetDevice(gpu) == cudaSuccess);
    REQUIRE(cudaStreamCreateWithFlags(&handle, cudaStreamNonBlocking) == cudaSuccess);
    REQUIRE(cudaSetDevice(0) == cudaSuccess);
  }
  ~UserStream() {
    (void)cudaStreamSynchronize(handle);
    (void)cudaStreamDestroy(handle);
  }
};

}  // namespace tandem::test
