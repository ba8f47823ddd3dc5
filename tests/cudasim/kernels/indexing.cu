// Kernels that move values to other places: transposed, strided, gathered, scattered, counted.
#include "grid.cuh"
#include "kernels.h"

namespace cudasim::kernels {
namespace {

constexpr int kTile = 16;
constexpr int kBins = 256;

}  // namespace

// Reads rows, writes rows: the tile in shared memory turns. One extra column avoids bank conflicts.
extern "C" __global__ void transpose_kernel(const float* x, float* y, int rows, int cols) {
  __shared__ float tile[kTile][kTile + 1];
  const int col = blockIdx.x * kTile + threadIdx.x, row = blockIdx.y * kTile + threadIdx.y;
  if (row < rows && col < cols) tile[threadIdx.y][threadIdx.x] = x[std::size_t(row) * cols + col];
  __syncthreads();
  const int out_row = blockIdx.x * kTile + threadIdx.y, out_col = blockIdx.y * kTile + threadIdx.x;
  if (out_row < cols && out_col < rows) {
    y[std::size_t(out_row) * rows + out_col] = tile[threadIdx.x][threadIdx.y];
  }
}

extern "C" __global__ void strided_copy_kernel(const float* x, float* y, Strided s) {
  const std::size_t n = std::size_t(s.size[0]) * s.size[1] * s.size[2];
  for (std::size_t i : GridStride(n)) {
    const long long k = i % s.size[2], j = i / s.size[2] % s.size[1], l = i / s.size[2] / s.size[1];
    y[i] = x[l * s.stride[0] + j * s.stride[1] + k * s.stride[2]];
  }
}

// Counts in shared memory first, then adds every block's counts to the result.
extern "C" __global__ void histogram_kernel(const std::uint8_t* x, unsigned* bins, std::size_t n) {
  __shared__ unsigned count[kBins];
  for (int bin = threadIdx.x; bin < kBins; bin += blockDim.x) count[bin] = 0;
  __syncthreads();
  for (std::size_t i : GridStride(n)) atomicAdd(&count[x[i]], 1u);
  __syncthreads();
  for (int bin = threadIdx.x; bin < kBins; bin += blockDim.x) {
    if (count[bin] != 0) atomicAdd(&bins[bin], count[bin]);
  }
}

extern "C" __global__ void gather_rows_kernel(const float* table, const int* index, float* y,
                                              int cols) {
  const int from = index[blockIdx.x];
  for (int c = threadIdx.x; c < cols; c += blockDim.x) {
    y[std::size_t{blockIdx.x} * cols + c] = from < 0 ? 0.f : table[std::size_t(from) * cols + c];
  }
}

extern "C" __global__ void scatter_add_rows_kernel(const float* y, const int* index, float* table,
                                                   int count, int cols) {
  float* row = table + std::size_t{blockIdx.x} * cols;
  for (int c = threadIdx.x; c < cols; c += blockDim.x) {
    float value = row[c];
    for (int i = 0; i < count; ++i) {
      if (index[i] == int(blockIdx.x)) value += y[std::size_t(i) * cols + c];
    }
    row[c] = value;
  }
}

cudaError_t transpose(const float* x, float* y, int rows, int cols, cudaStream_t stream) {
  const dim3 grid((cols + kTile - 1) / kTile, (rows + kTile - 1) / kTile);
  transpose_kernel<<<grid, dim3(kTile, kTile), 0, stream>>>(x, y, rows, cols);
  return cudaGetLastError();
}

cudaError_t strided_copy(const float* x, float* y, Strided shape, cudaStream_t stream) {
  const std::size_t n = std::size_t(shape.size[0]) * shape.size[1] * shape.size[2];
  strided_copy_kernel<<<blocks_for(n), kBlock, 0, stream>>>(x, y, shape);
  return cudaGetLastError();
}

cudaError_t histogram(const std::uint8_t* x, unsigned* bins, std::size_t n, cudaStream_t stream) {
  histogram_kernel<<<blocks_for(n), kBlock, 0, stream>>>(x, bins, n);
  return cudaGetLastError();
}

cudaError_t gather_rows(const float* table, const int* index, float* y, int count, int cols,
                        cudaStream_t stream) {
  gather_rows_kernel<<<count, kBlock, 0, stream>>>(table, index, y, cols);
  return cudaGetLastError();
}

cudaError_t scatter_add_rows(const float* y, const int* index, float* table, int count, int rows,
                             int cols, cudaStream_t stream) {
  scatter_add_rows_kernel<<<rows, kBlock, 0, stream>>>(y, index, table, count, cols);
  return cudaGetLastError();
}

}  // namespace cudasim::kernels
