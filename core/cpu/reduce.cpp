// Reductions over any dimensions: one result after the other, or many side by side. How values are
// added up is in accumulate.h.
#include <vector>

#include <tandem/core/cpu/accumulate.h>
#include <tandem/core/cpu/backend.h>
#include <tandem/core/cpu/traverse.h>
#include <tandem/core/split.h>

namespace tandem {
namespace {

using host::Counter;
using host::Loops;

constexpr std::int64_t kColumns = 256;  // columns reduced side by side

// Each result by itself: good where the dimensions that go lie close together.
template <class F, class C>
void reduce_rows(const Split& s, DType dtype) {
  const Loops<2> kept({&s.kept_y, &s.kept_x});
  const Loops<1> gone({&s.gone});
  const auto size = std::int64_t(size_of(dtype));
  const std::int64_t n = gone.inner(), stride = gone.inner_stride(0);
  const bool direct = stride == 1 && dtype == dtype_of<C>;
  const bool one_run = direct && gone.dim == 1;
  Array y = s.kept_y;
  const auto combine = [](C& sum, C value) { sum = F::combine(sum, value); };
  const auto result = [&](const std::byte* x) {
    if (one_run) return host::reduce_run<F>(reinterpret_cast<const C*>(x), n);
    Counter<C, decltype(combine)> counter(F::template identity<C>(), combine);
    C buffer[host::kBlock];
    gone.for_each_outer([&](const std::array<std::int64_t, 1>& offset) {
      const std::byte* p = x + offset[0] * size;
      for (std::int64_t i = 0; i < n; i += host::kBlock) {
        const std::int64_t m = std::min(host::kBlock, n - i);
        const C* block = reinterpret_cast<const C*>(p) + i;
        if (!direct) {
          host::gather(dtype, p + i * stride * size, stride, m, buffer);
          block = buffer;
        }
        combine(counter.lowest(), host::reduce_block<F>(block, m));
        counter.carry();
      }
    });
    return counter.total();
  };
  std::byte* y_data = y.fresh_data();
  const auto some = [&](const Loops<2>& part, const std::array<std::int64_t, 2>& begin) {
    C results[host::kBlock];  // of neighbours, stored at once
    part.for_each_outer([&](const std::array<std::int64_t, 2>& offset) {
      for (std::int64_t start = 0; start < part.inner(); start += host::kBlock) {
        const std::int64_t m = std::min(host::kBlock, part.inner() - start);
        const std::int64_t x_step = part.inner_stride(1), y_step = part.inner_stride(0);
        const std::int64_t from = begin[1] + offset[1] + start * x_step,
                           to = begin[0] + offset[0] + start * y_step;
        for (std::int64_t i = 0; i < m; ++i) {
          results[i] = result(s.gone.data() + (from + i * x_step) * size);
        }
        host::scatter(dtype, results, y_data + to * size, y_step, m);
      }
    });
  };
  host::for_each_part_of(y.device(), kept, 0.3 * double(s.gone.numel() * y.numel()), some);
}

// Many results side by side: good where a dimension that stays is the innermost.
template <class F, class C>
void reduce_columns(const Split& s, DType dtype) {
  using Row = std::array<C, std::size_t(kColumns)>;
  const Loops<2> kept({&s.kept_x, &s.kept_y});  // sorted by x: its innermost is contiguous
  const Loops<1> gone({&s.gone});
  const auto size = std::int64_t(size_of(dtype));
  const bool direct = kept.inner_stride(0) == 1 && dtype == dtype_of<C>;
  Array y = s.kept_y;
  Row zero;
  zero.fill(F::template identity<C>());
  C buffer[kColumns];
  kept.for_each_outer([&](const std::array<std::int64_t, 2>& offset) {
    for (std::int64_t start = 0; start < kept.inner(); start += kColumns) {
      const std::int64_t m = std::min(kColumns, kept.inner() - start);
      const auto combine = [m](Row& sum, const Row& value) {
        for (std::size_t j = 0; j < std::size_t(m); ++j) sum[j] = F::combine(sum[j], value[j]);
      };
      auto counter = std::make_unique<Counter<Row, decltype(combine)>>(zero, combine);
      const std::int64_t x_offset = offset[0] + start * kept.inner_stride(0);
      gone.for_each_outer([&](const std::array<std::int64_t, 1>& at) {
        for (std::int64_t i = 0; i < gone.inner(); ++i) {
          const std::int64_t from = x_offset + at[0] + i * gone.inner_stride(0);
          const C* values = reinterpret_cast<const C*>(s.gone.data() + from * size);
          if (!direct) {
            host::gather(dtype, s.gone.data() + from * size, kept.inner_stride(0), m, buffer);
            values = buffer;
          }
          C* sum = counter->lowest().data();
#pragma GCC ivdep
          for (std::int64_t j = 0; j < m; ++j) sum[j] = F::combine(sum[j], F::load(values[j]));
          counter->carry();
        }
      });
      const Row total = counter->total();
      const std::int64_t to = offset[1] + start * kept.inner_stride(1);
      host::scatter(dtype, total.data(), y.fresh_data() + to * size, kept.inner_stride(1), m);
    }
  });
}

// dz (rows, m) = y > 0 ? dy : 0 and its sums, in the order of reduce_columns(): a row of all three
// is in the cache when it is added.
void relu_grad_columns(std::int64_t rows, std::int64_t m, const float* y, const float* dy,
                       float* dz, float* sums) {
  using Row = std::array<float, std::size_t(kColumns)>;
  for (std::int64_t start = 0; start < m; start += kColumns) {
    const std::int64_t n = std::min(kColumns, m - start);
    const auto add = [n](Row& sum, const Row& value) {
      for (std::size_t j = 0; j < std::size_t(n); ++j) sum[j] += value[j];
    };
    auto counter = std::make_unique<Counter<Row, decltype(add)>>(Row{}, add);
    for (std::int64_t i = 0; i < rows; ++i) {
      const float *out = y + i * m + start, *grad = dy + i * m + start;
      float* __restrict to = dz + i * m + start;
      float* __restrict sum = counter->lowest().data();
#pragma GCC ivdep
      for (std::int64_t j = 0; j < n; ++j) {
        to[j] = Relu::grad(out[j], grad[j], Params<float>{});
        sum[j] += to[j];
      }
      counter->carry();
    }
    const Row total = counter->total();
    std::copy_n(total.data(), n, sums + start);
  }
}

// Row-major with channels last, whatever the number of dimensions.
bool has_rows_of(const Array& a, std::int64_t channels, int channel) {
  const bool last = channel + 1 == a.dim();
  return a.dtype() == float32 && a.size(channel) == channels &&
         a.is_contiguous(last ? MemoryFormat::contiguous : MemoryFormat::channels_last);
}

template <class F>
void run_reduce(const Array& x, Array& y) {
  const Split s(x, y);
  host::with_compute_type<Domain::numbers>(x.dtype(), [&]<class C>(host::Type<C>) {
    if (s.side_by_side()) {
      reduce_columns<F, C>(s, x.dtype());
    } else {
      reduce_rows<F, C>(s, x.dtype());
    }
  });
}

template <class... F>
constexpr auto reduce_table(OpList<F...>) {
  return std::array{&run_reduce<F>...};
}

}  // namespace

void CpuBackend::reduce(ReduceOp op, const Array& x, Array& y) {
  if (y.numel() == 0) return;
  if (x.numel() == 0) return fill(y, 0);  // only sums get here
  static constexpr auto table = reduce_table(ReduceOps{});
  table[std::size_t(op)](x, y);
}

void CpuBackend::relu_grad_sums(const Array& y, const Array& dy, Array& dx, Array& sums) {
  const std::int64_t channels = sums.numel();
  const int channel = dx.dim() == 4 ? 1 : dx.dim() - 1;
  const bool fits = channels > 0 && dx.numel() > 0 && has_rows_of(y, channels, channel) &&
                    has_rows_of(dy, channels, channel) && has_rows_of(dx, channels, channel);
  if (!fits) return Backend::relu_grad_sums(y, dy, dx, sums);
  relu_grad_columns(dx.numel() / channels, channels, y.data<float>(), dy.data<float>(),
                    dx.fresh_data<float>(), sums.fresh_data<float>());
}

void CpuBackend::arg_reduce(bool largest, const Array& x, int dim, Array& y) {
  if (y.numel() == 0) return;
  const std::int64_t n = x.size(dim), stride = x.strides()[dim];
  const Array first = x.narrow(dim, 0, 1);
  const Loops<2> loops({&y, &first});
  const auto size = std::int64_t(size_of(x.dtype()));
  host::with_compute_type<Domain::numbers>(x.dtype(), [&]<class C>(host::Type<C>) {
    const bool direct = stride == 1 && x.dtype() == dtype_of<C>;
    std::vector<C> buffer(direct ? 0 : std::size_t(n));
    const auto find = [&](const std::byte* from) {
      const C* p = reinterpret_cast<const C*>(from);
      if (!direct) {
        host::gather(x.dtype(), from, stride, n, buffer.data());
        p = buffer.data();
      }
      const C best = largest ? host::reduce_run<MaxRule>(p, n) : host::reduce_run<MinRule>(p, n);
      const bool is_nan = best != best;
      std::int64_t i = 0;
      while (is_nan ? p[i] == p[i] : p[i] != best) ++i;
      return i;
    };
    loops.for_each_outer([&](const std::array<std::int64_t, 2>& offset) {
      for (std::int64_t i = 0; i < loops.inner(); ++i) {
        y.fresh_data<std::int64_t>()[offset[0] + i * loops.inner_stride(0)] =
            find(x.data() + (offset[1] + i * loops.inner_stride(1)) * size);
      }
    });
  });
}

}  // namespace tandem
