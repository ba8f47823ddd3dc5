// Dropout: the kernels of dropout.cu, in pieces that 32 bits can count.
#include <algorithm>

#include <tandem/core/cuda/backend.h>
#include <tandem/core/cuda/dropout_pieces.h>
#include <tandem/core/cuda/layout.h>

namespace tandem {

void CudaBackend::dropout(const DropoutKey& key, const Array& x, Array& y) {
  gpu::refuse_float64("dropout", x);
  if (y.numel() == 0) return;
  constexpr std::int64_t kMostColumns = 1 << 30;
  const std::int64_t rows = x.dim() > 0 ? x.size(0) : 1;
  const std::int64_t n = x.numel() / rows;
  const std::int64_t row_bytes = n * std::int64_t(size_of(x.dtype()));
  if (format_of(x) == MemoryFormat::channels_last) {
    const auto images = [&](std::int64_t image, const gpu::DropoutImages& part) {
      const std::int64_t offset = image * row_bytes;
      launch("dropout", [&](cudaStream_t on) {
        gpu::launch_dropout_images(key, x.dtype(), part, x.data() + offset, y.fresh_data() + offset,
                                   on);
      });
    };
    return gpu::for_each_images(key.first_row, rows, x.size(1), x.size(2) * x.size(3), images);
  }

  const std::int64_t rows_at_once = std::max<std::int64_t>(1, kMostColumns / n);
  for (std::int64_t row = 0; row < rows; row += rows_at_once) {
    const std::int64_t offset = row * row_bytes;
    for (std::int64_t column = 0; column < n; column += kMostColumns) {
      const gpu::DropoutRows part{
          .row_size = n,
          .first_row = key.first_row + row,
          .first_column = column,
          .rows = gpu::narrow<std::uint32_t>("dropout", std::min(rows_at_once, rows - row)),
          .columns = gpu::narrow<std::uint32_t>("dropout", std::min(kMostColumns, n - column)),
      };
      launch("dropout", [&](cudaStream_t on) {
        gpu::launch_dropout(key, x.dtype(), part, x.data() + offset, y.fresh_data() + offset, on);
      });
    }
  }
}

}  // namespace tandem
