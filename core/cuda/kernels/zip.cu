// Zips: y = f(a, b). The loops are in pointwise.cuh, the rules in zip_rules.h.
#include <tandem/core/cuda/kernels/zip.h>
#include <tandem/core/cuda/kernels/zip_rules.cuh>

namespace tandem::gpu {
namespace {

template <class F>
struct Forward {
  template <class C>
  __device__ auto operator()(C a, C b) const {
    return F::forward(a, b);
  }
};

// Any of the rules whose results are of type R.
template <class C, class R>
struct AnyForward {
  int op;
  __device__ R operator()(C a, C b) const {
    return choose<R>(op, ZipOps{}, [&](auto f) -> R {
      using F = decltype(f);
      if constexpr (computes<F, C> && std::is_same_v<decltype(F::forward(a, b)), R>) {
        return F::forward(a, b);
      } else {
        return {};
      }
    });
  }
};

template <class F, class T>
void zip(const Operands<3>& o, cudaStream_t stream) {
  using C = Compute<T>;
  if constexpr (computes<F, C>) {
    using Out = std::conditional_t<F::compares, bool, T>;
    if (o.packed) {
      launch_packed<formula_length<F>, Out, T>(Forward<F>{}, o, stream);
    } else {
      using Result = std::conditional_t<F::compares, bool, C>;
      launch_strided<Out, T>(AnyForward<C, Result>{int(zip_op<F>)}, o, stream);
    }
  }
}

template <class T, class... F>
void run(OpList<F...>, ZipOp op, const Operands<3>& o, cudaStream_t stream) {
  constexpr decltype(&zip<Add, T>) table[] = {&zip<F, T>...};
  table[int(op)](o, stream);
}

}  // namespace

void launch_zip(ZipOp op, DType dtype, const Operands<3>& o, cudaStream_t stream) {
  with_number_or_bool(dtype, [&]<class T>(T) { run<T>(ZipOps{}, op, o, stream); });
}

}  // namespace tandem::gpu
