// One block of a launch while it runs: its threads, its shared memory, and the checks of every
// access.
//
// A thread runs until it has to wait: at a barrier for the block, at a shuffle or vote for its
// warp. That order is one of the orders that CUDA allows; the race check reports what depends on
// it. The access checks are here, inline, because every load and store passes through them. Next:
// block.cpp (taking turns), memory_ops.cpp (the instructions that call access()).
#pragma once

#include "ptx/access_log.h"
#include "ptx/findings.h"
#include "ptx/program.h"

#include <cstring>
#include <string>
#include <unordered_map>
#include <vector>

namespace cudasim::ptx {

constexpr std::uint32_t kWarpSize = 32;

// Generic pointers into shared memory start here, far from any real allocation.
constexpr std::uint64_t kSharedWindow = std::uint64_t{1} << 60;
constexpr std::uint64_t kSharedWindowSize = std::uint64_t{1} << 24;

enum class Space { Global, Shared, Generic };

// The lanes of one warp that execute a warp-wide instruction together.
struct Lanes {
  Block& block;
  Thread* threads;       // lane 0 of the warp
  std::uint32_t active;  // one bit per lane that takes part
};

class Block {
 public:
  Block(const Program& program, const Launch& launch, Memory& memory);

  // Runs the block from its first instruction to the end of its last thread. Throws Stop.
  void run(Dim3 index);

  // Checks one access of kBytes at an address; returns where the bytes are. Throws Stop.
  template <std::size_t kBytes, Access access, Space space>
  std::byte* at(Thread& thread, const Instruction& i, std::uint64_t address);

  // A taken branch, and the end of a thread's turn: instructions are counted there.
  Next jump(Thread& thread, const Instruction& from, std::uint32_t target);
  Next pause(Thread& thread, const Instruction& at, State state);

  const std::byte* parameter(Thread& thread, const Instruction& i, std::uint64_t offset,
                             std::size_t bytes);

  // Notes a finding; the place in the grid and the instruction are added. Throws Stop if it is
  // fatal.
  void object(Check check, const Thread& thread, const Instruction& i, const std::string& what);

  const Program& program() const { return program_; }
  std::uint64_t executed() const { return executed_; }
  std::vector<Finding> take_findings() { return findings_.take(); }

 private:
  // What an instruction touched last time: most of them stay in one allocation.
  struct Recent {
    const Region* region = nullptr;
    AccessLog* log = nullptr;
  };

  void fill_registers();
  void start_threads();
  void count(const Thread& thread, const Instruction& last);
  void run_thread(Thread& thread);
  bool run_warp(Thread* threads, std::uint32_t count);
  bool combine_lanes(Thread* threads, std::uint32_t count);
  bool release_barrier();
  [[noreturn]] void explain_deadlock();
  std::uint64_t special(Special which, std::uint32_t thread) const;
  std::string place(const Thread& thread) const;

  template <std::size_t kBytes, Access access>
  std::byte* global(Thread& thread, const Instruction& i, std::uint64_t address);
  template <std::size_t kBytes, Access access>
  std::byte* shared(Thread& thread, const Instruction& i, std::uint64_t address);
  template <std::size_t kBytes, Access access>
  void check_race(Thread& thread, const Instruction& i, Logs logs, const char* memory);
  template <std::size_t kBytes, Access access>
  void check_written(Thread& thread, const Instruction& i, std::uint8_t* written,
                     const char* memory);
  Recent& look_up(Thread& thread, const Instruction& i, std::uint64_t address, std::size_t bytes,
                  Access access);
  void misaligned(Thread& thread, const Instruction& i, std::uint64_t address, std::size_t bytes);
  void outside_shared(Thread& thread, const Instruction& i, std::uint64_t address);
  void raced(Thread& thread, const Instruction& i, std::uint64_t rival, const char* memory);

  const Program& program_;
  const Launch& launch_;
  Memory& memory_;
  const bool listened_to_;
  Findings findings_;

