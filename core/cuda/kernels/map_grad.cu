// Derivatives of maps: dx = f'(saved) dy. The loops are in pointwise.cuh, the rules in functors.h.
#include <tandem/core/cuda/kernels/map.h>
#include <tandem/core/cuda/kernels/map_rules.cuh>

namespace tandem::gpu {
namespace {

template <class F>
struct Grad {
  Params<float> p;
  __device__ float operator()(float x, float dy) const { return F::grad(x, dy, p); }
};

struct AnyGrad {
  int op;
  Params<float> p;
  __device__ float operator()(float x, float dy) const {
    return choose<float>(op, MapOps{}, [&](auto f) -> float {
      using F = decltype(f);
      if constexpr (F::domain != Domain::bools) {
        return F::grad(x, dy, p);
      } else {
        return dy;
      }
    });
  }
};

template <class F, class T>
void packed(const MapNumbers& numbers, const Operands<3>& o, cudaStream_t stream) {
  if constexpr (F::domain != Domain::bools) {
    launch_packed<formula_length<F>, T, T>(Grad<F>{numbers.real}, o, stream);
  }
}

template <class T, class... F>
void run(OpList<F...>, MapOp op, const MapNumbers& numbers, const Operands<3>& o,
         cudaStream_t stream) {
  if (o.packed) {
    constexpr decltype(&packed<Neg, T>) table[] = {&packed<F, T>...};
    table[int(op)](numbers, o, stream);
  } else {
    launch_strided<T, T>(AnyGrad{int(op), numbers.real}, o, stream);
  }
}

}  // namespace

void launch_map_grad(MapOp op, DType dtype, const MapNumbers& numbers, const Operands<3>& o,
                     cudaStream_t stream) {
  with_float(dtype, [&]<class T>(T) { run<T>(MapOps{}, op, numbers, o, stream); });
}

}  // namespace tandem::gpu
