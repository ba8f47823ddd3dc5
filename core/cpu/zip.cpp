// Zips and their derivatives, and where: the rules of ZipOps on blocks.
#include <tandem/core/cpu/backend.h>
#include <tandem/core/cpu/traverse.h>

namespace tandem {
namespace {

template <class F>
void run_zip(const Array& a, const Array& b, Array& y) {
  host::with_compute_type<F::domain>(a.dtype(), [&]<class C>(host::Type<C>) {
    using Out = std::conditional_t<F::compares, bool, C>;
    host::for_each_block<Out, C, 2>(y, {&a, &b},
                                    [](std::int64_t n, Out* out, const C* p, const C* q) {
#pragma GCC ivdep
                                      for (std::int64_t i = 0; i < n; ++i)
                                        out[i] = F::forward(p[i], q[i]);
                                    });
  });
}

template <class F, int kOperand>
void run_zip_grad(const Array& a, const Array& b, const Array& dy, Array& dx) {
  constexpr Pull pull = kOperand == 0 ? F::pull_a : F::pull_b;
  if constexpr (pull == Pull::formula) {
    host::with_compute_type<Domain::floats>(dy.dtype(), [&]<class C>(host::Type<C>) {
      // An operand that the formula does not need may be undefined; dy stands in for it.
      const Array& x = a.defined() ? a : dy;
      const Array& z = b.defined() ? b : dy;
      host::for_each_block<C, C, 3>(
          dx, {&x, &z, &dy}, [](std::int64_t n, C* out, const C* p, const C* q, const C* g) {
#pragma GCC ivdep
            for (std::int64_t i = 0; i < n; ++i) {
              out[i] = kOperand == 0 ? F::grad_a(p[i], q[i], g[i]) : F::grad_b(p[i], q[i], g[i]);
            }
          });
    });
  } else if constexpr (pull == Pull::negate) {
    backend(dy.device()).map(map_op<Neg>, {}, dy, dx);
  } else {
    backend(dy.device()).copy(dy, dx);
  }
}

template <class... F>
constexpr auto zip_table(OpList<F...>) {
  return std::array{&run_zip<F>...};
}
template <int kOperand, class... F>
constexpr auto zip_grad_table(OpList<F...>) {
  return std::array{&run_zip_grad<F, kOperand>...};
}

template <class T>
void run_where(const Array& condition, const Array& a, const Array& b, Array& y) {
  const host::Loops<4> loops({&y, &condition, &a, &b});
  const auto s = [&](std::size_t k) { return loops.inner_stride(k); };
  loops.for_each_outer([&](const std::array<std::int64_t, 4>& offset) {
    T* out = y.fresh_data<T>() + offset[0];
    const bool* c = condition.data<bool>() + offset[1];
    const T* p = a.data<T>() + offset[2];
    const T* q = b.data<T>() + offset[3];
    for (std::int64_t i = 0; i < loops.inner(); ++i) {
      out[i * s(0)] = c[i * s(1)] ? p[i * s(2)] : q[i * s(3)];
    }
  });
}

}  // namespace

void CpuBackend::zip(ZipOp op, const Array& a, const Array& b, Array& y) {
  static constexpr auto table = zip_table(ZipOps{});
  table[std::size_t(op)](a, b, y);
}

void CpuBackend::zip_grad(ZipOp op, int operand, const Array& a, const Array& b, const Array& dy,
                          Array& dx) {
  static constexpr std::array table{zip_grad_table<0>(ZipOps{}), zip_grad_table<1>(ZipOps{})};
  table[std::size_t(operand)][std::size_t(op)](a, b, dy, dx);
}

void CpuBackend::where(const Array& condition, const Array& a, const Array& b, Array& y) {
  if (y.numel() == 0) return;
  host::with_bits_of(y.dtype(), [&]<class T>(host::Type<T>) { run_where<T>(condition, a, b, y); });
}

}  // namespace tandem