  Dim3 index_;
  std::vector<Thread> threads_;
  std::vector<std::uint64_t> registers_;
  std::uint64_t epoch_ = 0, first_epoch_ = 0;
  std::uint64_t executed_ = 0;
  const Instruction* counted_ = nullptr;  // the first one that executed_ does not count yet

  std::vector<std::byte> shared_;
  std::vector<std::uint8_t> shared_written_;
  AccessLog shared_log_;

  std::vector<Recent> recent_;  // one per instruction
  std::unordered_map<const Region*, AccessLog> logs_;
};

inline void Block::count(const Thread& thread, const Instruction& last) {
  executed_ += static_cast<std::uint64_t>(&last - counted_ + 1);
  if (executed_ > launch_.instruction_limit) object(Check::Deadlock, thread, last, "endless loop");
}

inline Next Block::jump(Thread& thread, const Instruction& from, std::uint32_t target) {
  count(thread, from);
  return counted_ = &program_.code[target];
}

inline Next Block::pause(Thread& thread, const Instruction& at, State state) {
  count(thread, at);
  thread.pc = at.index + 1;
  thread.state = state;
  return nullptr;
}

template <std::size_t kBytes, Access access, Space space>
std::byte* Block::at(Thread& thread, const Instruction& i, std::uint64_t address) {
  if (address % kBytes != 0) misaligned(thread, i, address, kBytes);
  if constexpr (space == Space::Shared) return shared<kBytes, access>(thread, i, address);
  if constexpr (space == Space::Generic) {
    const std::uint64_t in_shared = address - kSharedWindow;
    if (in_shared < kSharedWindowSize) return shared<kBytes, access>(thread, i, in_shared);
  }
  return global<kBytes, access>(thread, i, address);
}

template <std::size_t kBytes, Access access>
std::byte* Block::global(Thread& thread, const Instruction& i, std::uint64_t address) {
  Recent* recent = &recent_[i.index];
  const Region* region = recent->region;
  if (!region || address < region->address || address + kBytes > region->address + region->size) {
    recent = &look_up(thread, i, address, kBytes, access);
    region = recent->region;
  }
  const std::uint64_t offset = address - region->address;
  if (region->initialised) {
    check_written<kBytes, access>(thread, i, region->initialised + offset, "global");
  }
  const std::uint64_t in_log = address - (region->address & ~15ull);
  check_race<kBytes, access>(thread, i, recent->log->at<kBytes>(in_log), "global");
  if (listened_to_) {
    if constexpr (access == Access::Read) memory_.note_read(address, kBytes);
    if constexpr (access == Access::Write) memory_.note_write(address, kBytes);
    if constexpr (access == Access::Atomic) memory_.note_atomic(address, kBytes);
  }
  return region->bytes + offset;
}

template <std::size_t kBytes, Access access>
std::byte* Block::shared(Thread& thread, const Instruction& i, std::uint64_t address) {
  if (address + kBytes > shared_.size() || address + kBytes < address) {
    outside_shared(thread, i, address);
  }
  check_written<kBytes, access>(thread, i, &shared_written_[address], "shared");
  check_race<kBytes, access>(thread, i, shared_log_.at<kBytes>(address), "shared");
  return &shared_[address];
}

template <std::size_t kBytes, Access access>
void Block::check_written(Thread& thread, const Instruction& i, std::uint8_t* written,
                          const char* memory) {
  if constexpr (access == Access::Write) {
    std::memset(written, 1, kBytes);
  } else {
    std::uint8_t all[kBytes];
    std::memset(all, 1, kBytes);
    if (std::memcmp(written, all, kBytes) != 0) {
      object(Check::Uninitialised, thread, i, std::string("uninitialised ") + memory + " read");
      std::memset(written, access == Access::Atomic, kBytes);
    }
  }
}

template <std::size_t kBytes, Access access>
void Block::check_race(Thread& thread, const Instruction& i, Logs logs, const char* memory) {
  std::uint64_t rival = 0;
  for (std::size_t k = 0; k < logs.count; ++k) {
    rival |= logs.first[k].record<access>(thread.tag, first_epoch_);
  }
  if (rival != 0) raced(thread, i, rival, memory);
}

}  // namespace cudasim::ptx
