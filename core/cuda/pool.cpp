// Pooling: images in either layout on either side, read and written by strides.
#include <tandem/core/cuda/backend.h>
#include <tandem/core/cuda/kernels/pool.h>
#include <tandem/core/cuda/layout.h>

namespace tandem {
namespace {

constexpr std::int64_t kMostSize = 1 << 28;  // of windows and images: positions are 32-bit

gpu::Images images(const Array& a) {
  const auto size = [&](int d) {
    return gpu::Divisor(gpu::narrow<std::uint32_t>("pool", a.size(d), gpu::kMostElements));
  };
  const Shape& s = a.strides();
  return {size(1), size(2), size(3), s[0], s[1], s[2], s[3]};
}

gpu::PoolWindow window_of(const char* op, const Window2d& w) {
  const auto narrow = [op](std::int64_t v) { return gpu::narrow<std::int32_t>(op, v, kMostSize); };
  return {narrow(w.kernel.h),  narrow(w.kernel.w),  narrow(w.stride.h),   narrow(w.stride.w),
          narrow(w.padding.h), narrow(w.padding.w), narrow(w.dilation.h), narrow(w.dilation.w)};
}

gpu::AverageWindow window_of(const char* op, const AverageRule& rule) {
  return {window_of(op, rule.window), rule.adaptive, rule.count_padding, rule.divisor};
}

// Calls f(places, first image) for launches over some of the images each; `written` is big or
// small.
template <class F>
void for_each_batch(const char* op, const Array& big, const Array& small, const Array& written,
                    F&& f) {
  const std::int64_t n = written.size(0);
  const auto elements = gpu::narrow<std::uint32_t>(op, written.numel() / n, gpu::kMostElements);
  for (int d : {2, 3}) gpu::narrow<std::int32_t>(op, big.size(d), kMostSize);
  const std::int64_t most = gpu::kMostElements / elements;
  for (std::int64_t i = 0; i < n; i += most) {
    f(gpu::PoolPlaces{images(big), images(small),
                      gpu::narrow<std::uint32_t>(op, std::min(most, n - i)),
                      written.strides()[1] < written.strides()[3]},
      i);
  }
}

// The first element of image i, on the side that is read or written.
const std::byte* image(const Array& a, std::int64_t i) {
  return a.data() + i * a.strides()[0] * std::int64_t(size_of(a.dtype()));
}
std::byte* image(Array& a, std::int64_t i) {
  return a.fresh_data() + i * a.strides()[0] * std::int64_t(size_of(a.dtype()));
}

}  // namespace

void CudaBackend::max_pool2d(const Window2d& window, const Array& x, Array& y, Array& index) {
  if (y.numel() == 0) return;
  gpu::refuse_float64("max_pool2d", x);
  const gpu::PoolWindow win = window_of("max_pool2d", window);
  launch("max_pool2d", [&](cudaStream_t s) {
    for_each_batch("max_pool2d", x, y, y, [&](const gpu::PoolPlaces& places, std::int64_t i) {
      auto* at = index.defined() ? reinterpret_cast<std::int32_t*>(image(index, i)) : nullptr;
      gpu::launch_max_pool(x.dtype(), places, win, image(x, i), image(y, i), at, s);
    });
  });
}

void CudaBackend::max_pool2d_grad(const Window2d& window, const Array& index, const Array& dy,
                                  Array& dx) {
  if (dx.numel() == 0) return;
  gpu::refuse_float64("max_pool2d", dx);
  const gpu::PoolWindow win = window_of("max_pool2d", window);
  launch("max_pool2d_grad", [&](cudaStream_t s) {
    for_each_batch("max_pool2d", dx, dy, dx, [&](const gpu::PoolPlaces& places, std::int64_t i) {
      const auto* at = reinterpret_cast<const std::int32_t*>(image(index, i));
      gpu::launch_max_pool_grad(dx.dtype(), places, win, images(index), at, image(dy, i),
                                image(dx, i), s);
    });
  });
}

void CudaBackend::avg_pool2d(const AverageRule& rule, const Array& x, Array& y) {
  if (y.numel() == 0) return;
  gpu::refuse_float64("avg_pool2d", x);
  const gpu::AverageWindow win = window_of("avg_pool2d", rule);
  launch("avg_pool2d", [&](cudaStream_t s) {
    for_each_batch("avg_pool2d", x, y, y, [&](const gpu::PoolPlaces& places, std::int64_t i) {
      gpu::launch_avg_pool(x.dtype(), places, win, image(x, i), image(y, i), s);
    });
  });
}

void CudaBackend::avg_pool2d_grad(const AverageRule& rule, const Array& dy, Array& dx) {
  if (dx.numel() == 0) return;
  gpu::refuse_float64("avg_pool2d", dx);
  const gpu::AverageWindow win = window_of("avg_pool2d", rule);
  launch("avg_pool2d_grad", [&](cudaStream_t s) {
    for_each_batch("avg_pool2d", dx, dy, dx, [&](const gpu::PoolPlaces& places, std::int64_t i) {
      gpu::launch_avg_pool_grad(dx.dtype(), places, win, image(dy, i), image(dx, i), s);
    });
  });
}

}  // namespace tandem
