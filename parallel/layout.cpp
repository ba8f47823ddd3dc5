#include <tandem/parallel/layout.h>

#include <algorithm>

#include <tandem/core/array_ops.h>

namespace tandem::parallel {

FlatLayout::FlatLayout(std::span<const Array> like) {
  for (const Array& a : like) {
    const auto found = std::find(block_dtype_.begin(), block_dtype_.end(), a.dtype());
    const int block = int(found - block_dtype_.begin());
    if (found == block_dtype_.end()) {
      block_dtype_.push_back(a.dtype());
      block_bytes_.push_back(0);
    }
    std::int64_t& bytes = block_bytes_[std::size_t(block)];
    const auto size = std::int64_t(size_of(a.dtype()));
    const std::int64_t begin = bytes;
    bytes += (a.nbytes() + 63) / 64 * 64;
    slots_.push_back({block, begin / size, bytes / size, a.shape(),
                      a.is_dense() ? a.strides() : contiguous_strides(a.shape())});
  }
}

std::vector<Array> FlatLayout::make_blocks(Device device) const {
  std::vector<Array> blocks;
  for (int b = 0; b < this->blocks(); ++b) {
    const DType dtype = dtype_of_block(b);
    const std::int64_t n = block_bytes_[std::size_t(b)] / std::int64_t(size_of(dtype));
    blocks.push_back(Array::empty({n}, dtype, device));
  }
  return blocks;
}

Array FlatLayout::carve(const std::vector<Array>& blocks, int slot) const {
  const Slot& s = slots_[std::size_t(slot)];
  const DType dtype = dtype_of_block(s.block);
  const std::int64_t bytes = s.begin * std::int64_t(size_of(dtype));
  return blocks[std::size_t(s.block)]
      .carve(bytes, s.shape, dtype)
      .as_strided(s.shape, s.strides, 0);
}

Array FlatLayout::view(const std::vector<Array>& blocks, int slot) const {
  const Slot& s = slots_[std::size_t(slot)];
  return blocks[std::size_t(s.block)].as_strided(s.shape, s.strides, s.begin);
}

Array FlatLayout::gap_behind(const std::vector<Array>& blocks, int slot) const {
  const Slot& s = slots_[std::size_t(slot)];
  const std::int64_t n = s.shape.numel();
  return blocks[std::size_t(s.block)].narrow(0, s.begin + n, s.end - s.begin - n);
}

// On a GPU the gaps are copies among the others, from a few zeros.
void FlatLayout::fill_slots(const std::vector<Array>& blocks, std::span<const int> slots,
                            std::span<const Array> values) const {
  std::vector<Array> to, from(values.begin(), values.end()), gaps;
  for (int slot : slots) {
    to.push_back(view(blocks, slot));
    Array gap = gap_behind(blocks, slot);
    if (gap.numel() > 0) gaps.push_back(std::move(gap));
  }
  if (!gaps.empty() && gaps[0].device().kind != DeviceKind::cpu) {
    const CategoryScope scope(Category::workspace);
    const Array zeros = Array::zeros({64}, uint8, gaps[0].device());
    for (const Array& gap : gaps) {
      from.push_back(zeros.carve(0, gap.shape(), gap.dtype()));
      to.push_back(gap);
    }
    gaps.clear();
  }
  copy_all(to, from);
  for (Array& gap : gaps) fill(gap, 0);
}

std::vector<Bucket> make_buckets(const FlatLayout& layout, std::int64_t bytes) {
  std::vector<Bucket> buckets;
  for (int last = layout.size(); last > 0;) {
    const int block = layout.block_of(last - 1);
    const auto size = std::int64_t(size_of(layout.dtype_of_block(block)));
    int first = last - 1;
    while (first > 0 && layout.block_of(first - 1) == block &&
           (layout.end(last - 1) - layout.begin(first - 1)) * size <= bytes) {
      --first;
    }
    buckets.push_back({first, last});
    last = first;
  }
  return buckets;
}

}  // namespace tandem::parallel
