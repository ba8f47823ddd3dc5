// Copies within a device: strided copy, conversion, fill. Copies to and from it are in
// transfer.cpp.
#include <cstring>
#include <optional>

#include <tandem/core/array_ops.h>
#include <tandem/core/convert.h>
#include <tandem/core/cuda/backend.h>
#include <tandem/core/cuda/kernels/copy.h>
#include <tandem/core/cuda/kernels/copy_all.h>
#include <tandem/core/cuda/layout.h>

namespace tandem {
namespace {

// Where y is contiguous along the last dimension and x along another one, both long enough: planes
// of these two.
std::optional<gpu::Planes> planes_of(const Loops<2>& loops) {
  const auto column = std::size_t(loops.dim - 1);
  const auto& y = loops.stride[0];
  const auto& x = loops.stride[1];
  const auto row = std::size_t(std::find(x.begin(), x.begin() + loops.dim, 1) - x.begin());
  if (y[column] != 1 || row >= column) return {};
  if (std::min(loops.size[row], loops.size[column]) < gpu::kLeastSide) return {};

  gpu::Planes planes;
  const auto narrow = [](std::int64_t v) { return gpu::narrow<std::uint32_t>("copy", v); };
  planes.rows = narrow(loops.size[row]);
  planes.columns = narrow(loops.size[column]);
  planes.y_row = narrow(y[row]);
  planes.x_column = narrow(x[column]);
  Loops<2> outer = loops;
  --outer.dim;  // the columns
  for (std::size_t d = row; d + 1 < column; ++d) {
    outer.size[d] = outer.size[d + 1];
    for (auto& stride : outer.stride) stride[d] = stride[d + 1];
  }
  if (outer.dim > 1) {
    --outer.dim;  // the rows
  } else {
    outer.size[0] = 1;  // a single plane
  }
  planes.outer = gpu::strided(outer);
  return planes;
}

std::uint64_t bits_of(DType dtype, double value) {
  const auto bits = [](auto element) {
    std::uint64_t u = 0;
    std::memcpy(&u, &element, sizeof(element));  // both little-endian
    return u;
  };
  switch (dtype) {
    case DType::float64:
      return bits(value);
    case DType::float16:
      return bits(convert<Half>(value));
    case DType::bfloat16:
      return bits(convert<BFloat16>(value));
    case DType::int64:
      return bits(convert<std::int64_t>(value));
    case DType::int32:
      return bits(convert<std::int32_t>(value));
    case DType::uint8:
      return bits(convert<std::uint8_t>(value));
    case DType::boolean:
      return bits(convert<bool>(value));
    default:
      return bits(convert<float>(value));
  }
}

}  // namespace

void CudaBackend::copy(const Array& x, Array& y) {
  if (y.numel() == 0) return;
  if (x.strides() == y.strides() && y.is_dense()) {  // the same bytes in the same order
    const gpu::OnDevice on(gpu_);
    TANDEM_CUDA_CHECK(device(), cudaMemcpyAsync(y.fresh_data(), x.data(), std::size_t(y.nbytes()),
                                                cudaMemcpyDeviceToDevice, stream()));
    return;
  }
  const int bytes = int(size_of(x.dtype()));
  gpu::for_each_operands<2>({&y, &x}, [&](const gpu::Operands<2>& o, const Loops<2>& loops) {
    launch("copy", [&](cudaStream_t on) {
      if (const auto planes = planes_of(loops)) {
        gpu::launch_transpose(bytes, *planes, o.at[1], o.at[0], on);
      } else {
        gpu::launch_copy(bytes, o, on);
      }
    });
  });
}

// What is dense and lies alike goes through tables of copy_all.cu, the rest one by one.
void CudaBackend::copy_all(std::span<const Array> xs, std::span<Array> ys) {
  constexpr std::uint32_t kMostChunks = 1 << 24;
  gpu::CopyTable table;
  const auto flush = [&] {
    if (table.items == 0) return;
    launch("copy_all", [&](cudaStream_t on) { gpu::launch_copy_all(table, on); });
    table.items = table.chunks = 0;
  };
  for (std::size_t i = 0; i < xs.size(); ++i) {
    if (ys[i].numel() == 0) continue;
    if (xs[i].strides() != ys[i].strides() || !ys[i].is_dense()) {
      copy(xs[i], ys[i]);
      continue;
    }
    gpu::CopyItem item{ys[i].fresh_data(), xs[i].data(), ys[i].nbytes(), table.chunks, 16};
    const auto begins =
        reinterpret_cast<std::uintptr_t>(item.to) | reinterpret_cast<std::uintptr_t>(item.from);
    while (begins % item.unit != 0) item.unit /= 2;
    table.item[table.items++] = item;
    table.chunks += gpu::narrow<std::uint32_t>("copy", (item.size - 1) / gpu::kCopyChunk + 1);
    if (table.items == gpu::kCopies || table.chunks >= kMostChunks) flush();
  }
  flush();
}

void CudaBackend::cast(const Array& x, Array& y) {
  if (x.dtype() == y.dtype()) return copy(x, y);
  if (x.dtype() == DType::float64 || y.dtype() == DType::float64) {
    const Array on_host = x.to(Device{DeviceKind::cpu, 0}).to(y.dtype());
    return tandem::copy(y, on_host);
  }
  gpu::for_each_operands<2>({&y, &x}, [&](const gpu::Operands<2>& o) {
    launch("cast", [&](cudaStream_t on) { gpu::launch_cast(x.dtype(), y.dtype(), o, on); });
  });
}

void CudaBackend::fill(Array& y, double value) {
  const std::uint64_t bits = bits_of(y.dtype(), value);
  const int bytes = int(size_of(y.dtype()));
  gpu::for_each_operands<1>({&y}, [&](const gpu::Operands<1>& o) {
    launch("fill", [&](cudaStream_t on) { gpu::launch_fill(bytes, bits, o, on); });
  });
}

}  // namespace tandem
