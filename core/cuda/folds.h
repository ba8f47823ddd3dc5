// A reduction's operand as launches: pieces that 32 bits can address, and memory for the partial
// results of long sums. Private to core/cuda. See kernels/fold.h.
#pragma once

#include <vector>

#include <tandem/core/array.h>
#include <tandem/core/cuda/blocks.h>
#include <tandem/core/cuda/kernels/reduce.h>
#include <tandem/core/cuda/layout.h>
#include <tandem/core/split.h>

namespace tandem::gpu {

/// For the partial results of a plan, of one that is not the only one, too. Undefined if it has
/// none.
inline Array partials_for(const FoldPlan& plan, Device device) {
  if (plan.slots <= 1) return {};
  return workspace(std::int64_t(plan.slots) * plan.results * std::int64_t(kMostValueBytes), device);
}
inline void* data_of(Array& workspace) {
  return workspace.defined() ? workspace.fresh_data() : nullptr;
}

/// Calls f(places, plan, offset of x, offset of y, partials) for launches that together reduce x to
/// y. REQUIRES: neither is empty.
template <class F>
void for_each_fold(const Array& x, const Array& y, F&& f) {
  struct Values {
    Strided<1> places;
    std::int64_t offset, first;
  };
  const Split split(x, y);
  const bool side_by_side = split.side_by_side();
  const Loops<2> all_kept({&split.kept_x, &split.kept_y});  // sorted by where they are read
  const Loops<1> all_gone({&split.gone});
  std::vector<Values> pieces;
  std::int64_t first = 0;
  for_each_piece(all_gone, [&](const Loops<1>& gone, const std::array<std::int64_t, 1>& offset) {
    pieces.push_back({strided(gone), offset[0], first});
    first += pieces.back().places.numel;
  });
  for_each_piece(all_kept, [&](const Loops<2>& kept, const std::array<std::int64_t, 2>& offset) {
    FoldPlaces places{strided(kept), {}, 0};
    std::vector<FoldPlan> plans;
    std::uint32_t slots = 0;
    for (const Values& v : pieces) {
      plans.push_back(plan_fold(places.kept.numel, v.places.numel, side_by_side));
      plans.back().slot = slots;
      slots += plans.back().parts;
    }
    for (FoldPlan& plan : plans) plan.slots = slots;
    Array partials = partials_for(plans[0], x.device());
    for (std::size_t i = 0; i < plans.size(); ++i) {
      places.gone = pieces[i].places;
      places.first = pieces[i].first;
      f(places, plans[i], offset[0] + pieces[i].offset, offset[1], data_of(partials));
    }
  });
}

}  // namespace tandem::gpu
