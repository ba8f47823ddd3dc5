// Launcher of dropout.cu.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include <tandem/core/dtype.h>
#include <tandem/core/philox.h>

namespace tandem::gpu {

/// Rows, contiguous one after the other, and what of them a launch does: `columns` elements from
/// `first_column` on, a multiple of 4, of `rows` rows from the one at the pointers on.
struct DropoutRows {
  std::int64_t row_size, first_row, first_column;
  std::uint32_t rows, columns;
};

/// y = x scales of (first_row + row, column); of `dtype`: float32, float16 or bfloat16. x and y are
/// row 0's first elements. REQUIRES: rows times (columns / 4, rounded up) <= kMostElements.
void launch_dropout(const DropoutKey& key, DType dtype, const DropoutRows& rows, const void* x,
                    void* y, cudaStream_t stream);

}  // namespace tandem::gpu
