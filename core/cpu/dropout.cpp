// Dropout: four masks from each Philox call, for four neighbours of a row.
#include <tandem/core/cpu/backend.h>
#include <tandem/core/cpu/traverse.h>

namespace tandem {
namespace {

// The scales of `groups` times four elements from element `first` of a row on. The calls do not
// depend on each other, so the compiler makes several at a time.
void row_scales(const DropoutKey key, std::int64_t row, std::int64_t first, std::int64_t groups,
                float* scales) {
#pragma GCC ivdep
  for (std::int64_t g = 0; g < groups; ++g) {
    float four[4];
    dropout_scales(key, row, first + 4 * g, four);
    for (int k = 0; k < 4; ++k) scales[4 * g + k] = four[k];
  }
}

template <class T>
T scaled(T x, float scale) {
  using C = std::conditional_t<host::is_half<T>, float, T>;
  return host::convert<T>(C(C(x) * C(scale)));
}

// A row of n elements.
template <class T>
void drop_row(const DropoutKey& key, std::int64_t row, std::int64_t n, const T* x, T* y) {
  float scales[host::kBlock];
  for (std::int64_t i = 0; i < n; i += host::kBlock) {
    const std::int64_t m = std::min(host::kBlock, n - i);
    row_scales(key, row, i, (m + 3) / 4, scales);
    for (std::int64_t j = 0; j < m; ++j) y[i + j] = scaled(x[i + j], scales[j]);
  }
}

// The same for a row that lies as (pixels, channels) while its positions count as (channels,
// pixels): some channels of some pixels at a time, so that both stay in the cache.
template <class T>
void drop_image(const DropoutKey& key, std::int64_t row, std::int64_t channels, std::int64_t pixels,
                const T* x, T* y) {
  constexpr std::int64_t kChannels = 16, kPixels = 64;
  float scales[kChannels][kPixels + 8];
  std::array<std::int64_t, std::size_t(kChannels)> skipped{};
  for (std::int64_t c = 0; c < channels; c += kChannels) {
    const std::int64_t n = std::min(kChannels, channels - c);
    for (std::int64_t p = 0; p < pixels; p += kPixels) {
      const std::int64_t m = std::min(kPixels, pixels - p);
      for (std::int64_t k = 0; k < n; ++k) {
        const std::int64_t at = (c + k) * pixels + p, first = at / 4 * 4;
        skipped[std::size_t(k)] = at - first;
        row_scales(key, row, first, (at + m - first + 3) / 4, scales[k]);
      }
      for (std::int64_t j = 0; j < m; ++j) {
        const std::int64_t at = (p + j) * channels + c;
        for (std::int64_t k = 0; k < n; ++k) {
          y[at + k] = scaled(x[at + k], scales[k][j + skipped[std::size_t(k)]]);
        }
      }
    }
  }
}

}  // namespace

void CpuBackend::dropout(const DropoutKey& key, const Array& x, Array& y) {
  if (y.numel() == 0) return;
  const std::int64_t rows = x.dim() > 0 ? x.size(0) : 1;
  const std::int64_t n = x.numel() / rows;
  const bool images = format_of(x) == MemoryFormat::channels_last;
  host::with_type(x.dtype(), [&]<class T>(host::Type<T>) {
    T* results = y.fresh_data<T>();
    const auto some_rows = [&](std::int64_t i, std::int64_t end) {
      for (; i < end; ++i) {
        const T* in = x.data<T>() + i * n;
        T* out = results + i * n;
        const std::int64_t row = key.first_row + i;
        if (images) {
          drop_image(key, row, x.size(1), x.size(2) * x.size(3), in, out);
        } else {
          drop_row(key, row, n, in, out);
        }
      }
    };
    host::for_each_range(device(), rows, double(x.numel()), some_rows);
  });
}

}  // namespace tandem
