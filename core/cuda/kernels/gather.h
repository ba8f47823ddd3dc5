// Launchers of gather.cu: picking along a dimension by an index, and adding up where indices are
// equal. Indices have been checked. `step` is the stride of the dimension that an index counts in.
#pragma once

#include <cuda_runtime_api.h>

#include <tandem/core/cuda/kernels/strided.h>
#include <tandem/core/dtype.h>

namespace tandem::gpu {

/// y[e] = x[e + index[e] step]; places: y, index, x. Elements of `size` bytes: 1, 2, 4 or 8.
void launch_gather(std::size_t size, const Strided<3>& places, std::int64_t step, const void* x,
                   const std::int64_t* index, void* y, cudaStream_t stream);

/// dx[line, k] = sum of dy[line, i] over the i < count with index[line, i] == k, in the order of i.
struct ScatterPlaces {
  Strided<3> lines;        // positions in the other dimensions: dx, dy, index
  std::uint32_t size = 0;  // dx has elements k of [first, first + size) along the dimension
  std::int64_t first = 0;
  std::uint32_t count = 0;
  std::int64_t dx_step = 0, dy_step = 0, index_step = 0;
};

/// A thread for each element of dx reads all of its line's indices: lines * size * count reads.
/// REQUIRES: lines * size <= kMostElements.
void launch_scatter_add(DType dtype, const ScatterPlaces& places, const std::int64_t* index,
                        const void* dy, void* dx, cudaStream_t stream);
/// The same where the lines share their indices, so that whole rows are added: a warp for each k
/// and 128 lines reads 32 indices at a time.
void launch_scatter_add_rows(DType dtype, const ScatterPlaces& places, const std::int64_t* index,
                             const void* dy, void* dx, cudaStream_t stream);

}  // namespace tandem::gpu
