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

}  // namespace

void CpuBackend::dropout(const DropoutKey& key, const Array& x, Array& y) {
  if (y.numel() == 0) return;
  const std::int64_t rows = x.dim() > 0 ? x.size(0) : 1;
  const std::int64_t n = x.numel() / rows;
  host::with_type(x.dtype(), [&]<class T>(host::Type<T>) {
    using C = std::conditional_t<host::is_half<T>, float, T>;
    const T* in = x.data<T>();
    T* out = y.fresh_data<T>();
    float scales[host::kBlock];
    for (std::int64_t row = 0; row < rows; ++row, in += n, out += n) {
      for (std::int64_t i = 0; i < n; i += host::kBlock) {
        const std::int64_t m = std::min(host::kBlock, n - i);
        row_scales(key, key.first_row + row, i, (m + 3) / 4, scales);
        for (std::int64_t j = 0; j < m; ++j) {
          out[i + j] = host::convert<T>(C(C(in[i + j]) * C(scales[j])));
        }
      }
    }
  });
}

}  // namespace tandem
