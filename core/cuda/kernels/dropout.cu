// Dropout: four masks from each Philox call, for four neighbours of a row.
#include <tandem/core/convert.h>
#include <tandem/core/cuda/kernels/dropout.h>
#include <tandem/core/cuda/kernels/grid.cuh>

namespace tandem::gpu {
namespace {

template <class T>
__device__ inline T scaled(T x, float scale) {
  return convert<T>(convert<float>(x) * scale);
}

// A thread's share is four neighbours: one pack, if the rows are made of packs.
template <class T>
__global__ void __launch_bounds__(kThreads)
    dropout_kernel(const DropoutKey key, const DropoutRows r, const Divisor groups, bool packed,
                   const T* x, T* y) {
  for (std::uint32_t g : GridStride(r.rows * groups.value)) {
    const std::uint32_t row = groups.divide(g);
    const std::uint32_t column = (g - row * groups.value) * 4;
    float scale[4];
    dropout_scales(key, r.first_row + row, r.first_column + column, scale);
    const std::int64_t at = row * r.row_size + r.first_column + column;
    if (packed) {
      Pack<T, 4> pack = *reinterpret_cast<const Pack<T, 4>*>(x + at);
#pragma unroll
      for (int k = 0; k < 4; ++k) pack.v[k] = scaled(pack.v[k], scale[k]);
      *reinterpret_cast<Pack<T, 4>*>(y + at) = pack;
    } else {
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        if (column + k < r.columns) y[at + k] = scaled(x[at + k], scale[k]);
      }
    }
  }
}

template <class T>
void launch(const DropoutKey& key, const DropoutRows& r, const void* x, void* y,
            cudaStream_t stream) {
  const Divisor groups((r.columns - 1) / 4 + 1);
  const auto aligned = [](const void* p) {
    return reinterpret_cast<std::uintptr_t>(p) % sizeof(Pack<T, 4>) == 0;
  };
  const bool packed = r.row_size % 4 == 0 && aligned(x) && aligned(y);
  dropout_kernel<<<blocks_for(r.rows * groups.value), kThreads, 0, stream>>>(
      key, r, groups, packed, static_cast<const T*>(x), static_cast<T*>(y));
}

}  // namespace

void launch_dropout(const DropoutKey& key, DType dtype, const DropoutRows& rows, const void* x,
                    void* y, cudaStream_t stream) {
  switch (dtype) {
    case DType::float16:
      return launch<Half>(key, rows, x, y, stream);
    case DType::bfloat16:
      return launch<BFloat16>(key, rows, x, y, stream);
    default:
      return launch<float>(key, rows, x, y, stream);
  }
}

}  // namespace tandem::gpu
