// For the tests of the simulated libraries: arrays on the device, and reports.
#pragma once

#include "runtime/cudasim.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

namespace library_test {

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// The only violation so far.
inline std::string only_violation() {
  const std::vector<std::string> all = cudasim::violations();
  REQUIRE(all.size() == 1);
  return all.front();
}

// n values of type T on the current device; fresh memory is unwritten. Freed by the end of the
// cudasim::Session.
template <class T>
T* new_array(std::size_t n) {
  void* p = nullptr;
  REQUIRE(cudaMalloc(&p, n * sizeof(T)) == cudaSuccess);
  return static_cast<T*>(p);
}

template <class T>
T* upload(const std::vector<T>& values) {
  T* p = new_array<T>(values.size());
  REQUIRE(cudaMemcpy(p, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice) ==
          cudaSuccess);
  return p;
}

template <class T>
std::vector<T> download(const T* p, std::size_t n) {
  std::vector<T> values(n);
  REQUIRE(cudaMemcpy(values.data(), p, n * sizeof(T), cudaMemcpyDeviceToHost) == cudaSuccess);
  return values;
}

inline cudaStream_t new_stream() {
  cudaStream_t stream = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  return stream;
}

// Numbers in [-1, 1) that neither float nor its products hold exactly.
inline std::vector<float> noise(std::size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> values(n);
  for (float& v : values) v = static_cast<float>(random()) / 2147483648.0f - 1.0f;
  return values;
}

}  // namespace library_test
