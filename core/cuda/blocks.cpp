#include <tandem/core/cuda/blocks.h>

#include <utility>

namespace tandem::gpu {

void Blocks::add(void* data, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  blocks_.emplace(static_cast<const std::byte*>(data), Block{bytes});
}

void Blocks::remove(void* data) noexcept {
  const std::lock_guard lock(mutex_);
  blocks_.erase(static_cast<const std::byte*>(data));
}

void Blocks::mark(const void* inside, Mark mark) {
  const auto* at = static_cast<const std::byte*>(inside);
  const std::lock_guard lock(mutex_);
  const auto found = blocks_.lower_bound(at);  // the block that begins last, at or before `at`
  if (found == blocks_.end() || at >= found->first + found->second.bytes) return;
  found->second.marks.push_back(std::move(mark));
  ++marked_;
}

std::vector<Mark> Blocks::marks(const void* data) {
  if (marked_.load(std::memory_order_relaxed) == 0) return {};
  const std::lock_guard lock(mutex_);
  const auto found = blocks_.find(static_cast<const std::byte*>(data));
  return found == blocks_.end() ? std::vector<Mark>{} : found->second.marks;
}

std::vector<Mark> Blocks::take(const void* data) noexcept {
  if (marked_.load(std::memory_order_relaxed) == 0) return {};
  const std::lock_guard lock(mutex_);
  const auto found = blocks_.find(static_cast<const std::byte*>(data));
  if (found == blocks_.end()) return {};
  marked_ -= found->second.marks.size();
  return std::exchange(found->second.marks, {});
}

Array workspace(std::int64_t bytes, Device device) {
  const CategoryScope scope(Category::workspace);
  return Array::empty({bytes}, DType::uint8, device);
}

}  // namespace tandem::gpu
