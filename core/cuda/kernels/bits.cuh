// Elements as bits: what is only moved is compiled once for each size of an element.
#pragma once

#include <cstdint>

namespace tandem::gpu {

/// f(U{}) with an unsigned type of `bytes` bytes.
template <class F>
void with_bits(int bytes, F&& f) {
  switch (bytes) {
    case 1:
      return f(std::uint8_t{});
    case 2:
      return f(std::uint16_t{});
    case 4:
      return f(std::uint32_t{});
    default:
      return f(std::uint64_t{});
  }
}

}  // namespace tandem::gpu
