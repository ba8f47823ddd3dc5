// A kernel after decoding: a flat array of instructions over a flat file of registers.
//
// Everything that an instruction can read is a slot of the thread's register file: registers, but
// also immediates, addresses of variables and special registers, which are filled in before the
// thread starts. So no instruction ever asks what kind of operand it has. Registers come first,
// then what no instruction writes. A slot is 64 bits wide; readers look at the low bits of their
// own type. Next: parser.cpp makes programs, block.cpp runs them.
#pragma once

#include "ptx/interpreter.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace cudasim::ptx {

class Block;
struct Instruction;
struct Thread;
struct Lanes;

using Slot = std::uint16_t;
constexpr Slot kSink = 0;  // a slot for results that nobody wants

// The instruction that a thread executes next; null: it waits, or has ended.
using Next = const Instruction*;
// What an instruction does to one thread.
using Execute = Next (*)(Block&, Thread&, const Instruction&);
// What a warp-wide instruction does once all its lanes have arrived.
using Combine = void (*)(Lanes&, const Instruction&);

enum class Rounding : std::uint8_t { Nearest, Zero, Down, Up };

constexpr int kMaxOperands = 8;

struct Instruction {
  Execute execute = nullptr;
  Execute if_guarded = nullptr;     // what happens where the guard of `execute` lets it
  Combine combine = nullptr;        // of warp-wide instructions only
  Slot operand[kMaxOperands] = {};  // in the order of the text, destinations first
  Slot guard = kSink;
  bool guard_value = true;  // runs where the guard has this value
  Rounding rounding = Rounding::Nearest;
  bool saturate = false;
  bool flush = false;        // subnormal numbers become zero
  std::uint32_t target = 0;  // of branches: an instruction, or a table of them
  std::uint32_t index = 0;   // position in Program::code
  std::int64_t offset = 0;   // added to the address
};

inline Next next(const Instruction& i) {
  return &i + 1;
}

// Where an instruction comes from, for findings.
struct Source {
  std::string text;
  int line = 0;
  int source_line = 0;
};

enum class Special : std::uint8_t {
  TidX,
  TidY,
  TidZ,
  NtidX,
  NtidY,
  NtidZ,
  CtaidX,
  CtaidY,
  CtaidZ,
  NctaidX,
  NctaidY,
  NctaidZ,
  Laneid,
  Warpid,
  LanemaskEq,
  LanemaskLt,
  LanemaskLe,
  LanemaskGt,
  LanemaskGe,
};

struct Program {
  std::string name;
  std::vector<Instruction> code;  // ends with a return
  std::vector<Source> sources;    // one per instruction
  std::vector<std::vector<std::uint32_t>> branch_tables;

  std::vector<std::uint64_t> image;  // the register file of a thread before it starts
  std::size_t registers = 0;         // so many slots at its beginning are registers, and 0
  std::vector<std::pair<Slot, Special>> specials;

  std::vector<Parameter> parameters;
  std::size_t parameter_bytes = 0;
  std::size_t static_shared = 0;
};

enum class State : std::uint8_t { Running, AtBarrier, AtCollective, Done };

struct Thread {
  std::uint64_t* registers = nullptr;
  std::uint32_t pc = 0;  // where it goes on after waiting
  State state = State::Running;
  std::uint16_t id = 0;          // in the block
  std::uint16_t warp_epoch = 0;  // __syncwarp()s since the last barrier
  std::uint64_t tag = 0;         // who and when, for the race check: see access_log.h
};

}  // namespace cudasim::ptx
