// Philox4x32-10: a random number is a pure function of (key, counter).
//
// So a mask does not depend on who computes it, in which order or on how many devices.
// Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", 2011.
#pragma once

#include <cstdint>

#include <tandem/core/half.h>

namespace tandem {

struct Philox4 {
  std::uint32_t v[4];
};

/// Ten rounds of Philox on counter (c0..c3) with key (k0, k1).
TANDEM_HD inline Philox4 philox(std::uint32_t c0, std::uint32_t c1, std::uint32_t c2,
                                std::uint32_t c3, std::uint32_t k0, std::uint32_t k1) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t(0xD2511F53u) * c0;
    const std::uint64_t p1 = std::uint64_t(0xCD9E8D57u) * c2;
    const std::uint32_t n0 = std::uint32_t(p1 >> 32) ^ c1 ^ k0;
    const std::uint32_t n2 = std::uint32_t(p0 >> 32) ^ c3 ^ k1;
    c1 = std::uint32_t(p1);
    c3 = std::uint32_t(p0);
    c0 = n0;
    c2 = n2;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

/// 24 random bits as a float in [0, 1).
TANDEM_HD inline float uniform24(std::uint32_t bits) {
  return float(bits >> 8) * 5.9604644775390625e-8f;  // 2^-24
}

/// What a dropout mask depends on: not on the number of replicas, nor on the device.
struct DropoutKey {
  std::uint64_t seed = 0;
  std::uint32_t call = 0;      // which dropout of the step
  std::int64_t first_row = 0;  // global sample row of the tensor's row 0
  float p = 0;                 // probability of a zero
};

/// 1 / (1-p) or 0 for the four elements i .. i+3 of (global) row `row`. REQUIRES: i % 4 == 0.
TANDEM_HD inline void dropout_scales(const DropoutKey& key, std::int64_t row, std::int64_t i,
                                     float scale[4]) {
  const std::uint64_t r = std::uint64_t(row);
  const Philox4 random = philox(std::uint32_t(i / 4), std::uint32_t(r), std::uint32_t(r >> 32),
                                key.call, std::uint32_t(key.seed), std::uint32_t(key.seed >> 32));
  for (int k = 0; k < 4; ++k) {
    scale[k] = uniform24(random.v[k]) < key.p ? 0.0f : 1.0f / (1.0f - key.p);
  }
}

}  // namespace tandem
