// Pooling, image by image; 16-bit floats are computed in float32 and rounded once.
#include <algorithm>
#include <limits>
#include <vector>

#include <tandem/core/cpu/accumulate.h>
#include <tandem/core/cpu/backend.h>
#include <tandem/core/cpu/traverse.h>

namespace tandem {
namespace {

template <class T>
using Compute = std::conditional_t<host::is_half<T>, float, T>;

// f(Type<T>{}) for floating types.
template <class F>
void with_float(DType dtype, F&& f) {
  host::with_type(dtype, [&]<class T>(host::Type<T> type) {
    if constexpr (host::is_half<T> || std::is_floating_point_v<T>) f(type);
  });
}

// Sizes of the images on either side; x (N, C, H, W), y (N, C, P, Q).
struct Planes {
  std::int64_t count, h, w, p, q;

  Planes(const Array& x, const Array& y)
      : count(x.size(0) * x.size(1)), h(x.size(2)), w(x.size(3)), p(y.size(2)), q(y.size(3)) {}
};

// ---- the largest

// For one column of the kernel: the windows [low, high) in which it lies inside of the image, and
// what it is there: column o stride + shift.
struct Reach {
  std::int64_t shift, low, high;
};

std::vector<Reach> reaches(const Planes& s, const Window2d& win) {
  std::vector<Reach> list;
  const std::int64_t step = win.stride.w;
  for (std::int64_t j = 0; j < win.kernel.w; ++j) {
    const std::int64_t shift = j * win.dilation.w - win.padding.w;
    list.push_back({shift, shift < 0 ? (step - 1 - shift) / step : 0,
                    shift < s.w ? std::min(s.q, (s.w - shift + step - 1) / step) : 0});
  }
  return list;
}

// One row of windows: takes its best so far, and the index of it (-1: nothing yet), from the row of
// the image that begins at index `first`. The outer loop is over the kernel, the inner one over
// windows, without branches: it vectorises.
template <class T>
void take_larger(const std::vector<Reach>& kernel, std::int64_t step, const T* row,
                 std::int64_t first, Compute<T>* best, std::int32_t* index) {
  for (const Reach& k : kernel) {
    const T* from = row + k.shift;
    const auto at = std::int32_t(first + k.shift), stride = std::int32_t(step);
#pragma GCC ivdep
    for (std::int64_t o = k.low; o < k.high; ++o) {
      const auto v = Compute<T>(from[o * step]);
      const bool take = bool(int(v > best[o]) | int(v != v) | int(index[o] < 0));
      best[o] = take ? v : best[o];
      index[o] = take ? at + std::int32_t(o) * stride : index[o];
    }
  }
}

template <class T>
void largest(const Planes& s, const Window2d& win, const T* x, T* y, std::int32_t* index) {
  const std::vector<Reach> kernel = reaches(s, win);
  std::vector<Compute<T>> best(static_cast<std::size_t>(s.q));
  std::vector<std::int32_t> at(static_cast<std::size_t>(s.q));
  for (std::int64_t plane = 0; plane < s.count; ++plane, x += s.h * s.w) {
    for (std::int64_t p = 0; p < s.p; ++p, y += s.q) {
      std::fill(best.begin(), best.end(), -std::numeric_limits<Compute<T>>::infinity());
      std::fill(at.begin(), at.end(), -1);
      for (std::int64_t i = 0; i < win.kernel.h; ++i) {
        const std::int64_t h = p * win.stride.h - win.padding.h + i * win.dilation.h;
        if (h < 0 || h >= s.h) continue;
        take_larger(kernel, win.stride.w, x + h * s.w, h * s.w, best.data(), at.data());
      }
      for (std::int64_t o = 0; o < s.q; ++o) y[o] = host::convert<T>(best[std::size_t(o)]);
      if (index) index = std::copy(at.begin(), at.end(), index);
    }
  }
}

// ---- the average

// The ranges of all outputs of one dimension.
std::vector<AverageRange> ranges(const AverageRule& rule, std::int64_t size, std::int64_t outputs,
                                 std::int64_t kernel, std::int64_t stride, std::int64_t padding) {
  std::vector<AverageRange> list;
  list.reserve(std::size_t(outputs));
  for (std::int64_t o = 0; o < outputs; ++o) {
    list.push_back(rule.adaptive
                       ? adaptive_range(o, size, outputs)
                       : average_range(o, size, kernel, stride, padding, rule.count_padding));
  }
  return list;
}

struct Averages {
  std::vector<AverageRange> rows, columns;
  std::int64_t divisor;  // 0: the product of both

  Averages(const AverageRule& rule, const Planes& s)
      : rows(ranges(rule, s.h, s.p, rule.window.kernel.h, rule.window.stride.h,
                    rule.window.padding.h)),
        columns(ranges(rule, s.w, s.q, rule.window.kernel.w, rule.window.stride.w,
                       rule.window.padding.w)),
        divisor(rule.divisor) {}

