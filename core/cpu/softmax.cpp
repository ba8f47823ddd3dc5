// Softmax along the last dimension, and the negative log-likelihood of given classes.
#include <vector>

#include <tandem/core/cpu/accumulate.h>
#include <tandem/core/cpu/backend.h>
#include <tandem/core/cpu/packets.h>
#include <tandem/core/cpu/traverse.h>

namespace tandem {
namespace {

// f(offsets) for every row of arrays of one shape; rows are the last dimension. Each part of the
// rows has an f of its own, from make().
template <std::size_t N, class Make>
void for_each_row(const std::array<const Array*, N>& arrays, Make&& make) {
  std::array<Array, N> first;
  std::array<const Array*, N> pointers;
  const int last = arrays[0]->dim() - 1;
  for (std::size_t a = 0; a < N; ++a) {
    first[a] = arrays[a]->narrow(last, 0, 1);
    pointers[a] = &first[a];
  }
  const host::Loops<N> loops(pointers);
  const auto some_rows = [&](const host::Loops<N>& part, const std::array<std::int64_t, N>& begin) {
    auto f = make();
    part.for_each_outer([&](std::array<std::int64_t, N> offset) {
      for (std::size_t a = 0; a < N; ++a) offset[a] += begin[a];
      for (std::int64_t i = 0; i < part.inner(); ++i) {
        f(offset);
        for (std::size_t a = 0; a < N; ++a) offset[a] += part.inner_stride(a);
      }
    });
  };
  host::for_each_part_of(arrays[0]->device(), loops, 2.0 * double(arrays[0]->numel()), some_rows);
}

// A row as contiguous numbers of C: where it lies if it is that already, else copied to `buffer`.
template <class C>
const C* load(const Array& x, std::int64_t offset, std::vector<C>& buffer) {
  const std::byte* from = x.data() + offset * std::int64_t(size_of(x.dtype()));
  const std::int64_t n = x.shape().back(), stride = x.strides().back();
  if (x.dtype() == dtype_of<C> && stride == 1) return reinterpret_cast<const C*>(from);
  buffer.resize(std::size_t(n));
  host::gather(x.dtype(), from, stride, n, buffer.data());
  return buffer.data();
}

// Where to compute a row of y: in place if it lies like that, else in `buffer`, then store() it.
template <class C>
C* target(Array& y, std::int64_t offset, std::vector<C>& buffer) {
  if (y.dtype() == dtype_of<C> && y.strides().back() == 1) return y.fresh_data<C>() + offset;
  buffer.resize(std::size_t(y.shape().back()));
  return buffer.data();
}

template <class C>
void store(const C* row, Array& y, std::int64_t offset, const std::vector<C>& buffer) {
  if (row != buffer.data()) return;
  host::scatter(y.dtype(), row, y.fresh_data() + offset * std::int64_t(size_of(y.dtype())),
                y.strides().back(), y.shape().back());
}

template <class C>
void exp_row(std::int64_t n, const C* row, C* out) {
  host::for_each_packet(
      n, out, [](auto v) { return exp(v); }, row);
}

template <class C>
void softmax_row(bool log, std::int64_t n, const C* x, C* y, C* powers) {
  const C largest = host::reduce_run<MaxRule>(x, n);
  for (std::int64_t i = 0; i < n; ++i) y[i] = x[i] - largest;
  exp_row(n, y, powers);
  const C sum = host::reduce_run<SumRule>(powers, n);
  const C log_sum = log ? std::log(sum) : C(0);
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) y[i] = log ? y[i] - log_sum : powers[i] / sum;
}

// softmax: dx = y (dy - sum(dy y)); log_softmax: dx = dy - exp(y) sum(dy)
template <class C>
void softmax_grad_row(bool log, std::int64_t n, const C* y, const C* dy, C* dx, C* weight) {
  if (log) {
    exp_row(n, y, weight);
    const C sum = host::reduce_run<SumRule>(dy, n);
    for (std::int64_t i = 0; i < n; ++i) dx[i] = dy[i] - weight[i] * sum;
  } else {
    for (std::int64_t i = 0; i < n; ++i) weight[i] = dy[i] * y[i];
    const C dot = host::reduce_run<SumRule>(weight, n);
    for (std::int64_t i = 0; i < n; ++i) dx[i] = y[i] * (dy[i] - dot);
  }
}

// Element i of a one-dimensional array.
template <class T>
T element(const Array& a, std::int64_t i) {
  return a.data<T>()[i * a.strides()[0]];
}

}  // namespace

