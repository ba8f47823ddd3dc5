// What the kernel tests share: the architectures, reproducible inputs, comparison with a reference.
#pragma once

#include "kernels/ptx_device.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

// Every test runs for the PTX of all three; FastMath is sm_90 with --use_fast_math and contraction.
struct Sm75 {
  static constexpr const char* name = "sm_75";
};
struct Sm80 {
  static constexpr const char* name = "sm_80";
};
struct Sm90 {
  static constexpr const char* name = "sm_90";
};
struct FastMath {
  static constexpr const char* name = "fast_math";
};
TYPE_TO_STRING(Sm75);
TYPE_TO_STRING(Sm80);
TYPE_TO_STRING(Sm90);
TYPE_TO_STRING(FastMath);

namespace cudasim::ptx {

// Uniform in [low, high), the same everywhere.
inline std::vector<float> random_floats(std::size_t n, std::uint64_t seed, float low = -2,
                                        float high = 2) {
  std::vector<float> values(n);
  std::uint64_t state = seed * 0x9E3779B97F4A7C15u + 1;
  for (float& v : values) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    v = low + (high - low) * static_cast<float>(state >> 40) * 0x1p-24f;
  }
  return values;
}

// "" if every |actual - expected| <= absolute + relative |expected|, else the first offender.
template <class T, class U>
std::string difference(const std::vector<T>& actual, const std::vector<U>& expected,
                       double relative = 0, double absolute = 0) {
  if (actual.size() != expected.size()) return "sizes differ";
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double a = static_cast<double>(actual[i]), e = static_cast<double>(expected[i]);
    if (a == e || (std::isnan(a) && std::isnan(e))) continue;
    if (std::fabs(a - e) <= absolute + relative * std::fabs(e)) continue;
    return "element " + std::to_string(i) + ": " + std::to_string(a) + ", expected " +
           std::to_string(e);
  }
  return "";
}

constexpr Dim3 kGrid{4}, kThreads{256};

}  // namespace cudasim::ptx

// A launch that must pass every check.
#define RUNS_CLEANLY(launch) CHECK_EQ(to_string(launch), "")
#define SAME(...) CHECK_EQ(difference(__VA_ARGS__), "")
