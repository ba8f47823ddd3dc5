// Softmax along the last dimension, and the negative log-likelihood of given classes.
#include <vector>

#include <tandem/core/cpu/accumulate.h>
#include <tandem/core/cpu/backend.h>
#include <tandem/core/cpu/packets.h>
#include <tandem/core/cpu/traverse.h>

namespace tandem {
namespace {

// f(row number's offsets) for every row of arrays of one shape; rows are the last dimension.
template <std::size_t N, class F>
void for_each_row(const std::array<const Array*, N>& arrays, F&& f) {
  std::array<Array, N> first;
  std::array<const Array*, N> pointers;
  const int last = arrays[0]->dim() - 1;
  for (std::size_t a = 0; a < N; ++a) {
    first[a] = arrays[a]->narrow(last, 0, 1);
    pointers[a] = &first[a];
  }
  const host::Loops<N> loops(pointers);
  loops.for_each_outer([&](std::array<std::int64_t, N> offset) {
    for (std::int64_t i = 0; i < loops.inner(); ++i) {
      f(offset);
      for (std::size_t a = 0; a < N; ++a) offset[a] += loops.inner_stride(a);
    }
  });
}

template <class C>
void load(const Array& x, std::int64_t offset, std::vector<C>& row) {
  const auto size = std::int64_t(size_of(x.dtype()));
  host::gather(x.dtype(), x.data() + offset * size, x.strides().back(), std::int64_t(row.size()),
               row.data());
}

template <class C>
void store(const std::vector<C>& row, Array& y, std::int64_t offset) {
  const auto size = std::int64_t(size_of(y.dtype()));
  host::scatter(y.dtype(), row.data(), y.fresh_data() + offset * size, y.strides().back(),
                std::int64_t(row.size()));
}

template <class C>
void exp_row(const std::vector<C>& row, std::vector<C>& out) {
  host::for_each_packet(
      std::int64_t(row.size()), out.data(), [](auto v) { return exp(v); }, row.data());
}

}  // namespace

void CpuBackend::softmax(bool log, const Array& x, Array& y) {
  if (y.numel() == 0) return;
  host::with_compute_type<Domain::floats>(x.dtype(), [&]<class C>(host::Type<C>) {
    const std::int64_t n = x.shape().back();
    std::vector<C> row(static_cast<std::size_t>(n)), powers(row);
    for_each_row<2>({&y, &x}, [&](const std::array<std::int64_t, 2>& offset) {
      load(x, offset[1], row);
      const C largest = host::reduce_run<MaxRule>(row.data(), n);
      for (C& v : row) v -= largest;
      exp_row(row, powers);
      const C sum = host::reduce_run<SumRule>(powers.data(), n);
      if (log) {
        const C log_sum = std::log(sum);
        for (C& v : row) v -= log_sum;
      } else {
        for (C& v : powers) v /= sum;
      }
      store(log ? row : powers, y, offset[0]);
    });
  });
}

// softmax: dx = y (dy - sum(dy y)); log_softmax: dx = dy - exp(y) sum(dy)
void CpuBackend::softmax_grad(bool log, const Array& y, const Array& dy, Array& dx) {
  if (dx.numel() == 0) return;
  host::with_compute_type<Domain::floats>(y.dtype(), [&]<class C>(host::Type<C>) {
    const std::int64_t n = y.shape().back();
    const auto size = static_cast<std::size_t>(n);
    std::vector<C> out(size), grad(size), weight(size);
    for_each_row<3>({&dx, &y, &dy}, [&](const std::array<std::int64_t, 3>& offset) {
      load(y, offset[1], out);
      load(dy, offset[2], grad);
      if (log) {
        exp_row(out, weight);
        const C sum = host::reduce_run<SumRule>(grad.data(), n);
        for (std::size_t i = 0; i < size; ++i) grad[i] -= weight[i] * sum;
      } else {
        for (std::size_t i = 0; i < size; ++i) weight[i] = grad[i] * out[i];
        const C dot = host::reduce_run<SumRule>(weight.data(), n);
        for (std::size_t i = 0; i < size; ++i) grad[i] = out[i] * (grad[i] - dot);
      }
      store(grad, dx, offset[0]);
    });
  });
}

void CpuBackend::nll(const Array& logp, const Array& target, Array& loss) {
  const std::int64_t rows = logp.size(0), classes = logp.size(1);
  const auto label = [&](std::int64_t i) {
    return target.data<std::int64_t>()[i * target.strides()[0]];
  };
  for (std::int64_t i = 0; i < rows; ++i) {
    check(label(i) >= 0 && label(i) < classes, "[cross_entropy] target ", label(i), " of row ", i,
          " is outside [0, ", classes, ")");
  }
  host::with_type(logp.dtype(), [&]<class T>(host::Type<T>) {
    for (std::int64_t i = 0; i < rows; ++i) {
      const T x = logp.data<T>()[i * logp.strides()[0] + label(i) * logp.strides()[1]];
      using C = std::conditional_t<host::is_half<T>, float, T>;
      loss.fresh_data<T>()[i * loss.strides()[0]] = host::convert<T>(C(-C(x)));
    }
  });
}

void CpuBackend::nll_grad(const Array& target, const Array& dloss, Array& dlogp) {
  fill(dlogp, 0);
  host::with_type(dlogp.dtype(), [&]<class T>(host::Type<T>) {
    using C = std::conditional_t<host::is_half<T>, float, T>;
    for (std::int64_t i = 0; i < dlogp.size(0); ++i) {
      const std::int64_t c = target.data<std::int64_t>()[i * target.strides()[0]];
      const C g = C(dloss.data<T>()[i * dloss.strides()[0]]);
      dlogp.fresh_data<T>()[i * dlogp.strides()[0] + c * dlogp.strides()[1]] =
          host::convert<T>(C(-g));
    }
  });
}

}  // namespace tandem
