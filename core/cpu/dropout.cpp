// Dropout: four masks from each Philox call, for four neighbours of a row.
#include <tandem/core/cpu/backend.h>
#include <tandem/core/cpu/traverse.h>

namespace tandem {

void CpuBackend::dropout(const DropoutKey& key, const Array& x, Array& y) {
  if (y.numel() == 0) return;
  const std::int64_t rows = x.dim() > 0 ? x.size(0) : 1;
  const std::int64_t n = x.numel() / rows;
  host::with_type(x.dtype(), [&]<class T>(host::Type<T>) {
    using C = std::conditional_t<host::is_half<T>, float, T>;
    const T* in = x.data<T>();
    T* out = y.fresh_data<T>();
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t i = 0; i < n; i += 4) {
        float scale[4];
        dropout_scales(key, key.first_row + row, i, scale);
        for (std::int64_t j = i; j < std::min(i + 4, n); ++j) {
          out[row * n + j] = host::convert<T>(C(C(in[row * n + j]) * C(scale[j - i])));
        }
      }
    }
  });
}

}  // namespace tandem
