#include "ptx/opcode.h"

#include <algorithm>
#include <array>

namespace cudasim::ptx {
namespace {

constexpr std::array<std::string_view, 23> kTypes = {
    "pred",  "b8",     "b16",  "b32",  "b64",   "u8",      "u16",  "u32",
    "u64",   "s8",     "s16",  "s32",  "s64",   "f16",     "f32",  "f64",
    "f16x2", "bf16x2", "bf16", "b128", "f16x4", "untyped", "s16x2"};

}  // namespace

Opcode::Opcode(std::string_view text) {
  std::size_t dot = text.find('.');
  name = text.substr(0, dot);
  while (dot != std::string_view::npos) {
    const std::size_t end = text.find('.', dot + 1);
    modifiers.push_back(text.substr(dot + 1, end == std::string_view::npos ? end : end - dot - 1));
    dot = end;
  }
}

std::string_view Opcode::type_before() const {
  return modifiers.size() < 2 ? "" : modifiers[modifiers.size() - 2];
}

bool Opcode::has(std::string_view modifier) const {
  return std::find(modifiers.begin(), modifiers.end(), modifier) != modifiers.end();
}

bool Opcode::only(std::initializer_list<std::string_view> known) const {
  return std::all_of(modifiers.begin(), modifiers.end(), [&](std::string_view m) {
    return std::find(known.begin(), known.end(), m) != known.end() ||
           std::find(kTypes.begin(), kTypes.end(), m) != kTypes.end();
  });
}

Rounding Opcode::rounding() const {
  if (has("rz") || has("rzi")) return Rounding::Zero;
  if (has("rm") || has("rmi")) return Rounding::Down;
  if (has("rp") || has("rpi")) return Rounding::Up;
  return Rounding::Nearest;
}

Handler find_handler(const Opcode& op) {
  for (auto find :
       {find_integer, find_float, find_half, find_compare, find_conversion, find_control}) {
    if (Handler handler = find(op)) return handler;
  }
  return {};
}

}  // namespace cudasim::ptx
