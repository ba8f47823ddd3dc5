// Dropout: the kernel of dropout.cu, in pieces that 32 bits can count.
#include <algorithm>

#include <tandem/core/cuda/backend.h>
#include <tandem/core/cuda/kernels/dropout.h>
#include <tandem/core/cuda/layout.h>
#include <tandem/core/memory.h>

namespace tandem {

void CudaBackend::dropout(const DropoutKey& key, const Array& x, Array& y) {
  gpu::refuse_float64("dropout", x);
  if (y.numel() == 0) return;
  if (format_of(x) == MemoryFormat::channels_last) {  // positions count in row-major order
    const CategoryScope scope(Category::workspace);
    Array rows = Array::empty(x.shape(), x.dtype(), x.device());
    Array dropped = Array::empty(x.shape(), x.dtype(), x.device());
    copy(x, rows);
    dropout(key, rows, dropped);
    copy(dropped, y);
    return;
  }
  constexpr std::int64_t kMostColumns = 1 << 30;
  const std::int64_t rows = x.dim() > 0 ? x.size(0) : 1;
  const std::int64_t n = x.numel() / rows;
  const std::int64_t rows_at_once = std::max<std::int64_t>(1, kMostColumns / n);
  for (std::int64_t row = 0; row < rows; row += rows_at_once) {
    const std::int64_t offset = row * n * std::int64_t(size_of(x.dtype()));
    for (std::int64_t column = 0; column < n; column += kMostColumns) {
      const gpu::DropoutRows part{
          .row_size = n,
          .first_row = key.first_row + row,
          .first_column = column,
          .rows = std::uint32_t(std::min(rows_at_once, rows - row)),
          .columns = std::uint32_t(std::min(kMostColumns, n - column)),
      };
      launch("dropout", [&](cudaStream_t on) {
        gpu::launch_dropout(key, x.dtype(), part, x.data() + offset, y.fresh_data() + offset, on);
      });
    }
  }
}

}  // namespace tandem
