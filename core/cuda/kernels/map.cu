// Maps: y = f(x). The loops are in pointwise.cuh, the rules in functors.h.
#include <tandem/core/cuda/kernels/map.h>
#include <tandem/core/cuda/kernels/map_rules.cuh>

namespace tandem::gpu {
namespace {

template <class F, class C>
struct Forward {
  Params<C> p;
  __device__ auto operator()(C x) const { return F::forward(x, p); }
};

template <class C>
struct AnyForward {
  int op;
  Params<C> p;
  __device__ C operator()(C x) const {
    return choose<C>(op, MapOps{}, [&](auto f) -> C {
      using F = decltype(f);
      if constexpr (computes<F, C>) {
        return F::forward(x, p);
      } else {
        return x;
      }
    });
  }
};

template <class F, class T>
void packed(const MapNumbers& numbers, const Operands<2>& o, cudaStream_t stream) {
  using C = Compute<T>;
  if constexpr (computes<F, C>) {
    launch_packed<formula_length<F>, T, T>(Forward<F, C>{params<C>(numbers)}, o, stream);
  }
}

template <class T, class... F>
void run(OpList<F...>, MapOp op, const MapNumbers& numbers, const Operands<2>& o,
         cudaStream_t stream) {
  using C = Compute<T>;
  if (o.packed) {
    constexpr decltype(&packed<Neg, T>) table[] = {&packed<F, T>...};
    table[int(op)](numbers, o, stream);
  } else {
    launch_strided<T, T>(AnyForward<C>{int(op), params<C>(numbers)}, o, stream);
  }
}

}  // namespace

void launch_map(MapOp op, DType dtype, const MapNumbers& numbers, const Operands<2>& o,
                cudaStream_t stream) {
  with_number_or_bool(dtype, [&]<class T>(T) { run<T>(MapOps{}, op, numbers, o, stream); });
}

}  // namespace tandem::gpu
