// Reductions along the rows of a matrix and over everything: shared memory and shuffles, fixed
// order. One block per row unless said otherwise. See kernels.h for what each computes.
#include "grid.cuh"
#include "kernels.h"

namespace cudasim::kernels {
namespace {

// Count, mean and sum of squared deviations of a set; merge() is Chan's formula for two sets.
struct Welford {
  float count, mean, m2;
};

__device__ Welford merge(Welford a, Welford b) {
  const float count = a.count + b.count;
  if (count == 0.f) return a;
  const float delta = b.mean - a.mean;
  return {count, a.mean + delta * (b.count / count),
          a.m2 + b.m2 + delta * delta * (a.count * b.count / count)};
}

}  // namespace

extern "C" __global__ void row_sum_kernel(const float* x, float* y, int cols) {
  const float* row = x + std::size_t{blockIdx.x} * cols;
  float value = 0.f;
  for (int c = threadIdx.x; c < cols; c += blockDim.x) value += row[c];
  value = block_reduce(value, Sum{});
  if (threadIdx.x == 0) y[blockIdx.x] = value;
}

// A tree in shared memory: halves the active threads at every level.
extern "C" __global__ void partial_sum_kernel(const float* x, float* partial, std::size_t n) {
  extern __shared__ float tree[];
  float value = 0.f;
  for (std::size_t i : GridStride(n)) value += x[i];
  tree[threadIdx.x] = value;
  __syncthreads();
  for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) tree[threadIdx.x] += tree[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) partial[blockIdx.x] = tree[0];
}

extern "C" __global__ void softmax_kernel(const float* x, float* y, int cols) {
  const float* row = x + std::size_t{blockIdx.x} * cols;
  float* out = y + std::size_t{blockIdx.x} * cols;
  float largest = -INFINITY;
  for (int c = threadIdx.x; c < cols; c += blockDim.x) largest = fmaxf(largest, row[c]);
  largest = block_reduce(largest, Maximum{});
  float total = 0.f;
  for (int c = threadIdx.x; c < cols; c += blockDim.x) total += expf(row[c] - largest);
  total = block_reduce(total, Sum{});
  for (int c = threadIdx.x; c < cols; c += blockDim.x) out[c] = expf(row[c] - largest) / total;
}

extern "C" __global__ void log_softmax_backward_kernel(const float* y, const float* dy, float* dx,
                                                       int cols) {
  const std::size_t first = std::size_t{blockIdx.x} * cols;
  float total = 0.f;
  for (int c = threadIdx.x; c < cols; c += blockDim.x) total += dy[first + c];
  total = block_reduce(total, Sum{});
  for (int c = threadIdx.x; c < cols; c += blockDim.x) {
    dx[first + c] = dy[first + c] - expf(y[first + c]) * total;
  }
}

// One warp per row, several rows per block: the first of equal values wins.
extern "C" __global__ void arg_max_kernel(const float* x, int* index, int rows, int cols) {
  const int row = blockIdx.x * blockDim.y + threadIdx.y;
  if (row >= rows) return;  // whole warps: blockDim.x == 32
  float best = -INFINITY;
  int where = cols;
  for (int c = threadIdx.x; c < cols; c += kWarp) {
    const float value = x[std::size_t(row) * cols + c];
    if (value > best || where == cols) {
      best = value;
      where = c;
    }
  }
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    const float other = __shfl_down_sync(kFullWarp, best, offset);
    const int place = __shfl_down_sync(kFullWarp, where, offset);
    if (place < cols && (other > best || (other == best && place < where) || where == cols)) {
      best = other;
      where = place;
    }
  }
  if (threadIdx.x == 0) index[row] = where;
}

extern "C" __global__ void row_statistics_kernel(const float* x, float* mean, float* variance,
                                                 int cols) {
  __shared__ Welford part[kBlock];
  const float* row = x + std::size_t{blockIdx.x} * cols;
  Welford mine = {0.f, 0.f, 0.f};
  for (int c = threadIdx.x; c < cols; c += blockDim.x) {
    mine.count += 1.f;
    const float delta = row[c] - mine.mean;
    mine.mean += delta / mine.count;
    mine.m2 += delta * (row[c] - mine.mean);
  }
  part[threadIdx.x] = mine;
  __syncthreads();
  for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) {
      part[threadIdx.x] = merge(part[threadIdx.x], part[threadIdx.x + half]);
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    mean[blockIdx.x] = part[0].mean;
    variance[blockIdx.x] = part[0].m2 / part[0].count;
  }
}

cudaError_t row_sum(const float* x, float* y, int rows, int cols, cudaStream_t stream) {
  row_sum_kernel<<<rows, kBlock, 0, stream>>>(x, y, cols);
  return cudaGetLastError();
}

cudaError_t sum(const float* x, float* partial, float* result, std::size_t n, cudaStream_t stream) {
  const std::size_t shared = kBlock * sizeof(float);
  partial_sum_kernel<<<kSumBlocks, kBlock, shared, stream>>>(x, partial, n);
  if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) return error;
  partial_sum_kernel<<<1, kBlock, shared, stream>>>(partial, result, kSumBlocks);
  return cudaGetLastError();
}

cudaError_t softmax(const float* x, float* y, int rows, int cols, cudaStream_t stream) {
  softmax_kernel<<<rows, kBlock, 0, stream>>>(x, y, cols);
  return cudaGetLastError();
}

cudaError_t log_softmax_backward(const float* y, const float* dy, float* dx, int rows, int cols,
                                 cudaStream_t stream) {
  log_softmax_backward_kernel<<<rows, kBlock, 0, stream>>>(y, dy, dx, cols);
  return cudaGetLastError();
}

cudaError_t arg_max(const float* x, int* index, int rows, int cols, cudaStream_t stream) {
  constexpr int kRows = 4;
  arg_max_kernel<<<(rows + kRows - 1) / kRows, dim3(kWarp, kRows), 0, stream>>>(x, index, rows,
                                                                                cols);
  return cudaGetLastError();
}

cudaError_t row_statistics(const float* x, float* mean, float* variance, int rows, int cols,
                           cudaStream_t stream) {
  row_statistics_kernel<<<rows, kBlock, 0, stream>>>(x, mean, variance, cols);
  return cudaGetLastError();
}

}  // namespace cudasim::kernels
