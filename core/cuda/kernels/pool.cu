// Pooling: a thread for each element that is written. Gradients are gathered by the elements of the
// image from the windows that saw them, in the order of the windows: no atomics. Sums are taken in
// the order of cpu/pool.cpp.
#include <tandem/core/cuda/kernels/pool.h>
#include <tandem/core/cuda/kernels/grid.cuh>
#include <tandem/core/cuda/kernels/types.cuh>

namespace tandem::gpu {
namespace {

struct Position {
  std::int32_t image, channel, h, w;

  __device__ std::int64_t in(const Images& s) const { return in(s, h, w); }
  // The same channel elsewhere.
  __device__ std::int64_t in(const Images& s, std::int32_t y, std::int32_t x) const {
    return image * s.image + channel * s.channel + y * s.row + x * s.column;
  }
};

// i = q * d + the result; i becomes q.
__device__ inline std::int32_t take(const Divisor& d, std::uint32_t& i) {
  const std::uint32_t q = d.divide(i), rest = i - q * d.value;
  i = q;
  return std::int32_t(rest);
}

// Element i of images, counted as they lie in memory.
__device__ inline Position position(const Images& s, bool channels_inside, std::uint32_t i) {
  Position at;
  if (channels_inside) at.channel = take(s.channels, i);
  at.w = take(s.w, i);
  at.h = take(s.h, i);
  if (!channels_inside) at.channel = take(s.channels, i);
  at.image = std::int32_t(i);
  return at;
}

__device__ inline std::uint32_t count(const Images& s, std::uint32_t images) {
  return images * s.channels.value * s.h.value * s.w.value;
}

__device__ inline std::int32_t size(const Divisor& d) {
  return std::int32_t(d.value);
}

// ---- the largest

template <class T>
__global__ void max_pool(const __grid_constant__ PoolPlaces s,
                         const __grid_constant__ PoolWindow win, const T* x, T* y,
                         std::int32_t* index) {
  for (std::uint32_t e : GridStride(count(s.small, s.images))) {
    const Position at = position(s.small, s.channels_inside, e);
    const std::int32_t top = at.h * win.stride_h - win.padding_h;
    const std::int32_t left = at.w * win.stride_w - win.padding_w;
    float best = -HUGE_VALF;
    std::int32_t place = -1;
    for (std::int32_t i = 0; i < win.kernel_h; ++i) {
      const std::int32_t h = top + i * win.dilation_h;
      if (h < 0 || h >= size(s.big.h)) continue;
      for (std::int32_t j = 0; j < win.kernel_w; ++j) {
        const std::int32_t w = left + j * win.dilation_w;
        if (w < 0 || w >= size(s.big.w)) continue;
        const auto v = float(x[at.in(s.big, h, w)]);
        if (v > best || v != v || place < 0) {
          best = v;
          place = h * size(s.big.w) + w;
        }
      }
    }
    const std::int64_t to = at.in(s.small);
    y[to] = convert<T>(best);
    if (index != nullptr) index[to] = place;
  }
}

// The windows [low, high) that may see an element: low stride - padding + reach >= at.
struct WindowRange {
  std::int32_t low, high;
};

__device__ inline WindowRange windows_over(std::int32_t at, std::int32_t reach, std::int32_t stride,
                                           std::int32_t padding, std::int32_t windows) {
  const std::int32_t end = at + padding, begin = end - reach;
  return {begin <= 0 ? 0 : (begin + stride - 1) / stride, min(end / stride + 1, windows)};
}

template <class T>
__global__ void max_pool_grad(const __grid_constant__ PoolPlaces s,
                              const __grid_constant__ PoolWindow win,
                              const __grid_constant__ Images places, const std::int32_t* index,
                              const T* dy, T* dx) {
  const std::int32_t reach_h = (win.kernel_h - 1) * win.dilation_h;
  const std::int32_t reach_w = (win.kernel_w - 1) * win.dilation_w;
  for (std::uint32_t e : GridStride(count(s.big, s.images))) {
    const Position at = position(s.big, s.channels_inside, e);
    const WindowRange p = windows_over(at.h, reach_h, win.stride_h, win.padding_h, size(s.small.h));
    const WindowRange q = windows_over(at.w, reach_w, win.stride_w, win.padding_w, size(s.small.w));
    const std::int32_t mine = at.h * size(s.big.w) + at.w;
    float sum = 0;
    for (std::int32_t i = p.low; i < p.high; ++i) {
      for (std::int32_t j = q.low; j < q.high; ++j) {
        if (index[at.in(places, i, j)] == mine) sum += float(dy[at.in(s.small, i, j)]);
      }
    }
    dx[at.in(s.big)] = convert<T>(sum);
  }
}

// ---- the average

// One dimension of a rule: sizes of both sides, and the window.
struct Averaged {
  std::int32_t size, outputs, kernel, stride, padding;
  bool adaptive, count_padding;

