// Products of matrices of whole numbers, which cuBLAS does not have.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace tandem::gpu {

/// A batch of matrices; strides count elements.
struct WholeMatrix {
  const std::int64_t* data;
  std::int64_t batch, row, column;
};

/// c (batches, m, n), row-major, = a (batches, m, k) b (batches, k, n), or += if `accumulate`.
/// Wraps around like the CPU's sums. REQUIRES: no size is 0.
void multiply_whole(const WholeMatrix& a, const WholeMatrix& b, std::int64_t* c,
                    std::int64_t batches, std::int64_t m, std::int64_t n, std::int64_t k,
                    bool accumulate, cudaStream_t stream);

}  // namespace tandem::gpu
