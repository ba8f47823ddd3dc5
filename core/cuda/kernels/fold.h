// How a reduction is spread over a GPU: which threads share a result, and into how many parts the
// values of a result are cut. What host code knows of fold.cuh.
//
// The numbers here follow from sizes alone, never from the GPU: so do the bits of a sum.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tandem::gpu {

inline constexpr std::uint32_t kLongRow = 1024;  // longer rows get a block each, others a warp
inline constexpr std::uint32_t kEnoughBlocks = 1024;
inline constexpr std::size_t kMostValueBytes = 16;  // of a partial result

/// `results` numbers, each of `values` values. A part is `chunk` of these; partial results go to
/// the slots [slot, slot + parts) out of `slots` that each result has.
struct FoldPlan {
  bool side_by_side = false;  // neighbouring results lie closer than values of one result
  std::uint32_t results = 1, values = 1;
  std::uint32_t parts = 1, chunk = 1;
  std::uint32_t slot = 0, slots = 1;
};

inline FoldPlan plan_fold(std::uint32_t results, std::uint32_t values, bool side_by_side) {
  FoldPlan p;
  p.side_by_side = side_by_side || values <= 16;
  p.results = results;
  p.values = values;
  // One block folds 32 results side by side, or one row.
  const std::uint32_t blocks = p.side_by_side ? (results - 1) / 32 + 1 : results;
  const std::uint32_t least = p.side_by_side ? 256 : 4096;  // values that a part is worth it for
  if (blocks < kEnoughBlocks && values >= 2 * least) {
    p.parts = std::min(values / least, kEnoughBlocks / blocks);
  }
  p.chunk = (values - 1) / p.parts + 1;
  p.parts = (values - 1) / p.chunk + 1;  // so none is empty
  p.slots = p.parts;
  return p;
}

}  // namespace tandem::gpu
