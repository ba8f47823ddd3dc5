// Reductions over any dimensions, and the places of extrema.
#include <tandem/core/cuda/backend.h>
#include <tandem/core/cuda/folds.h>

namespace tandem {

void CudaBackend::reduce(ReduceOp op, const Array& x, Array& y) {
  if (y.numel() == 0) return;
  if (x.numel() == 0) return fill(y, 0);  // only sums get here
  gpu::refuse_float64("reduce", x);
  const auto size = std::int64_t(size_of(x.dtype()));
  launch("reduce", [&](cudaStream_t s) {
    gpu::for_each_fold(x, y,
                       [&](const gpu::FoldPlaces& places, const gpu::FoldPlan& plan,
                           std::int64_t from, std::int64_t to, void* partials) {
                         gpu::launch_reduce(op, x.dtype(), places, plan, x.data() + from * size,
                                            y.fresh_data() + to * size, partials, s);
                       });
  });
}

void CudaBackend::arg_reduce(bool largest, const Array& x, int, Array& y) {
  if (y.numel() == 0) return;
  gpu::refuse_float64(largest ? "argmax" : "argmin", x);
  const auto size = std::int64_t(size_of(x.dtype()));
  launch("arg_reduce", [&](cudaStream_t s) {
    gpu::for_each_fold(x, y,
                       [&](const gpu::FoldPlaces& places, const gpu::FoldPlan& plan,
                           std::int64_t from, std::int64_t to, void* partials) {
                         gpu::launch_arg_reduce(largest, x.dtype(), places, plan,
                                                x.data() + from * size,
                                                y.fresh_data<std::int64_t>() + to, partials, s);
                       });
  });
}

}  // namespace tandem