  __device__ AverageRange range(std::int32_t o) const {
    return adaptive ? adaptive_range(o, size, outputs)
                    : average_range(o, size, kernel, stride, padding, count_padding);
  }
  __device__ WindowRange windows(std::int32_t at) const {
    if (!adaptive) return windows_over(at, kernel - 1, stride, padding, outputs);
    // floor(at outputs / size) <= o < ceil((at + 1) outputs / size)
    const std::int64_t n = outputs;
    return {std::int32_t(at * n / size), std::int32_t(((at + 1) * n + size - 1) / size)};
  }
};

__device__ inline Averaged rows_of(const PoolPlaces& s, const AverageWindow& a) {
  return {size(s.big.h),      size(s.small.h), a.window.kernel_h, a.window.stride_h,
          a.window.padding_h, a.adaptive,      a.count_padding};
}
__device__ inline Averaged columns_of(const PoolPlaces& s, const AverageWindow& a) {
  return {size(s.big.w),      size(s.small.w), a.window.kernel_w, a.window.stride_w,
          a.window.padding_w, a.adaptive,      a.count_padding};
}

__device__ inline float divisor(const AverageWindow& a, const AverageRange& row,
                                const AverageRange& column) {
  return float(a.divisor != 0 ? a.divisor : row.divisor * column.divisor);
}

template <class T>
__global__ void avg_pool(const __grid_constant__ PoolPlaces s,
                         const __grid_constant__ AverageWindow a, const T* x, T* y) {
  const Averaged rows = rows_of(s, a), columns = columns_of(s, a);
  for (std::uint32_t e : GridStride(count(s.small, s.images))) {
    const Position at = position(s.small, s.channels_inside, e);
    const AverageRange row = rows.range(at.h), column = columns.range(at.w);
    float sum = 0;
    for (auto w = std::int32_t(column.start); w < std::int32_t(column.stop); ++w) {
      float line = 0;
      for (auto h = std::int32_t(row.start); h < std::int32_t(row.stop); ++h) {
        line += float(x[at.in(s.big, h, w)]);
      }
      sum += line;
    }
    y[at.in(s.small)] = convert<T>(sum / divisor(a, row, column));
  }
}

// At least four blocks to a multiprocessor: the divisions of adaptive windows want many registers.
template <class T>
__global__ void __launch_bounds__(kThreads, 4)
    avg_pool_grad(const __grid_constant__ PoolPlaces s, const __grid_constant__ AverageWindow a,
                  const T* dy, T* dx) {
  const Averaged rows = rows_of(s, a), columns = columns_of(s, a);
  for (std::uint32_t e : GridStride(count(s.big, s.images))) {
    const Position at = position(s.big, s.channels_inside, e);
    const WindowRange p = rows.windows(at.h), q = columns.windows(at.w);
    float sum = 0;
    for (std::int32_t i = p.low; i < p.high; ++i) {
      const AverageRange row = rows.range(i);
      float line = 0;
      for (std::int32_t j = q.low; j < q.high; ++j) {
        line += float(dy[at.in(s.small, i, j)]) / divisor(a, row, columns.range(j));
      }
      sum += line;
    }
    dx[at.in(s.big)] = convert<T>(sum);
  }
}

std::uint64_t elements(const Images& s, std::uint32_t images) {
  return std::uint64_t(images) * s.channels.value * s.h.value * s.w.value;
}

}  // namespace

void launch_max_pool(DType dtype, const PoolPlaces& s, const PoolWindow& window, const void* x,
                     void* y, std::int32_t* index, cudaStream_t stream) {
  with_float(dtype, [&]<class T>(T) {
    max_pool<<<blocks_for(elements(s.small, s.images)), kThreads, 0, stream>>>(
        s, window, static_cast<const T*>(x), static_cast<T*>(y), index);
  });
}

void launch_max_pool_grad(DType dtype, const PoolPlaces& s, const PoolWindow& window,
                          const Images& index_places, const std::int32_t* index, const void* dy,
                          void* dx, cudaStream_t stream) {
  with_float(dtype, [&]<class T>(T) {
    max_pool_grad<<<blocks_for(elements(s.big, s.images)), kThreads, 0, stream>>>(
        s, window, index_places, index, static_cast<const T*>(dy), static_cast<T*>(dx));
  });
}

void launch_avg_pool(DType dtype, const PoolPlaces& s, const AverageWindow& window, const void* x,
                     void* y, cudaStream_t stream) {
  with_float(dtype, [&]<class T>(T) {
    avg_pool<<<blocks_for(elements(s.small, s.images)), kThreads, 0, stream>>>(
        s, window, static_cast<const T*>(x), static_cast<T*>(y));
  });
}

void launch_avg_pool_grad(DType dtype, const PoolPlaces& s, const AverageWindow& window,
                          const void* dy, void* dx, cudaStream_t stream) {
  with_float(dtype, [&]<class T>(T) {
    avg_pool_grad<<<blocks_for(elements(s.big, s.images)), kThreads, 0, stream>>>(
        s, window, static_cast<const T*>(dy), static_cast<T*>(dx));
  });
}

}  // namespace tandem::gpu
