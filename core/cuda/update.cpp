// Optimizer steps: the parameters in tables for the kernel of update.cu.
#include <algorithm>

#include <tandem/core/cuda/backend.h>
#include <tandem/core/cuda/kernels/update.h>
#include <tandem/core/cuda/layout.h>

namespace tandem {
namespace {

gpu::UpdateTensor tensor_of(UpdateItem& item) {
  gpu::UpdateTensor t;
  t.size = item.param.numel();
  t.packed = true;
  std::array<Array*, gpu::kUpdateArrays> arrays{&item.param, &item.grad, &item.state[0],
                                                &item.state[1], &item.state[2]};
  for (std::size_t k = 0; k < arrays.size(); ++k) {
    if (!arrays[k]->defined()) continue;
    gpu::refuse_float64("update", *arrays[k]);
    t.data[k] = arrays[k]->fresh_data();
    t.dtype[k] = arrays[k]->dtype();
    t.packed &= t.dtype[k] == DType::float32 && gpu::is_aligned(t.data[k]);
  }
  return t;
}

}  // namespace

void CudaBackend::update(UpdateOp op, std::span<UpdateItem> items) {
  constexpr std::uint32_t kMostChunks = 1 << 24;
  gpu::UpdateTable table;
  const auto flush = [&] {
    if (table.tensors == 0) return;
    launch("update", [&](cudaStream_t on) { gpu::launch_update(op, table, on); });
    table.tensors = table.chunks = 0;
  };
  for (UpdateItem& item : items) {
    gpu::UpdateTensor t = tensor_of(item);
    if (t.size == 0) continue;
    t.first_chunk = table.chunks;
    table.tensor[table.tensors] = t;
    table.coefficients[table.tensors] = item.c;
    ++table.tensors;
    table.chunks += gpu::narrow<std::uint32_t>("update", (t.size - 1) / gpu::kUpdateChunk + 1);
    if (table.tensors == gpu::kUpdateTensors || table.chunks >= kMostChunks) flush();
  }
  flush();
}

}  // namespace tandem
