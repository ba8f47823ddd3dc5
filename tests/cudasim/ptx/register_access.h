// Typed views of register slots, and the one template that turns a function into an instruction.
#pragma once

#include "ptx/opcode.h"
#include "ptx/small_float.h"

#include <bit>
#include <cstring>
#include <type_traits>
#include <utility>

namespace cudasim::ptx {

// float32 with what .ftz and .sat ask for: subnormals flushed on both sides, results within [0, 1].
template <bool flush, bool saturate>
struct Float32 {
  float value = 0;

  Float32() = default;
  Float32(float v) : value(v) {}  // NOLINT: meant to be implicit
  operator float() const { return value; }

  static float flushed(float v) {
    return std::fpclassify(v) == FP_SUBNORMAL ? std::copysign(0.f, v) : v;
  }
  static Float32 load(std::uint64_t bits) {
    const auto v = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    return flush ? flushed(v) : v;
  }
  static std::uint64_t store(Float32 v) {
    if (flush) v = flushed(v);
    if (saturate) v = v > 0.f ? (v < 1.f ? v.value : 1.f) : 0.f;  // NaN becomes 0
    return std::bit_cast<std::uint32_t>(v.value);
  }
};

template <class T>
T read(std::uint64_t bits) {
  if constexpr (std::is_same_v<T, bool>) {
    return bits & 1;
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(bits);
  } else if constexpr (std::is_same_v<T, float>) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
  } else {
    return T::load(bits);
  }
}

// Signed values fill the slot with their sign: ld.s8 into a wider register relies on it.
template <class T>
std::uint64_t written(T value) {
  if constexpr (std::is_integral_v<T> && std::is_signed_v<T>) {
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(value));
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<std::uint64_t>(value);
  } else if constexpr (std::is_same_v<T, float>) {
    return std::bit_cast<std::uint32_t>(value);
  } else {
    return T::store(value);
  }
}

template <class T>
T get(const Thread& thread, Slot slot) {
  return read<T>(thread.registers[slot]);
}

template <class T>
void set(Thread& thread, Slot slot, T value) {
  thread.registers[slot] = written(value);
}

// Op{}(a, b, ...) on the operands after the first, the result into the first.
template <class Op, class R, class... A>
Next apply(Block&, Thread& thread, const Instruction& i) {
  [&]<std::size_t... k>(std::index_sequence<k...>) {
    set<R>(thread, i.operand[0], Op{}(get<A>(thread, i.operand[1 + k])...));
  }
  (std::index_sequence_for<A...>{});
  return next(i);
}

// The instruction that Op's call operator describes: its parameter types are the operand types.
template <class Op>
Handler instruction() {
  return []<class R, class... A>(R (Op::*)(A...) const) -> Handler {
    return {&apply<Op, R, A...>, nullptr};
  }(&Op::operator());
}

}  // namespace cudasim::ptx
