// Launchers of copy.cu, cast.cu and where.cu: elements move, as bits or converted.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include <tandem/core/cuda/kernels/strided.h>
#include <tandem/core/dtype.h>

namespace tandem::gpu {

/// o = (y, x): y = x, elements of `bytes` (1, 2, 4 or 8).
void launch_copy(int bytes, const Operands<2>& o, cudaStream_t stream);

/// Planes to be transposed: x is contiguous along rows, y along columns.
struct Planes {
  Strided<2> outer;  // y, x
  std::uint32_t rows, columns;
  std::uint32_t y_row, x_column;  // the other strides
};
/// Sides below this are not worth a transposition in squares.
inline constexpr std::uint32_t kLeastSide = 8;
void launch_transpose(int bytes, const Planes& planes, const void* x, void* y, cudaStream_t stream);

/// o = (y): y = the low `bytes` bytes of `bits`.
void launch_fill(int bytes, std::uint64_t bits, const Operands<1>& o, cudaStream_t stream);

/// o = (y, x): y = x converted, no float64.
void launch_cast(DType from, DType to, const Operands<2>& o, cudaStream_t stream);

/// o = (y, condition, a, b): y = condition ? a : b, elements of `bytes`, the condition bool.
void launch_where(int bytes, const Operands<4>& o, cudaStream_t stream);

}  // namespace tandem::gpu
