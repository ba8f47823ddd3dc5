// Maps and their derivatives: the kernels of map.cu and map_grad.cu.
#include <tandem/core/convert.h>
#include <tandem/core/cuda/backend.h>
#include <tandem/core/cuda/kernels/map.h>
#include <tandem/core/cuda/layout.h>

namespace tandem {
namespace {

gpu::MapNumbers numbers(Scalars s) {
  return {{convert<float>(s.a), convert<float>(s.b)},
          {convert<std::int64_t>(s.a), convert<std::int64_t>(s.b)}};
}

template <class... F>
constexpr std::array<Saves, sizeof...(F)> saves(OpList<F...>) {
  return {F::saves...};
}

}  // namespace

void CudaBackend::map(MapOp op, Scalars s, const Array& x, Array& y) {
  gpu::refuse_float64("map", x);
  gpu::for_each_operands<2>({&y, &x}, [&](const gpu::Operands<2>& o) {
    launch("map", [&](cudaStream_t on) { gpu::launch_map(op, x.dtype(), numbers(s), o, on); });
  });
}

void CudaBackend::map_grad(MapOp op, Scalars s, const Array& saved, const Array& dy, Array& dx) {
  static constexpr auto kSaves = saves(MapOps{});
  gpu::refuse_float64("map_grad", dy);
  const Array& x = kSaves[std::size_t(op)] == Saves::nothing ? dy : saved;
  gpu::for_each_operands<3>({&dx, &x, &dy}, [&](const gpu::Operands<3>& o) {
    launch("map_grad",
           [&](cudaStream_t on) { gpu::launch_map_grad(op, dy.dtype(), numbers(s), o, on); });
  });
}

}  // namespace tandem
