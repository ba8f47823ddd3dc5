// From the name of an instruction to the function that executes it.
//
// "fma.rn.ftz.f32" is an Opcode with the name "fma" and the modifiers rn, ftz, f32. Each family of
// instructions has a file with one find_ function, which returns {} for what it does not know.
#pragma once

#include "ptx/program.h"

#include <initializer_list>
#include <string_view>
#include <vector>

namespace cudasim::ptx {

class Opcode {
 public:
  explicit Opcode(std::string_view text);

  std::string_view name;
  std::vector<std::string_view> modifiers;  // the type is the last one

  std::string_view type() const { return modifiers.empty() ? "" : modifiers.back(); }
  std::string_view type_before() const;  // of conversions and set: the type of the result
  bool has(std::string_view modifier) const;
  // Nothing but these and types? Whatever changes the meaning of an instruction has to be known.
  bool only(std::initializer_list<std::string_view> known) const;
  Rounding rounding() const;  // rn, rz, rm, rp and rni, rzi, rmi, rpi
};

struct Handler {
  Execute execute = nullptr;
  Combine combine = nullptr;
  explicit operator bool() const { return execute != nullptr; }
};

Handler find_float(const Opcode&);       // float_ops.cpp
Handler find_half(const Opcode&);        // half_ops.cpp
Handler find_integer(const Opcode&);     // integer_ops.cpp
Handler find_compare(const Opcode&);     // compare_ops.cpp: setp, set, selp, predicates
Handler find_conversion(const Opcode&);  // convert_ops.cpp
Handler find_move(const Opcode&, int parts, bool unpack);  // move_ops.cpp: mov, cvta
Handler find_memory(const Opcode&, int elements);          // memory_ops.cpp: ld, st, atom, red
Handler find_control(const Opcode&);  // control_ops.cpp: bra, bar, shfl, vote ...

Handler find_handler(const Opcode&);  // any of those that need no more than the opcode

}  // namespace cudasim::ptx
