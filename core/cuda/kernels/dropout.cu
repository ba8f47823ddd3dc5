// Dropout: four masks from each Philox call, for four neighbours of a row.
#include <tandem/core/cuda/kernels/dropout.h>
#include <tandem/core/cuda/kernels/grid.cuh>
#include <tandem/core/cuda/kernels/types.cuh>

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

// Threads take four pixels each, neighbours in a warp take neighbouring channels: so memory is read
// in runs. The four may belong to two Philox calls.
template <class T>
__global__ void __launch_bounds__(kThreads)
    dropout_image_kernel(const DropoutKey key, const DropoutImages r, const Divisor channels,
                         const Divisor shares, const T* x, T* y) {
  for (std::uint32_t t : GridStride(r.images * shares.value)) {
    const std::uint32_t image = shares.divide(t);
    const std::uint32_t rest = t - image * shares.value;
    const std::uint32_t group = channels.divide(rest);
    const std::uint32_t channel = rest - group * channels.value, pixel = group * 4;
    const std::int64_t position = std::int64_t(channel) * r.pixels + pixel;
    const std::int64_t call = position / 4 * 4;
    const int skipped = int(position - call);
    float scale[8]{};
    dropout_scales(key, r.first_row + image, call, scale);
    if (skipped != 0) dropout_scales(key, r.first_row + image, call + 4, scale + 4);
    const std::int64_t at = (std::int64_t(image) * r.pixels + pixel) * channels.value + channel;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const float s = skipped == 0   ? scale[k]
                      : skipped == 1 ? scale[k + 1]
                      : skipped == 2 ? scale[k + 2]
                                     : scale[k + 3];
      const std::int64_t i = at + std::int64_t(k) * channels.value;
      if (pixel + k < r.pixels) y[i] = scaled(x[i], s);
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

template <class T>
void launch(const DropoutKey& key, const DropoutImages& r, const void* x, void* y,
            cudaStream_t stream) {
  const Divisor shares(std::uint32_t(r.shares_of_one()));
  dropout_image_kernel<<<blocks_for(r.images * shares.value), kThreads, 0, stream>>>(
      key, r, Divisor(r.channels), shares, static_cast<const T*>(x), static_cast<T*>(y));
}

template <class Rows>
void launch(const DropoutKey& key, DType dtype, const Rows& rows, const void* x, void* y,
            cudaStream_t stream) {
  with_float(dtype, [&]<class T>(T) { launch<T>(key, rows, x, y, stream); });
}

}  // namespace

void launch_dropout(const DropoutKey& key, DType dtype, const DropoutRows& rows, const void* x,
                    void* y, cudaStream_t stream) {
  launch(key, dtype, rows, x, y, stream);
}

void launch_dropout_images(const DropoutKey& key, DType dtype, const DropoutImages& images,
                           const void* x, void* y, cudaStream_t stream) {
  launch(key, dtype, images, x, y, stream);
}

}  // namespace tandem::gpu
