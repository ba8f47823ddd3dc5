#include <tandem/core/cuda/kernels/strided.h>
#include <tandem/core/cuda/kernels/whole_gemm.h>

namespace tandem::gpu {
namespace {

// A thread computes whole elements of c, one after the other.
__global__ void __launch_bounds__(kThreads)
    multiply(WholeMatrix a, WholeMatrix b, std::int64_t* c, std::int64_t count, std::int64_t m,
             std::int64_t n, std::int64_t k, bool accumulate) {
  const std::int64_t step = std::int64_t(gridDim.x) * blockDim.x;
  for (std::int64_t i = std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    const std::int64_t row = i / n, batch = row / m;
    const std::int64_t* left = a.data + batch * a.batch + (row - batch * m) * a.row;
    const std::int64_t* right = b.data + batch * b.batch + (i - row * n) * b.column;
    std::uint64_t sum = accumulate ? std::uint64_t(c[i]) : 0;
    for (std::int64_t j = 0; j < k; ++j) {
      sum += std::uint64_t(left[j * a.column]) * std::uint64_t(right[j * b.row]);
    }
    c[i] = std::int64_t(sum);
  }
}

}  // namespace

void multiply_whole(const WholeMatrix& a, const WholeMatrix& b, std::int64_t* c,
                    std::int64_t batches, std::int64_t m, std::int64_t n, std::int64_t k,
                    bool accumulate, cudaStream_t stream) {
  const std::int64_t count = batches * m * n;
  multiply<<<blocks_for(std::uint64_t(count)), kThreads, 0, stream>>>(a, b, c, count, m, n, k,
                                                                      accumulate);
}

}  // namespace tandem::gpu
