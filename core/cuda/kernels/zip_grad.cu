// Derivatives of zips: dx = df/da (a, b) dy, or df/db. The loops are in pointwise.cuh, the rules in
// zip_rules.h.
#include <tandem/core/cuda/kernels/zip.h>
#include <tandem/core/cuda/kernels/zip_rules.cuh>

namespace tandem::gpu {
namespace {

template <class F, int kOperand>
inline constexpr bool has_formula = (kOperand == 0 ? F::pull_a : F::pull_b) == Pull::formula;

template <class F, int kOperand>
struct Grad {
  __device__ float operator()(float a, float b, float dy) const {
    if constexpr (kOperand == 0) {
      return F::grad_a(a, b, dy);
    } else {
      return F::grad_b(a, b, dy);
    }
  }
};

template <int kOperand>
struct AnyGrad {
  int op;
  __device__ float operator()(float a, float b, float dy) const {
    return choose<float>(op, ZipOps{}, [&](auto f) -> float {
      using F = decltype(f);
      if constexpr (has_formula<F, kOperand>) {
        return Grad<F, kOperand>{}(a, b, dy);
      } else {
        return dy;
      }
    });
  }
};

template <class F, int kOperand, class T>
void zip_grad(const Operands<4>& o, cudaStream_t stream) {
  if constexpr (has_formula<F, kOperand>) {
    if (o.packed) {
      launch_packed<formula_length<F>, T, T>(Grad<F, kOperand>{}, o, stream);
    } else {
      launch_strided<T, T>(AnyGrad<kOperand>{int(zip_op<F>)}, o, stream);
    }
  }
}

template <class T, class... F>
void run(OpList<F...>, ZipOp op, int operand, const Operands<4>& o, cudaStream_t stream) {
  constexpr decltype(&zip_grad<Mul, 0, T>) table[2][sizeof...(F)] = {{&zip_grad<F, 0, T>...},
                                                                     {&zip_grad<F, 1, T>...}};
  table[operand][int(op)](o, stream);
}

}  // namespace

void launch_zip_grad(ZipOp op, int operand, DType dtype, const Operands<4>& o,
                     cudaStream_t stream) {
  with_float(dtype, [&]<class T>(T) { run<T>(ZipOps{}, op, operand, o, stream); });
}

}  // namespace tandem::gpu
