// Gather, and its transpose without atomics: every element of dx is owned by one thread, which
// walks the list of indices in order.
#include <tandem/core/cuda/kernels/gather.h>
#include <tandem/core/cuda/kernels/bits.cuh>
#include <tandem/core/cuda/kernels/block_reduce.cuh>
#include <tandem/core/cuda/kernels/grid.cuh>
#include <tandem/core/cuda/kernels/types.cuh>

namespace tandem::gpu {
namespace {

template <class T>
__global__ void gather_elements(const __grid_constant__ Strided<3> places, std::int64_t step,
                                const T* x, const std::int64_t* index, T* y) {
  for (std::uint32_t e : GridStride(places.numel)) {
    const Offsets<3> o = offsets(places, e);
    y[o.at[0]] = x[o.at[2] + index[o.at[1]] * step];
  }
}

template <class T>
__global__ void scatter_elements(const __grid_constant__ ScatterPlaces p, Divisor inner,
                                 bool lines_inside, const std::int64_t* index, const T* dy, T* dx) {
  for (std::uint32_t e : GridStride(p.lines.numel * p.size)) {
    const std::uint32_t q = inner.divide(e), r = e - q * inner.value;
    const std::uint32_t line = lines_inside ? r : q, k = lines_inside ? q : r;
    const Offsets<3> o = offsets(p.lines, line);
    const std::int64_t wanted = p.first + k;
    const T* from = dy + o.at[1];
    float sum = 0;
    for (std::uint32_t i = 0; i < p.count; ++i) {
      if (index[o.at[2] + i * p.index_step] == wanted) sum += float(from[i * p.dy_step]);
    }
    dx[o.at[0] + k * p.dx_step] = convert<T>(sum);
  }
}

constexpr unsigned kRowPieces = 4;  // lines of one lane

// Blocks (x: 8 rows, y: 128 lines, more of them in turns).
template <class T>
__global__ void scatter_rows(const __grid_constant__ ScatterPlaces p, const std::int64_t* index,
                             const T* dy, T* dx) {
  const unsigned lane = threadIdx.x % kWarp;
  const std::uint32_t k = blockIdx.x * (kThreads / kWarp) + threadIdx.x / kWarp;
  if (k >= p.size) return;  // whole warps
  constexpr std::uint32_t kTile = kWarp * kRowPieces;
  for (std::uint32_t tile = blockIdx.y * kTile; tile < p.lines.numel; tile += gridDim.y * kTile) {
    float sum[kRowPieces];
    Offsets<3> at[kRowPieces];
    bool inside[kRowPieces];
#pragma unroll
    for (unsigned j = 0; j < kRowPieces; ++j) {
      const std::uint32_t line = tile + j * kWarp + lane;
      inside[j] = line < p.lines.numel;
      at[j] = offsets(p.lines, inside[j] ? line : 0);
      sum[j] = 0;
    }
    for (std::uint32_t i = 0; i < p.count; i += kWarp) {
      const bool hit = i + lane < p.count && index[(i + lane) * p.index_step] == p.first + k;
      for (unsigned hits = __ballot_sync(kAllLanes, hit); hits != 0; hits &= hits - 1) {
        const unsigned first = unsigned(__clz(int(__brev(hits))));
        const T* from = dy + (i + first) * p.dy_step;
#pragma unroll
        for (unsigned j = 0; j < kRowPieces; ++j) {
          if (inside[j]) sum[j] += float(from[at[j].at[1]]);
        }
      }
    }
#pragma unroll
    for (unsigned j = 0; j < kRowPieces; ++j) {
      if (inside[j]) dx[at[j].at[0] + k * p.dx_step] = convert<T>(sum[j]);
    }
  }
}

}  // namespace

void launch_gather(std::size_t size, const Strided<3>& places, std::int64_t step, const void* x,
                   const std::int64_t* index, void* y, cudaStream_t stream) {
  with_bits(int(size), [&]<class U>(U) {
    gather_elements<<<blocks_for(places.numel), kThreads, 0, stream>>>(
        places, step, static_cast<const U*>(x), index, static_cast<U*>(y));
  });
}

void launch_scatter_add(DType dtype, const ScatterPlaces& p, const std::int64_t* index,
                        const void* dy, void* dx, cudaStream_t stream) {
  // Neighbouring threads write neighbours: elements of a line, or the same one of several lines.
  const bool lines_inside = p.dx_step != 1;
  const Divisor inner(lines_inside ? p.lines.numel : p.size);
  const std::uint64_t n = std::uint64_t(p.lines.numel) * p.size;
  with_float(dtype, [&]<class T>(T) {
    scatter_elements<<<blocks_for(n), kThreads, 0, stream>>>(
        p, inner, lines_inside, index, static_cast<const T*>(dy), static_cast<T*>(dx));
  });
}

void launch_scatter_add_rows(DType dtype, const ScatterPlaces& p, const std::int64_t* index,
                             const void* dy, void* dx, cudaStream_t stream) {
  constexpr unsigned kRows = kThreads / kWarp, kLines = kWarp * kRowPieces;
  const unsigned tiles = (p.lines.numel - 1) / kLines + 1;
  const dim3 grid((p.size - 1) / kRows + 1, tiles < 65535 ? tiles : 65535);
  with_float(dtype, [&]<class T>(T) {
    scatter_rows<<<grid, kThreads, 0, stream>>>(p, index, static_cast<const T*>(dy),
                                                static_cast<T*>(dx));
  });
}

}  // namespace tandem::gpu
