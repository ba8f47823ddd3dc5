// Gradients times a factor, measured in the same pass: the kernels of rescale.cu.
#include <algorithm>

#include <tandem/core/cuda/backend.h>
#include <tandem/core/cuda/kernels/rescale.h>
#include <tandem/core/cuda/layout.h>

namespace tandem {
namespace {

gpu::RescaleTable table_of(std::span<Array> xs) {
  gpu::RescaleTable table;
  for (Array& x : xs) {
    gpu::refuse_float64("rescale", x);
    const std::int64_t size = x.numel();
    constexpr auto kChunk = std::int64_t(gpu::kRescaleChunk);
    const auto chunks = gpu::narrow<std::uint32_t>("rescale", (size + kChunk - 1) / kChunk);
    table.tensor[table.tensors++] = {x.fresh_data(), size, table.chunks, chunks};
    table.chunks += chunks;
    table.packed &= size == 0 || gpu::is_aligned(x.data());
  }
  return table;
}

}  // namespace

void CudaBackend::rescale(double factor, std::span<Array> xs, Array& found) {
  float* row = found.fresh_data<float>();
  for (std::size_t first = 0; first < xs.size(); first += gpu::kRescaleTensors) {
    const std::size_t count = std::min<std::size_t>(gpu::kRescaleTensors, xs.size() - first);
    const gpu::RescaleTable table = table_of(xs.subspan(first, count));
    Array partial =
        gpu::workspace(std::int64_t(table.chunks) * std::int64_t(sizeof(float[2])), device());
    float* sums = reinterpret_cast<float*>(partial.fresh_data());
    if (table.chunks > 0) {
      launch("rescale", [&](cudaStream_t on) {
        gpu::launch_rescale(xs[first].dtype(), float(factor), table, sums, on);
      });
    }
    launch("rescale", [&](cudaStream_t on) { gpu::launch_rescale_found(table, sums, row, on); });
    row += 2 * count;
  }
}

}  // namespace tandem
