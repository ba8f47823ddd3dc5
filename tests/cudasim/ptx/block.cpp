// How the threads of a block take turns, and what is said when they cannot.
#include "ptx/block.h"

#include <algorithm>
#include <cstdio>

namespace cudasim::ptx {
namespace {

std::string hex(std::uint64_t value) {
  char text[20];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

std::string to_string(Dim3 d) {
  std::string text = std::to_string(d.x);
  for (std::uint32_t n : {d.y, d.z}) text += ", " + std::to_string(n);
  return std::string("(").append(text) + ")";
}

bool differs_by_block(Special which) {
  return which == Special::CtaidX || which == Special::CtaidY || which == Special::CtaidZ;
}

Dim3 unflatten(std::uint32_t i, Dim3 size) {
  return {i % size.x, i / size.x % size.y, i / size.x / size.y};
}

}  // namespace

Block::Block(const Program& program, const Launch& launch, Memory& memory)
    : program_(program),
      launch_(launch),
      memory_(memory),
      listened_to_(memory.listens()),
      findings_(program),
      threads_(launch.block.count()),
      registers_(threads_.size() * program.image.size()),
      shared_(program.static_shared + launch.dynamic_shared),
      shared_written_(shared_.size()),
      shared_log_(shared_.size()),
      recent_(program.code.size()) {
  fill_registers();
}

void Block::run(Dim3 index) {
  index_ = index;
  ++epoch_;
  first_epoch_ = epoch_;
  std::fill(shared_written_.begin(), shared_written_.end(), std::uint8_t{0});
  shared_log_.clear();
  start_threads();
  const auto count = static_cast<std::uint32_t>(threads_.size());
  for (;;) {
    bool progress = false;
    for (std::uint32_t lane0 = 0; lane0 < count; lane0 += kWarpSize) {
      progress |= run_warp(&threads_[lane0], std::min(kWarpSize, count - lane0));
    }
    const bool done = std::all_of(threads_.begin(), threads_.end(),
                                  [](const Thread& t) { return t.state == State::Done; });
    if (done) return;
    if (!release_barrier() && !progress) explain_deadlock();
  }
}

// What is the same in every block of the launch.
void Block::fill_registers() {
  for (std::uint32_t id = 0; id < threads_.size(); ++id) {
    std::uint64_t* const registers = &registers_[id * program_.image.size()];
    std::copy(program_.image.begin(), program_.image.end(), registers);
    for (const auto& [slot, which] : program_.specials) registers[slot] = special(which, id);
  }
}

void Block::start_threads() {
  for (std::uint32_t id = 0; id < threads_.size(); ++id) {
    Thread& thread = threads_[id];
    thread = {};
    thread.id = static_cast<std::uint16_t>(id);
    thread.tag = tag::make(epoch_, 0, id);
    thread.registers = &registers_[id * program_.image.size()];
    std::fill_n(thread.registers, program_.registers, std::uint64_t{0});
    for (const auto& [slot, which] : program_.specials)
      if (differs_by_block(which)) thread.registers[slot] = special(which, id);
  }
}

void Block::run_thread(Thread& thread) {
  const Instruction* i = counted_ = &program_.code[thread.pc];
  while (i) i = i->execute(*this, thread, *i);
}

// Runs every lane as far as it gets. Says whether any of them moved.
bool Block::run_warp(Thread* threads, std::uint32_t count) {
  bool moved = false;
  do {
    for (std::uint32_t lane = 0; lane < count; ++lane) {
      if (threads[lane].state != State::Running) continue;
      run_thread(threads[lane]);
      moved = true;
    }
  } while (combine_lanes(threads, count));
  return moved;
}

// Executes the warp-wide instructions whose lanes are all there. Says whether there was one.
bool Block::combine_lanes(Thread* threads, std::uint32_t count) {
  bool any = false;
  for (std::uint32_t lane = 0; lane < count; ++lane) {
    Thread& thread = threads[lane];
    if (thread.state != State::AtCollective) continue;
    const Instruction& i = program_.code[thread.pc - 1];
    const auto mask = static_cast<std::uint32_t>(thread.registers[i.operand[i.target]]);
    if (!(mask >> lane & 1)) {
      object(Check::WarpMask, thread, i,
             "lane " + std::to_string(lane) + " is not in its own mask " + hex(mask));
    }
    std::uint32_t here = 0, missing = 0;
    for (std::uint32_t other = 0; other < count; ++other) {
      const Thread& t = threads[other];
      if (!(mask >> other & 1) || t.state == State::Done) continue;
      const bool same = t.state == State::AtCollective && t.pc == thread.pc &&
                        static_cast<std::uint32_t>(t.registers[i.operand[i.target]]) == mask;
      (same ? here : missing) |= 1u << other;
    }
    if (missing) continue;
    Lanes lanes{*this, threads, here};
    i.combine(lanes, i);
    for (std::uint32_t other = 0; other < count; ++other) {
      if (here >> other & 1) threads[other].state = State::Running;
    }
    any = true;
  }
  return any;
}

// If every thread that is left waits at a barrier: lets them pass. Says whether it did.
bool Block::release_barrier() {
  const Thread* first = nullptr;
  std::size_t waiting = 0;
  for (const Thread& t : threads_) {
    if (t.state == State::Running || t.state == State::AtCollective) return false;
    if (t.state != State::AtBarrier) continue;
    ++waiting;
    if (!first) first = &t;
    if (t.pc != first->pc) {
      object(Check::Barrier, t, program_.code[t.pc - 1],
             "divergent barrier: other threads wait at line " +
                 std::to_string(program_.sources[first->pc - 1].line));
    }
  }
  if (!first) return false;
  if (waiting < threads_.size()) {
    object(Check::Barrier, *first, program_.code[first->pc - 1],
           "divergent barrier: only " + std::to_string(waiting) + " of " +
               std::to_string(threads_.size()) + " threads reach it, the others have ended");
  }
  ++epoch_;
  for (Thread& t : threads_) {
    t.state = State::Running;
    t.warp_epoch = 0;
    t.tag = tag::make(epoch_, 0, t.id);
  }
  return true;
}

void Block::explain_deadlock() {
  for (const Thread& t : threads_) {
    if (t.state != State::AtCollective) continue;
    const Instruction& i = program_.code[t.pc - 1];
    const auto mask = static_cast<std::uint32_t>(t.registers[i.operand[i.target]]);
    const std::uint32_t lane0 = t.id / kWarpSize * kWarpSize;
    for (std::uint32_t id = lane0; id < lane0 + kWarpSize && id < threads_.size(); ++id) {
      const Thread& other = threads_[id];
      if (!(mask >> (id - lane0) & 1) || other.state == State::Done || other.pc == t.pc) continue;
      object(Check::WarpMask, t, i,
             "mask " + hex(mask) + " names lane " + std::to_string(id - lane0) +
                 ", which waits elsewhere (line " +
                 std::to_string(program_.sources[other.pc - 1].line) + ")");
    }
    object(Check::WarpMask, t, i, "the lanes of a warp name different masks");
  }
  object(Check::Deadlock, threads_[0], program_.code[threads_[0].pc - 1], "deadlock");
  throw Stop{};
}

std::uint64_t Block::special(Special which, std::uint32_t thread) const {
  const Dim3 tid = unflatten(thread, launch_.block);
  const std::uint32_t lane = thread % kWarpSize, bit = 1u << lane;
  switch (which) {
    case Special::TidX:
      return tid.x;
    case Special::TidY:
      return tid.y;
    case Special::TidZ:
      return tid.z;
    case Special::NtidX:
      return launch_.block.x;
    case Special::NtidY:
      return launch_.block.y;
    case Special::NtidZ:
      return launch_.block.z;
    case Special::CtaidX:
      return index_.x;
    case Special::CtaidY:
      return index_.y;
    case Special::CtaidZ:
      return index_.z;
    case Special::NctaidX:
      return launch_.grid.x;
    case Special::NctaidY:
      return launch_.grid.y;
    case Special::NctaidZ:
      return launch_.grid.z;
    case Special::Laneid:
      return lane;
    case Special::Warpid:
      return thread / kWarpSize;
    case Special::LanemaskEq:
      return bit;
    case Special::LanemaskLt:
      return bit - 1;
    case Special::LanemaskLe:
      return bit | (bit - 1);
    case Special::LanemaskGt:
      return static_cast<std::uint32_t>(~(bit | (bit - 1)));
    case Special::LanemaskGe:
      return static_cast<std::uint32_t>(~(bit - 1));
  }
  return 0;
}

std::string Block::place(const Thread& thread) const {
  return " by thread " + to_string(unflatten(thread.id, launch_.block)) + " of block " +
         to_string(index_);
}

void Block::object(Check check, const Thread& thread, const Instruction& i,
                   const std::string& what) {
  if (findings_.first(check, i)) findings_.add(check, i, what + place(thread));
  const bool fatal = check != Check::Uninitialised && check != Check::Race;
  if (fatal) throw Stop{};
}

void Block::misaligned(Thread& thread, const Instruction& i, std::uint64_t address,
                       std::size_t bytes) {
  object(
      Check::Misaligned, thread, i,
      "misaligned access: address " + hex(address) + " is no multiple of " + std::to_string(bytes));
}

void Block::outside_shared(Thread& thread, const Instruction& i, std::uint64_t address) {
  object(Check::OutOfBounds, thread, i,
         "shared memory out of bounds: byte " + std::to_string(address) + " of " +
             std::to_string(shared_.size()));
}

void Block::raced(Thread& thread, const Instruction& i, std::uint64_t rival, const char* memory) {
  const bool other_block = tag::epoch(rival) < first_epoch_ || rival & tag::kManyBlocks;
  object(Check::Race, thread, i,
         std::string(memory) + " memory race with " +
             (other_block ? "another block" : "another thread"));
}

Block::Recent& Block::look_up(Thread& thread, const Instruction& i, std::uint64_t address,
                              std::size_t bytes, Access access) {
  std::string reason = "outside any allocation";
  const Region* region = memory_.find(address, bytes, reason);
  const char* verb = access == Access::Read ? "read" : access == Access::Write ? "write" : "atomic";
  if (region && access != Access::Read && !region->writable) {
    region = nullptr;
    reason = "read-only memory";
  }
  if (!region) {
    object(Check::OutOfBounds, thread, i,
           std::string("global ") + verb + " of " + std::to_string(bytes) + " bytes at " +
               hex(address) + ": " + reason);
  }
  AccessLog& log = logs_.try_emplace(region, region->size + 15).first->second;
  return recent_[i.index] = {region, &log};
}

const std::byte* Block::parameter(Thread& thread, const Instruction& i, std::uint64_t offset,
                                  std::size_t bytes) {
  if (offset + bytes > launch_.parameters.size()) {
    object(Check::OutOfBounds, thread, i, "kernel parameter out of bounds");
  }
  return launch_.parameters.data() + offset;
}

std::vector<Finding> run(const Kernel& kernel, const Launch& launch, Memory& memory,
                         std::uint64_t* executed) {
  Block block(kernel.program(), launch, memory);
  try {
    Dim3 index;
    for (index.z = 0; index.z < launch.grid.z; ++index.z)
      for (index.y = 0; index.y < launch.grid.y; ++index.y)
        for (index.x = 0; index.x < launch.grid.x; ++index.x) block.run(index);
  } catch (const Stop&) {
  }
  if (executed) *executed = block.executed();
  return block.take_findings();
}

}  // namespace cudasim::ptx
