// Many copies of bytes at once.
#include <cstddef>

#include <tandem/core/cuda/kernels/copy_all.h>
#include <tandem/core/cuda/kernels/grid.cuh>

namespace tandem::gpu {
namespace {

// Whole units of a chunk, and the bytes that do not fill one.
template <class Unit>
__device__ inline void copy_chunk(const std::byte* from, std::byte* to, std::uint32_t bytes) {
  const std::uint32_t units = bytes / sizeof(Unit);
  for (std::uint32_t i = threadIdx.x; i < units; i += kThreads) {
    reinterpret_cast<Unit*>(to)[i] = reinterpret_cast<const Unit*>(from)[i];
  }
  const std::uint32_t rest = units * std::uint32_t(sizeof(Unit)) + threadIdx.x;
  if (rest < bytes) to[rest] = from[rest];
}

__global__ void __launch_bounds__(kThreads) copy_all(const __grid_constant__ CopyTable table) {
  const auto [k, start, bytes] = chunk_of_block(table.item, table.items, kCopyChunk);
  const CopyItem& item = table.item[k];
  const std::byte* from = static_cast<const std::byte*>(item.from) + start;
  std::byte* to = static_cast<std::byte*>(item.to) + start;
  switch (item.unit) {
    case 16:
      return copy_chunk<Pack<std::uint32_t, 4>>(from, to, bytes);
    case 8:
      return copy_chunk<std::uint64_t>(from, to, bytes);
    case 4:
      return copy_chunk<std::uint32_t>(from, to, bytes);
    case 2:
      return copy_chunk<std::uint16_t>(from, to, bytes);
    default:
      return copy_chunk<std::uint8_t>(from, to, bytes);
  }
}

}  // namespace

void launch_copy_all(const CopyTable& table, cudaStream_t stream) {
  static_assert(sizeof(CopyTable) <= 4096);
  copy_all<<<table.chunks, kThreads, 0, stream>>>(table);
}

}  // namespace tandem::gpu
