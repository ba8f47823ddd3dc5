// How parameters lie in one flat block per dtype, and in which buckets they travel. Shared by
// replicate.h (parameters out) and reduce.h (gradients home).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <tandem/core/array.h>

namespace tandem::parallel {

/// Slots of a list of arrays inside flat blocks, one block per dtype. Slots start at multiples of
/// 64 bytes, so that a run of neighbours can be copied or added in one go, gaps included.
class FlatLayout {
 public:
  FlatLayout() = default;
  /// The shapes, dtypes and (where dense) strides of `like`.
  explicit FlatLayout(std::span<const Array> like);

  int size() const { return int(slots_.size()); }
  int blocks() const { return int(block_bytes_.size()); }
  int block_of(int slot) const { return slots_[std::size_t(slot)].block; }
  DType dtype_of_block(int block) const { return block_dtype_[std::size_t(block)]; }
  /// Elements of the block before this slot, and up to where the next one starts.
  std::int64_t begin(int slot) const { return slots_[std::size_t(slot)].begin; }
  std::int64_t end(int slot) const { return slots_[std::size_t(slot)].end; }

  /// One array per block, uninitialised.
  std::vector<Array> make_blocks(Device device) const;
  /// The slot as an array with a version of its own.
  Array carve(const std::vector<Array>& blocks, int slot) const;
  /// The slot as a view of its block: cheaper, for writing into.
  Array view(const std::vector<Array>& blocks, int slot) const;
  /// Copies values[i] into slot slots[i] for all i, in few launches on a GPU, and gives the gaps
  /// behind them a value too: a slot may become part of a run.
  void fill_slots(const std::vector<Array>& blocks, std::span<const int> slots,
                  std::span<const Array> values) const;

 private:
  Array gap_behind(const std::vector<Array>& blocks, int slot) const;

  struct Slot {
    int block;
    std::int64_t begin, end;
    Shape shape, strides;
  };
  std::vector<Slot> slots_;
  std::vector<std::int64_t> block_bytes_;
  std::vector<DType> block_dtype_;
};

/// Slots [first, last) of one block, reduced together.
struct Bucket {
  int first, last;
};
/// Of about `bytes` each, last slots first; a larger slot has a bucket of its own.
std::vector<Bucket> make_buckets(const FlatLayout& layout, std::int64_t bytes);

}  // namespace tandem::parallel