  std::int64_t count(const AverageRange& row, const AverageRange& column) const {
    return divisor != 0 ? divisor : row.divisor * column.divisor;
  }
};

// Short runs one by one; long ones in lanes.
template <class C>
C sum_of(const C* x, std::int64_t n) {
  if (n >= 16) return host::reduce_run<SumRule>(x, n);
  C sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += x[i];
  return sum;
}

template <class C>
void add_row(std::int64_t n, const C* x, C* sum) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) sum[i] += x[i];
}

// One image: y (P, Q) from x (H, W). Rows are added up first, whole, then the columns of windows.
template <class C>
void average(const Planes& s, const Averages& all, const C* x, C* y) {
  std::vector<C> line(static_cast<std::size_t>(s.w));
  for (const AverageRange& row : all.rows) {
    std::fill(line.begin(), line.end(), C(0));
    for (std::int64_t h = row.start; h < row.stop; ++h) add_row(s.w, x + h * s.w, line.data());
    for (const AverageRange& column : all.columns) {
      const C sum = sum_of(line.data() + column.start, column.stop - column.start);
      *y++ = sum / C(all.count(row, column));
    }
  }
}

// One image: every element of a window gets dy / divisor; dx (H, W) starts as zeros.
template <class C>
void spread(const Planes& s, const Averages& all, const C* dy, C* dx) {
  std::vector<C> line(static_cast<std::size_t>(s.w));
  for (const AverageRange& row : all.rows) {
    std::fill(line.begin(), line.end(), C(0));
    for (const AverageRange& column : all.columns) {
      const C share = *dy++ / C(all.count(row, column));
      for (std::int64_t w = column.start; w < column.stop; ++w) line[std::size_t(w)] += share;
    }
    for (std::int64_t h = row.start; h < row.stop; ++h) add_row(s.w, line.data(), dx + h * s.w);
  }
}

// f(const C* from, C* to) for every plane; 16-bit floats pass through buffers.
template <class F>
void for_each_plane(const Array& from, Array& to, std::int64_t count, F&& f) {
  if (count == 0) return;
  const std::int64_t n = from.numel() / count, m = to.numel() / count;
  with_float(from.dtype(), [&]<class T>(host::Type<T>) {
    using C = Compute<T>;
    const T* in = from.data<T>();
    T* out = to.fresh_data<T>();
    std::vector<C> a(std::size_t(host::is_half<T> ? n : 0)),
        b(std::size_t(host::is_half<T> ? m : 0));
    for (std::int64_t plane = 0; plane < count; ++plane, in += n, out += m) {
      if constexpr (host::is_half<T>) {
        std::transform(in, in + n, a.begin(), [](T v) { return C(v); });
        f(static_cast<const C*>(a.data()), b.data(), m);
        std::transform(b.begin(), b.end(), out, [](C v) { return T(v); });
      } else {
        f(in, out, m);
      }
    }
  });
}

}  // namespace

void CpuBackend::max_pool2d(const Window2d& window, const Array& x, Array& y, Array& index) {
  const Planes s(x, y);
  const Array in = x.contiguous();
  with_float(x.dtype(), [&]<class T>(host::Type<T>) {
    largest(s, window, in.data<T>(), y.fresh_data<T>(),
            index.defined() ? index.fresh_data<std::int32_t>() : nullptr);
  });
}

void CpuBackend::max_pool2d_grad(const Window2d&, const Array& index, const Array& dy, Array& dx) {
  const Planes s(dx, dy);
  const Array grad = dy.contiguous();
  const std::int32_t* at = index.data<std::int32_t>();
  for_each_plane(grad, dx, s.count, [&]<class C>(const C* from, C* to, std::int64_t n) {
    std::fill_n(to, n, C(0));
    for (std::int64_t o = 0; o < s.p * s.q; ++o) {
      if (at[o] >= 0) to[at[o]] += from[o];  // a dilated window may see nothing but padding
    }
    at += s.p * s.q;
  });
}

void CpuBackend::avg_pool2d(const AverageRule& rule, const Array& x, Array& y) {
  const Planes s(x, y);
  const Averages all(rule, s);
  for_each_plane(x.contiguous(), y, s.count,
                 [&]<class C>(const C* from, C* to, std::int64_t) { average(s, all, from, to); });
}

void CpuBackend::avg_pool2d_grad(const AverageRule& rule, const Array& dy, Array& dx) {
  const Planes s(dx, dy);
  const Averages all(rule, s);
  for_each_plane(dy.contiguous(), dx, s.count, [&]<class C>(const C* from, C* to, std::int64_t n) {
    std::fill_n(to, n, C(0));
    spread(s, all, from, to);
  });
}

}  // namespace tandem
