// Zips and their derivatives, and where: the kernels of zip.cu, zip_grad.cu and where.cu.
#include <tandem/core/cuda/backend.h>
#include <tandem/core/cuda/kernels/copy.h>
#include <tandem/core/cuda/kernels/zip.h>
#include <tandem/core/cuda/layout.h>

namespace tandem {
namespace {

template <class... F>
constexpr std::array<std::array<Pull, 2>, sizeof...(F)> pulls(OpList<F...>) {
  return {std::array{F::pull_a, F::pull_b}...};
}

}  // namespace

void CudaBackend::zip(ZipOp op, const Array& a, const Array& b, Array& y) {
  gpu::refuse_float64("zip", a);
  gpu::for_each_operands<3>({&y, &a, &b}, [&](const gpu::Operands<3>& o) {
    launch("zip", [&](cudaStream_t on) { gpu::launch_zip(op, a.dtype(), o, on); });
  });
}

void CudaBackend::zip_grad(ZipOp op, int operand, const Array& a, const Array& b, const Array& dy,
                           Array& dx) {
  static constexpr auto kPulls = pulls(ZipOps{});
  const Pull pull = kPulls[std::size_t(op)][std::size_t(operand)];
  if (pull == Pull::negate) return map(map_op<Neg>, {}, dy, dx);
  if (pull != Pull::formula) return copy(dy, dx);

  gpu::refuse_float64("zip_grad", dy);
  // An operand that the formula does not need may be undefined; dy stands in for it.
  const Array& x = a.defined() ? a : dy;
  const Array& z = b.defined() ? b : dy;
  gpu::for_each_operands<4>({&dx, &x, &z, &dy}, [&](const gpu::Operands<4>& o) {
    launch("zip_grad",
           [&](cudaStream_t on) { gpu::launch_zip_grad(op, operand, dy.dtype(), o, on); });
  });
}

void CudaBackend::where(const Array& condition, const Array& a, const Array& b, Array& y) {
  const int bytes = int(size_of(y.dtype()));
  gpu::for_each_operands<4>({&y, &condition, &a, &b}, [&](const gpu::Operands<4>& o) {
    launch("where", [&](cudaStream_t on) { gpu::launch_where(bytes, o, on); });
  });
}

}  // namespace tandem
