// Launcher of update.cu: one optimizer step over many tensors at once.
//
// Tensors are cut into chunks, a block for each; a table in the kernel's arguments says whose chunk
// a block has. So a step of a model is a handful of launches, however many parameters it has.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>

#include <tandem/core/dtype.h>
#include <tandem/core/update_rules.h>

namespace tandem::gpu {

/// Elements of an optimizer step that a block takes.
inline constexpr std::uint32_t kUpdateChunk = 4096;
/// Tensors of a launch: kernels take 4096 bytes of arguments on every driver.
inline constexpr int kUpdateTensors = 32;

inline constexpr int kUpdateArrays = 5;
/// One parameter. `data`: parameter, gradient and the states, null where there is none.
struct UpdateTensor {
  void* data[kUpdateArrays]{};
  std::int64_t size = 0;
  std::uint32_t first_chunk = 0;
  DType dtype[kUpdateArrays]{};
  bool packed = false;  // all are float32 and begin at 16 bytes
};

struct UpdateTable {
  std::uint32_t tensors = 0, chunks = 0;
  UpdateTensor tensor[kUpdateTensors];
  std::array<double, kUpdateCoefficients> coefficients[kUpdateTensors];
};

/// One step for the first `tensors` of the table, which have `chunks` in all.
void launch_update(UpdateOp op, const UpdateTable& table, cudaStream_t stream);

}  // namespace tandem::gpu
