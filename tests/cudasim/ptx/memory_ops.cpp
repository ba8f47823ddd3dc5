// Loads, stores and atomics. Operands: the values, then the slot of the address; for atomics the
// result, the address, the operands. Every address goes through Block::at(), where the checks are.
#include "ptx/block.h"
#include "ptx/register_access.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace cudasim::ptx {
namespace {

std::uint64_t address(const Thread& thread, const Instruction& i, int operand) {
  return get<std::uint64_t>(thread, i.operand[operand]) + static_cast<std::uint64_t>(i.offset);
}

template <class T, int count>
void take(Thread& thread, const Instruction& i, const std::byte* from) {
  for (int k = 0; k < count; ++k) {
    T value;
    std::memcpy(&value, from + k * sizeof(T), sizeof(T));
    set(thread, i.operand[k], value);
  }
}

template <class T, int count, Space space>
Next load(Block& block, Thread& thread, const Instruction& i) {
  constexpr std::size_t kBytes = sizeof(T) * count;
  take<T, count>(thread, i,
                 block.at<kBytes, Access::Read, space>(thread, i, address(thread, i, count)));
  return next(i);
}

template <class T, int count>
Next load_parameter(Block& block, Thread& thread, const Instruction& i) {
  take<T, count>(thread, i,
                 block.parameter(thread, i, address(thread, i, count), sizeof(T) * count));
  return next(i);
}

template <class T, int count, Space space>
Next store(Block& block, Thread& thread, const Instruction& i) {
  constexpr std::size_t kBytes = sizeof(T) * count;
  std::byte* to = block.at<kBytes, Access::Write, space>(thread, i, address(thread, i, 0));
  for (int k = 0; k < count; ++k) {
    const T value = get<T>(thread, i.operand[1 + k]);
    std::memcpy(to + k * sizeof(T), &value, sizeof(T));
  }
  return next(i);
}

struct Add {
  auto operator()(auto old, auto x) const { return old + x; }
};
struct Min {
  auto operator()(auto old, auto x) const { return std::min(old, x); }
};
struct Max {
  auto operator()(auto old, auto x) const { return std::max(old, x); }
};
struct And {
  auto operator()(auto old, auto x) const { return old & x; }
};
struct Or {
  auto operator()(auto old, auto x) const { return old | x; }
};
struct Xor {
  auto operator()(auto old, auto x) const { return old ^ x; }
};
struct Exchange {
  auto operator()(auto, auto x) const { return x; }
};
struct Increment {
  auto operator()(auto old, auto x) const { return old >= x ? 0 : old + 1; }
};
struct Decrement {
  auto operator()(auto old, auto x) const { return old == 0 || old > x ? x : old - 1; }
};

template <class T, class Update, Space space>
Next atomic(Block& block, Thread& thread, const Instruction& i) {
  std::byte* at = block.at<sizeof(T), Access::Atomic, space>(thread, i, address(thread, i, 1));
  T old;
  std::memcpy(&old, at, sizeof(T));
  const T updated = static_cast<T>(Update{}(old, get<T>(thread, i.operand[2])));
  std::memcpy(at, &updated, sizeof(T));
  set(thread, i.operand[0], old);
  return next(i);
}

template <class T, Space space>
Next compare_and_swap(Block& block, Thread& thread, const Instruction& i) {
  std::byte* at = block.at<sizeof(T), Access::Atomic, space>(thread, i, address(thread, i, 1));
  T old;
  std::memcpy(&old, at, sizeof(T));
  if (old == get<T>(thread, i.operand[2])) {
    const T value = get<T>(thread, i.operand[3]);
    std::memcpy(at, &value, sizeof(T));
  }
  set(thread, i.operand[0], old);
  return next(i);
}

// ---- choosing the instance

template <class T, int count, Space space>
Handler load_or_store(bool loads) {
  return {loads ? &load<T, count, space> : &store<T, count, space>};
}

template <class T, int count>
Handler in_space(const Opcode& op) {
  const bool loads = op.name == "ld" || op.name == "ldu";
  if (op.has("param")) return loads ? Handler{&load_parameter<T, count>} : Handler{};
  if (op.has("global")) return load_or_store<T, count, Space::Global>(loads);
  if (op.has("shared") || op.has("shared::cta"))
    return load_or_store<T, count, Space::Shared>(loads);
  if (op.has("local") || op.has("const")) return {};
  return load_or_store<T, count, Space::Generic>(loads);
}

template <class T>
Handler of_count(const Opcode& op, int elements) {
  if (elements == 1) return in_space<T, 1>(op);
  if (elements == 2) return in_space<T, 2>(op);
  if constexpr (sizeof(T) <= 4) {
    if (elements == 4) return in_space<T, 4>(op);
  }
  return {};
}

Handler find_load_or_store(const Opcode& op, int elements) {
  const std::string_view type = op.type();
  if (type == "u8" || type == "b8") return of_count<std::uint8_t>(op, elements);
  if (type == "s8") return of_count<std::int8_t>(op, elements);
  if (type == "u16" || type == "b16") return of_count<std::uint16_t>(op, elements);
  if (type == "s16") return of_count<std::int16_t>(op, elements);
  if (type == "u32" || type == "b32" || type == "f32") return of_count<std::uint32_t>(op, elements);
  if (type == "s32") return of_count<std::int32_t>(op, elements);
  if (type == "u64" || type == "b64" || type == "f64") return of_count<std::uint64_t>(op, elements);
  if (type == "s64") return of_count<std::int64_t>(op, elements);
  return {};
}

template <class T, class Update>
Handler atomic_in(const Opcode& op) {
  if (op.has("global")) return {&atomic<T, Update, Space::Global>};
  if (op.has("shared") || op.has("shared::cta")) return {&atomic<T, Update, Space::Shared>};
  return {&atomic<T, Update, Space::Generic>};
}

template <class T>
Handler swap_in(const Opcode& op) {
  if (op.has("global")) return {&compare_and_swap<T, Space::Global>};
  if (op.has("shared") || op.has("shared::cta")) return {&compare_and_swap<T, Space::Shared>};
  return {&compare_and_swap<T, Space::Generic>};
}

template <class T>
Handler integer_atomic(const Opcode& op) {
  if (op.has("add")) return atomic_in<T, Add>(op);
  if (op.has("min")) return atomic_in<T, Min>(op);
  if (op.has("max")) return atomic_in<T, Max>(op);
  if (op.has("and")) return atomic_in<T, And>(op);
  if (op.has("or")) return atomic_in<T, Or>(op);
  if (op.has("xor")) return atomic_in<T, Xor>(op);
  if (op.has("exch")) return atomic_in<T, Exchange>(op);
  if (op.has("inc")) return atomic_in<T, Increment>(op);
  if (op.has("dec")) return atomic_in<T, Decrement>(op);
  if (op.has("cas")) return swap_in<T>(op);
  return {};
}

Handler find_atomic(const Opcode& op) {
  const std::string_view type = op.type();
  if (type == "u32" || type == "b32") return integer_atomic<std::uint32_t>(op);
  if (type == "s32") return integer_atomic<std::int32_t>(op);
  if (type == "u64" || type == "b64") return integer_atomic<std::uint64_t>(op);
  if (type == "s64") return integer_atomic<std::int64_t>(op);
  if (type == "f32" && op.has("add")) return atomic_in<float, Add>(op);
  return {};
}

}  // namespace

Handler find_memory(const Opcode& op, int elements) {
  const bool known = op.only({"global",
                              "shared",
                              "shared::cta",
                              "param",
                              "volatile",
                              "weak",
                              "relaxed",
                              "nc",
                              "ca",
                              "cg",
                              "cs",
                              "lu",
                              "cv",
                              "wb",
                              "wt",
                              "v2",
                              "v4",
                              "gpu",
                              "cta",
                              "sys",
                              "add",
                              "min",
                              "max",
                              "and",
                              "or",
                              "xor",
                              "exch",
                              "inc",
                              "dec",
                              "cas",
                              "L1::evict_last",
                              "L1::evict_first",
                              "L1::no_allocate",
                              "L2::64B",
                              "L2::128B",
                              "L2::256B"});
  if (!known) return {};
  if (op.name == "atom" || op.name == "red") return find_atomic(op);
  if (op.has("relaxed")) return {};  // an atomic load or store: the race check would need to know
  if (op.name == "ld" || op.name == "ldu" || op.name == "st") {
    return find_load_or_store(op, elements);
  }
  return {};
}

}  // namespace cudasim::ptx
