// Launcher of copy_all.cu: many copies at once.
//
// Copies are cut into chunks, a block for each, as in update.h: packing the gradients of a model is
// a handful of launches, however many there are.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace tandem::gpu {

/// Bytes that a block copies.
inline constexpr std::uint32_t kCopyChunk = 32768;
/// Copies of a launch: kernels take 4096 bytes of arguments on every driver.
inline constexpr int kCopies = 120;

struct CopyItem {
  void* to;
  const void* from;
  std::int64_t size;  // bytes
  std::uint32_t first_chunk;
  std::uint32_t unit;  // 16, 8, 4, 2 or 1: both begin at a multiple of it
};

struct CopyTable {
  std::uint32_t items = 0, chunks = 0;
  CopyItem item[kCopies];
};

/// The first `items` of the table, which have `chunks` in all.
void launch_copy_all(const CopyTable& table, cudaStream_t stream);

}  // namespace tandem::gpu
