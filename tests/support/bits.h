// Bits of floats for comparisons with golden numbers: a 64-bit FNV-1a hash, as tests/golden/ makes.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include <tandem/core/array.h>

namespace tandem::test {

inline std::uint64_t bits_of(float x) {
  return std::bit_cast<std::uint32_t>(x);
}
inline std::uint64_t bits_of(double x) {
  return std::bit_cast<std::uint64_t>(x);
}

/// Of all elements of the arrays, one after the other, byte by byte from the lowest.
template <class T>
std::uint64_t fnv1a(const std::vector<Array>& arrays) {
  std::uint64_t h = 0xcbf29ce484222325;
  for (const Array& a : arrays) {
    for (const T x : a.to_vector<T>()) {
      for (std::size_t byte = 0; byte < sizeof(T); ++byte) {
        h = (h ^ ((bits_of(x) >> (8 * byte)) & 0xff)) * 0x100000001b3;
      }
    }
  }
  return h;
}

}  // namespace tandem::test
