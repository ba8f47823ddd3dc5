// mov, with packing and unpacking of vectors, and cvta.
#include "ptx/block.h"
#include "ptx/register_access.h"

namespace cudasim::ptx {
namespace {

Next move(Block&, Thread& thread, const Instruction& i) {
  thread.registers[i.operand[0]] = thread.registers[i.operand[1]];
  return next(i);
}

// mov.b32 d, {a, b}: the first element takes the lowest bits
template <class Part, int parts>
Next pack(Block&, Thread& thread, const Instruction& i) {
  std::uint64_t all = 0;
  for (int k = 0; k < parts; ++k) {
    all |= std::uint64_t{get<Part>(thread, i.operand[1 + k])} << (8 * sizeof(Part) * k);
  }
  thread.registers[i.operand[0]] = all;
  return next(i);
}

// mov.b32 {a, b}, s
template <class Part, int parts>
Next unpack(Block&, Thread& thread, const Instruction& i) {
  const std::uint64_t all = thread.registers[i.operand[parts]];
  for (int k = 0; k < parts; ++k) {
    set(thread, i.operand[k], static_cast<Part>(all >> (8 * sizeof(Part) * k)));
  }
  return next(i);
}

// Generic addresses of global memory are the addresses themselves, of shared memory a window.
Next shared_to_generic(Block&, Thread& thread, const Instruction& i) {
  set(thread, i.operand[0], get<std::uint64_t>(thread, i.operand[1]) + kSharedWindow);
  return next(i);
}
Next generic_to_shared(Block&, Thread& thread, const Instruction& i) {
  set(thread, i.operand[0], get<std::uint64_t>(thread, i.operand[1]) - kSharedWindow);
  return next(i);
}

}  // namespace

Handler find_move(const Opcode& op, int parts, bool unpacks) {
  if (op.name == "cvta") {
    const bool back = op.has("to");
    if (op.has("global")) return {&move};
    if (op.has("shared")) return {back ? &generic_to_shared : &shared_to_generic};
    return {};
  }
  if (op.name != "mov" || !op.only({})) return {};
  if (parts == 1) return {&move};
  const std::string_view type = op.type();
  const int bits = type.ends_with("64") ? 64 : type.ends_with("32") ? 32 : 0;
  if (bits == 32 && parts == 2) {
    return {unpacks ? &unpack<std::uint16_t, 2> : &pack<std::uint16_t, 2>};
  }
  if (bits == 64 && parts == 2) {
    return {unpacks ? &unpack<std::uint32_t, 2> : &pack<std::uint32_t, 2>};
  }
  if (bits == 32 && parts == 4) {
    return {unpacks ? &unpack<std::uint8_t, 4> : &pack<std::uint8_t, 4>};
  }
  if (bits == 64 && parts == 4) {
    return {unpacks ? &unpack<std::uint16_t, 4> : &pack<std::uint16_t, 4>};
  }
  return {};
}

}  // namespace cudasim::ptx
