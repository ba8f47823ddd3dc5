// Launchers of rescale.cu: many tensors times one factor, measured in the same pass.
//
// Tensors are cut into chunks, a block for each, as in update.h. A chunk's sums go to a place of
// their own; a second launch adds up those of each tensor. The numbers here follow from sizes
// alone, so the bits of a sum do, too.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include <tandem/core/dtype.h>

namespace tandem::gpu {

/// Elements of a rescaled tensor that a block takes.
inline constexpr std::uint32_t kRescaleChunk = 16384;
/// Tensors of a launch: kernels take 4096 bytes of arguments on every driver.
inline constexpr int kRescaleTensors = 128;

/// One tensor, and its row of `found`.
struct RescaleTensor {
  void* data;
  std::int64_t size;
  std::uint32_t first_chunk, chunks;
};

struct RescaleTable {
  std::uint32_t tensors = 0, chunks = 0;
  bool packed = true;  // all begin at 16 bytes
  RescaleTensor tensor[kRescaleTensors];
};

/// x = x factor for each x of `dtype` (float32, float16, bfloat16) of the table; as they are if the
/// factor is 1. partial: two numbers for each chunk: {sum of squares of the products, how many
/// threads saw Inf or NaN before}.
void launch_rescale(DType dtype, float factor, const RescaleTable& table, float* partial,
                    cudaStream_t stream);
/// found[k] = {sum of squares, 1 if some element of tensor k was infinite or NaN, else 0}.
void launch_rescale_found(const RescaleTable& table, const float* partial, float* found,
                          cudaStream_t stream);

}  // namespace tandem::gpu