void CpuBackend::softmax(bool log, const Array& x, Array& y) {
  if (y.numel() == 0) return;
  host::with_compute_type<Domain::floats>(x.dtype(), [&]<class C>(host::Type<C>) {
    const std::int64_t n = x.shape().back();
    for_each_row<2>({&y, &x}, [&] {
      return [&, in = std::vector<C>(), out = std::vector<C>(),
              powers = std::vector<C>(std::size_t(n))](
                 const std::array<std::int64_t, 2>& offset) mutable {
        C* row = target(y, offset[0], out);
        softmax_row(log, n, load(x, offset[1], in), row, powers.data());
        store(row, y, offset[0], out);
      };
    });
  });
}

void CpuBackend::softmax_grad(bool log, const Array& y, const Array& dy, Array& dx) {
  if (dx.numel() == 0) return;
  host::with_compute_type<Domain::floats>(y.dtype(), [&]<class C>(host::Type<C>) {
    const std::int64_t n = y.shape().back();
    for_each_row<3>({&dx, &y, &dy}, [&] {
      return [&, in = std::vector<C>(), grad = std::vector<C>(), out = std::vector<C>(),
              weight = std::vector<C>(std::size_t(n))](
                 const std::array<std::int64_t, 3>& offset) mutable {
        C* row = target(dx, offset[0], out);
        softmax_grad_row(log, n, load(y, offset[1], in), load(dy, offset[2], grad), row,
                         weight.data());
        store(row, dx, offset[0], out);
      };
    });
  });
}

void CpuBackend::nll(const Array& logp, const Array& target, const Array& weight,
                     std::int64_t ignore_index, Array& loss, Array& row_weight) {
  const std::int64_t rows = logp.size(0), classes = logp.size(1);
  for (std::int64_t i = 0; i < rows; ++i) {
    const std::int64_t c = element<std::int64_t>(target, i);
    check(c == ignore_index || (c >= 0 && c < classes), "[cross_entropy] target ", c, " of row ", i,
          " is outside [0, ", classes, ")");
  }
  host::with_type(logp.dtype(), [&]<class T>(host::Type<T>) {
    using C = std::conditional_t<host::is_half<T>, float, T>;
    for (std::int64_t i = 0; i < rows; ++i) {
      const std::int64_t c = element<std::int64_t>(target, i);
      const bool ignored = c == ignore_index;
      const C w = ignored ? C(0) : weight.defined() ? element<C>(weight, c) : C(1);
      row_weight.fresh_data<C>()[i * row_weight.strides()[0]] = w;
      loss.fresh_data<C>()[i * loss.strides()[0]] =
          ignored ? C(0) : -(w * C(logp.data<T>()[i * logp.strides()[0] + c * logp.strides()[1]]));
    }
  });
}

void CpuBackend::nll_grad(const Array& target, const Array& row_weight, std::int64_t ignore_index,
                          const Array& dloss, Array& dlogp) {
  fill(dlogp, 0);
  host::with_type(dlogp.dtype(), [&]<class T>(host::Type<T>) {
    using C = std::conditional_t<host::is_half<T>, float, T>;
    for (std::int64_t i = 0; i < dlogp.size(0); ++i) {
      const std::int64_t c = element<std::int64_t>(target, i);
      if (c == ignore_index) continue;
      dlogp.fresh_data<T>()[i * dlogp.strides()[0] + c * dlogp.strides()[1]] =
          host::convert<T>(C(-(element<C>(row_weight, i) * element<C>(dloss, i))));
    }
  });
}

}  // namespace tandem
