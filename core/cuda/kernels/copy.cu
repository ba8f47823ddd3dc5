// Copies and fills of any strides. Elements are bits here.
//
// Where x and y are contiguous along different dimensions (a transposition, a change between
// row-major and channels-last) squares go through shared memory, so that both sides are read and
// written in runs.
#include <tandem/core/cuda/kernels/copy.h>
#include <tandem/core/cuda/kernels/bits.cuh>
#include <tandem/core/cuda/kernels/grid.cuh>

namespace tandem::gpu {
namespace {

template <class U>
__global__ void __launch_bounds__(kThreads) copy_kernel(const U* x, U* y, const Strided<2> layout) {
  for (std::uint32_t i : GridStride(layout.numel)) {
    const Offsets<2> o = offsets(layout, i);
    y[o.at[0]] = x[o.at[1]];
  }
}

constexpr std::uint32_t kSide = 32;  // of a square
constexpr std::uint32_t kRowsAtOnce = kThreads / kSide;

// Squares as a launch counts them: along a plane's columns, its rows, and the planes.
struct Squares {
  Divisor across, in_plane;
  std::uint32_t count;
};

template <class U>
__global__ void __launch_bounds__(kThreads)
    transpose_kernel(const U* x, U* y, const Planes p, const Squares squares) {
  __shared__ U square[kSide][kSide + 1];  // [column][row]; the odd width keeps banks apart
  const std::uint32_t lane = threadIdx.x % kSide, first = threadIdx.x / kSide;
  for (std::uint32_t s = blockIdx.x; s < squares.count; s += gridDim.x) {
    const std::uint32_t plane = squares.in_plane.divide(s);
    const std::uint32_t rest = s - plane * squares.in_plane.value;
    const std::uint32_t down = squares.across.divide(rest);
    const std::uint32_t row = down * kSide;
    const std::uint32_t column = (rest - down * squares.across.value) * kSide;
    const Offsets<2> o = offsets(p.outer, plane);
    for (std::uint32_t j = first; j < kSide; j += kRowsAtOnce) {
      if (column + j < p.columns && row + lane < p.rows) {
        square[j][lane] = x[o.at[1] + (column + j) * p.x_column + row + lane];
      }
    }
    __syncthreads();
    for (std::uint32_t j = first; j < kSide; j += kRowsAtOnce) {
      if (row + j < p.rows && column + lane < p.columns) {
        y[o.at[0] + (row + j) * p.y_row + column + lane] = square[lane][j];
      }
    }
    __syncthreads();  // the next square overwrites this one
  }
}

template <class U>
__global__ void __launch_bounds__(kThreads) fill_kernel(U value, U* y, const Strided<1> layout) {
  for (std::uint32_t i : GridStride(layout.numel)) y[offsets(layout, i).at[0]] = value;
}

template <class U>
__global__ void __launch_bounds__(kThreads) fill_packed_kernel(U value, U* y, std::uint32_t n) {
  constexpr int V = kPerPack<U>;
  Pack<U, V> pack;
#pragma unroll
  for (int j = 0; j < V; ++j) pack.v[j] = value;
  for (std::uint32_t i : GridStride(n / V)) reinterpret_cast<Pack<U, V>*>(y)[i] = pack;
  const std::uint32_t i = n / V * V + blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = value;
}

}  // namespace

void launch_copy(int bytes, const Operands<2>& o, cudaStream_t stream) {
  with_bits(bytes, [&]<class U>(U) {
    copy_kernel<<<blocks_for(o.layout.numel), kThreads, 0, stream>>>(
        static_cast<const U*>(o.at[1]), static_cast<U*>(o.at[0]), o.layout);
  });
}

void launch_transpose(int bytes, const Planes& planes, const void* x, void* y,
                      cudaStream_t stream) {
  const std::uint32_t across = (planes.columns - 1) / kSide + 1;
  const std::uint32_t in_plane = ((planes.rows - 1) / kSide + 1) * across;
  const Squares squares{Divisor(across), Divisor(in_plane), in_plane * planes.outer.numel};
  with_bits(bytes, [&]<class U>(U) {
    transpose_kernel<<<blocks_for(squares.count, 1), kThreads, 0, stream>>>(
        static_cast<const U*>(x), static_cast<U*>(y), planes, squares);
  });
}

void launch_fill(int bytes, std::uint64_t bits, const Operands<1>& o, cudaStream_t stream) {
  with_bits(bytes, [&]<class U>(U) {
    U* y = static_cast<U*>(o.at[0]);
    const std::uint32_t n = o.layout.numel;
    if (o.packed) {
      fill_packed_kernel<<<blocks_for(n / kPerPack<U> + 1), kThreads, 0, stream>>>(U(bits), y, n);
    } else {
      fill_kernel<<<blocks_for(n), kThreads, 0, stream>>>(U(bits), y, o.layout);
    }
  });
}

}  // namespace tandem::gpu
