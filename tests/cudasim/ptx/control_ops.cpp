// Branches, barriers, and the instructions that the lanes of a warp execute together.
#include "ptx/block.h"
#include "ptx/register_access.h"

#include <array>
#include <bit>

namespace cudasim::ptx {
namespace {

Next branch(Block& block, Thread& thread, const Instruction& i) {
  return block.jump(thread, i, i.target);
}

// brx.idx index, table
Next branch_table(Block& block, Thread& thread, const Instruction& i) {
  const auto& table = block.program().branch_tables[i.target];
  const auto index = get<std::uint32_t>(thread, i.operand[0]);
  if (index >= table.size()) {
    block.object(Check::OutOfBounds, thread, i, "branch index " + std::to_string(index));
  }
  return block.jump(thread, i, table[index]);
}

Next end(Block& block, Thread& thread, const Instruction& i) {
  return block.pause(thread, i, State::Done);
}
Next nothing(Block&, Thread&, const Instruction& i) {
  return next(i);
}
Next wait_for_block(Block& block, Thread& thread, const Instruction& i) {
  return block.pause(thread, i, State::AtBarrier);
}
Next wait_for_lanes(Block& block, Thread& thread, const Instruction& i) {
  return block.pause(thread, i, State::AtCollective);
}
Next trap(Block& block, Thread& thread, const Instruction& i) {
  block.object(Check::Trap, thread, i, "the kernel stops itself");
  return nullptr;
}

template <class Visit>
void for_active(const Lanes& lanes, Visit visit) {
  for (std::uint32_t rest = lanes.active; rest != 0; rest &= rest - 1) {
    visit(static_cast<std::uint32_t>(std::countr_zero(rest)));
  }
}

// __syncwarp(): what came before is visible to the lanes of the mask.
void sync_lanes(Lanes& lanes, const Instruction&) {
  for_active(lanes, [&](std::uint32_t lane) {
    Thread& t = lanes.threads[lane];
    ++t.warp_epoch;
    t.tag = tag::make(tag::epoch(t.tag), t.warp_epoch, t.id);
  });
}

enum class Shuffle { Up, Down, Butterfly, Index };

// The lane that `lane` reads from, and whether it is within the segment. PTX ISA, "shfl.sync": b is
// the distance, c holds the segment mask (bits 8-12) and the clamp value (bits 0-4).
template <Shuffle how>
std::pair<std::uint32_t, bool> source_lane(std::uint32_t lane, std::uint32_t b, std::uint32_t c) {
  const std::uint32_t clamp = c & 31, segment = c >> 8 & 31;
  const std::uint32_t last = (lane & segment) | (clamp & ~segment);
  const std::uint32_t first = lane & segment;
  b &= 31;
  bool inside = false;
  std::uint32_t from = lane;
  if constexpr (how == Shuffle::Up) {
    inside = lane >= b && lane - b >= last;
    from = lane - b;
  } else if constexpr (how == Shuffle::Down) {
    from = lane + b;
    inside = from <= last;
  } else if constexpr (how == Shuffle::Butterfly) {
    from = lane ^ b;
    inside = from <= last;
  } else {
    from = first | (b & ~segment);
    inside = from <= last;
  }
  return {inside ? from : lane, inside};
}

// shfl.sync.mode.b32 d|p, a, b, c, mask
template <Shuffle how>
void shuffle(Lanes& lanes, const Instruction& i) {
  std::array<std::uint32_t, kWarpSize> value{};
  for_active(lanes, [&](std::uint32_t lane) {
    value[lane] = get<std::uint32_t>(lanes.threads[lane], i.operand[2]);
  });
  for_active(lanes, [&](std::uint32_t lane) {
    Thread& t = lanes.threads[lane];
    const auto [from, inside] = source_lane<how>(lane, get<std::uint32_t>(t, i.operand[3]),
                                                 get<std::uint32_t>(t, i.operand[4]));
    if (!(lanes.active >> from & 1)) {
      lanes.block.object(Check::WarpMask, t, i,
                         "shuffle reads lane " + std::to_string(from) + ", which takes no part");
    }
    set(t, i.operand[1], inside);
    set(t, i.operand[0], value[from]);
  });
}

enum class Vote { All, Any, Uniform, Ballot };

// vote.sync.mode d, p, mask
template <Vote how>
void vote(Lanes& lanes, const Instruction& i) {
  std::uint32_t yes = 0;
  for_active(lanes, [&](std::uint32_t lane) {
    yes |= std::uint32_t{get<bool>(lanes.threads[lane], i.operand[1])} << lane;
  });
  for_active(lanes, [&](std::uint32_t lane) {
    Thread& t = lanes.threads[lane];
    if constexpr (how == Vote::All) set(t, i.operand[0], yes == lanes.active);
    if constexpr (how == Vote::Any) set(t, i.operand[0], yes != 0);
    if constexpr (how == Vote::Uniform) set(t, i.operand[0], yes == 0 || yes == lanes.active);
    if constexpr (how == Vote::Ballot) set(t, i.operand[0], yes);
  });
}

struct Add {
  auto operator()(auto a, auto b) const { return a + b; }
};
struct Min {
  auto operator()(auto a, auto b) const { return a < b ? a : b; }
};
struct Max {
  auto operator()(auto a, auto b) const { return a < b ? b : a; }
};
struct And {
  auto operator()(auto a, auto b) const { return a & b; }
};
struct Or {
  auto operator()(auto a, auto b) const { return a | b; }
};
struct Xor {
  auto operator()(auto a, auto b) const { return a ^ b; }
};

// redux.sync.op d, a, mask
template <class T, class Op>
void reduce(Lanes& lanes, const Instruction& i) {
  const auto first = static_cast<std::uint32_t>(std::countr_zero(lanes.active));
  T all = get<T>(lanes.threads[first], i.operand[1]);
  for_active(lanes, [&](std::uint32_t lane) {
    if (lane != first) all = static_cast<T>(Op{}(all, get<T>(lanes.threads[lane], i.operand[1])));
  });
  for_active(lanes, [&](std::uint32_t lane) { set(lanes.threads[lane], i.operand[0], all); });
}

Handler collective(Combine combine) {
  return {&wait_for_lanes, combine};
}

template <class Op>
Handler reduction(bool is_signed) {
  return collective(is_signed ? &reduce<std::int32_t, Op> : &reduce<std::uint32_t, Op>);
}

Handler find_collective(const Opcode& op) {
  if (op.name == "shfl") {
    if (op.has("up")) return collective(&shuffle<Shuffle::Up>);
    if (op.has("down")) return collective(&shuffle<Shuffle::Down>);
    if (op.has("bfly")) return collective(&shuffle<Shuffle::Butterfly>);
    if (op.has("idx")) return collective(&shuffle<Shuffle::Index>);
  }
  if (op.name == "vote") {
    if (op.has("all")) return collective(&vote<Vote::All>);
    if (op.has("any")) return collective(&vote<Vote::Any>);
    if (op.has("uni")) return collective(&vote<Vote::Uniform>);
    if (op.has("ballot")) return collective(&vote<Vote::Ballot>);
  }
  if (op.name == "redux") {
    const bool is_signed = op.type() == "s32";
    if (op.has("add")) return reduction<Add>(is_signed);
    if (op.has("min")) return reduction<Min>(is_signed);
    if (op.has("max")) return reduction<Max>(is_signed);
    if (op.has("and")) return reduction<And>(is_signed);
    if (op.has("or")) return reduction<Or>(is_signed);
    if (op.has("xor")) return reduction<Xor>(is_signed);
  }
  return {};
}

}  // namespace

Handler find_control(const Opcode& op) {
  if (op.name == "bra") return {&branch};
  if (op.name == "brx" && op.has("idx")) return {&branch_table};
  if (op.name == "ret" || op.name == "exit") return {&end};
  if (op.name == "trap") return {&trap};
  if (op.name == "membar" || op.name == "fence" || op.name == "pragma") return {&nothing};
  if (op.name == "bar" && op.has("warp")) return collective(&sync_lanes);
  if ((op.name == "bar" || op.name == "barrier") && op.has("sync") &&
      op.only({"sync", "aligned", "cta"}))
    return {&wait_for_block};
  if (op.has("sync")) return find_collective(op);
  return {};
}

}  // namespace cudasim::ptx
