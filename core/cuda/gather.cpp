// Picking along a dimension by an index, and the transpose: adding up where indices are equal.
#include <tandem/core/cuda/backend.h>
#include <tandem/core/cuda/index_check.h>
#include <tandem/core/cuda/kernels/gather.h>
#include <tandem/core/cuda/layout.h>

namespace tandem {
namespace {

// Throws UsageError. Positions are those of the index without its strides of zero, in row-major
// order.
void check_index(CudaBackend& device, const char* op, const Array& index, std::int64_t size) {
  Array once = index;
  for (int d = 0; d < index.dim(); ++d) {
    if (index.strides()[d] == 0) once = once.narrow(d, 0, 1);
  }
  const auto bad = gpu::first_outside(device, once, size, std::nullopt);
  if (!bad) return;
  check(false, "[", op, "] index ", bad->value, " at position ", bad->position, " is outside [0, ",
        size, ")");
}

// One index serves all lines: their positions in it do not move.
bool share_index(const Loops<3>& lines) {
  for (std::size_t d = 0; d < std::size_t(lines.dim); ++d) {
    if (lines.size[d] > 1 && lines.stride[2][d] != 0) return false;
  }
  return true;
}

}  // namespace

void CudaBackend::gather(const char* op, int dim, const Array& x, const Array& index, Array& y) {
  if (y.numel() == 0) return;
  check_index(*this, op, index, x.size(dim));
  const Array first = x.narrow(dim, 0, 1).expand(y.shape());
  const auto size = std::int64_t(size_of(x.dtype()));
  launch("gather", [&](cudaStream_t s) {
    gpu::for_each_piece(
        Loops<3>({&y, &index, &first}), [&](const Loops<3>& loops, const auto& offset) {
          gpu::launch_gather(size_of(x.dtype()), gpu::strided(loops), x.strides()[dim],
                             x.data() + offset[2] * size, index.data<std::int64_t>() + offset[1],
                             y.fresh_data() + offset[0] * size, s);
        });
  });
}

void CudaBackend::scatter_add(int dim, const Array& index, const Array& dy, Array& dx) {
  if (dx.numel() == 0) return;
  if (dy.numel() == 0) return fill(dx, 0);
  gpu::refuse_float64("scatter_add", dx);
  const Array to = dx.narrow(dim, 0, 1), from = dy.narrow(dim, 0, 1), at = index.narrow(dim, 0, 1);
  const auto size = std::int64_t(size_of(dx.dtype()));
  const auto scatter = [&](const Loops<3>& loops, const auto& offset, cudaStream_t s) {
    const bool rows = share_index(loops);
    gpu::ScatterPlaces p{
        .lines = gpu::strided(loops),
        .count = gpu::narrow<std::uint32_t>("scatter_add", index.size(dim), gpu::kMostElements),
        .dx_step = dx.strides()[dim],
        .dy_step = dy.strides()[dim],
        .index_step = index.strides()[dim]};
    const std::int64_t most = rows ? gpu::kMostElements : gpu::kMostElements / p.lines.numel;
    for (; p.first < dx.size(dim); p.first += most) {
      p.size = gpu::narrow<std::uint32_t>("scatter_add", std::min(most, dx.size(dim) - p.first));
      (rows ? gpu::launch_scatter_add_rows : gpu::launch_scatter_add)(
          dx.dtype(), p, index.data<std::int64_t>() + offset[2], dy.data() + offset[1] * size,
          dx.fresh_data() + (offset[0] + p.first * p.dx_step) * size, s);
    }
  };
  launch("scatter_add", [&](cudaStream_t s) {
    gpu::for_each_piece(
        Loops<3>({&to, &from, &at}),
        [&](const Loops<3>& loops, const auto& offset) { scatter(loops, offset, s); });
  });
}

}  // namespace tandem
