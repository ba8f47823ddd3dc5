// Pooling, image by image; 16-bit floats are computed in float32 and rounded once.
//
// Row-major images are planes of one channel, (H, W), and neighbours in memory are neighbouring
// windows. Channels-last ones are a single plane, (H, W, C), and the inner loops run over channels.
// The order in which the elements of a window are visited is the same.
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

// Both sides as planes: x (count, H, W, channels), y (count, P, Q, channels).
struct Planes {
  MemoryFormat format;
  std::int64_t count, channels, h, w, p, q;

  // In the layout of `written`, one of the two.
  Planes(const Array& x, const Array& y, const Array& written)
      : format(common(x, y, written)),
        count(x.size(0) * x.size(1)),
        channels(1),
        h(x.size(2)),
        w(x.size(3)),
        p(y.size(2)),
        q(y.size(3)) {
    if (format == MemoryFormat::contiguous) return;
    channels = x.size(1);
    count = x.size(0);
  }

 private:
  static MemoryFormat common(const Array& x, const Array& y, const Array& written) {
    constexpr auto last = MemoryFormat::channels_last;
    return x.is_contiguous(last) && y.is_contiguous(last) && format_of(x) != format_of(y)
               ? last  // one is of both layouts
               : format_of(written);
  }
};

// What is read, in the layout of what is written.
Array laid_out(const Planes& s, const Array& a) {
  if (a.is_contiguous(s.format)) return a;
  const CategoryScope scope(Category::workspace);
  Array packed = Array::empty(a.shape(), a.dtype(), a.device(), s.format);
  backend(a.device()).copy(a, packed);
  return packed;
}

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
void largest_of_rows(const Planes& s, const Window2d& win, const T* x, T* y, std::int32_t* index) {
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

// One window of channels-last images: takes n channels' best so far from another of its pixels.
template <class T>
void take_larger(std::int64_t n, const T* pixel, std::int32_t at, bool first, Compute<T>* best,
                 std::int32_t* index) {
  if (first) {
    for (std::int64_t c = 0; c < n; ++c) best[c] = Compute<T>(pixel[c]);
    std::fill_n(index, n, at);
    return;
  }
#pragma GCC ivdep
  for (std::int64_t c = 0; c < n; ++c) {
    const auto v = Compute<T>(pixel[c]);
    const bool take = bool(int(v > best[c]) | int(v != v));
    best[c] = take ? v : best[c];
    index[c] = take ? at : index[c];
  }
}

// f(h W + w) for every pixel inside of the image that window (p, q) sees.
template <class F>
void for_each_pixel(const Planes& s, const Window2d& win, std::int64_t p, std::int64_t q, F f) {
  for (std::int64_t i = 0; i < win.kernel.h; ++i) {
    const std::int64_t h = p * win.stride.h - win.padding.h + i * win.dilation.h;
    if (h < 0 || h >= s.h) continue;
    for (std::int64_t j = 0; j < win.kernel.w; ++j) {
      const std::int64_t w = q * win.stride.w - win.padding.w + j * win.dilation.w;
      if (w >= 0 && w < s.w) f(h * s.w + w);
    }
  }
}

// f(p, q) for the windows of an image, in their order in memory.
template <class F>
void for_each_window(const Planes& s, F f) {
  for (std::int64_t p = 0; p < s.p; ++p) {
    for (std::int64_t q = 0; q < s.q; ++q) f(p, q);
  }
}

template <class T>
void largest_of_pixels(const Planes& s, const Window2d& win, const T* x, T* y,
                       std::int32_t* index) {
  const std::int64_t n = s.channels;
  std::vector<Compute<T>> best(static_cast<std::size_t>(n));
  std::vector<std::int32_t> at(static_cast<std::size_t>(n));
  for (std::int64_t image = 0; image < s.count; ++image, x += s.h * s.w * n) {
    for_each_window(s, [&](std::int64_t p, std::int64_t q) {
      bool first = true;
      for_each_pixel(s, win, p, q, [&](std::int64_t pixel) {
        take_larger(n, x + pixel * n, std::int32_t(pixel), first, best.data(), at.data());
        first = false;
      });
      if (first) {  // nothing but padding
        std::fill(best.begin(), best.end(), -std::numeric_limits<Compute<T>>::infinity());
        std::fill(at.begin(), at.end(), -1);
      }
      for (std::int64_t c = 0; c < n; ++c) y[c] = host::convert<T>(best[std::size_t(c)]);
      y += n;
      if (index) index = std::copy(at.begin(), at.end(), index);
    });
  }
}

// One plane; dx starts as zeros. A dilated window may see nothing but padding.
template <class C>
void return_to_largest(const Planes& s, const std::int32_t* index, const C* dy, C* dx) {
  const std::int64_t n = s.channels;
  for (std::int64_t o = 0; o < s.p * s.q; ++o, index += n, dy += n) {
    for (std::int64_t c = 0; c < n; ++c) {
      if (index[c] >= 0) dx[index[c] * n + c] += dy[c];
    }
  }
}

// Do the windows cover channels-last images, each pixel once? Then dx needs no zeros first.
bool tile_exactly(const Planes& s, const Window2d& win) {
  return s.format == MemoryFormat::channels_last && win.padding == Size2d(0) &&
         win.dilation == Size2d(1) && win.stride == win.kernel && s.p * win.kernel.h == s.h &&
         s.q * win.kernel.w == s.w;
}

template <class C>
void write_to_largest(const Planes& s, const Window2d& win, const std::int32_t* index, const C* dy,
                      C* dx) {
  const std::int64_t n = s.channels;
  for_each_window(s, [&](std::int64_t p, std::int64_t q) {
    for_each_pixel(s, win, p, q, [&](std::int64_t at) {
      C* __restrict to = dx + at * n;
#pragma GCC ivdep
      for (std::int64_t c = 0; c < n; ++c) to[c] = index[c] == std::int32_t(at) ? dy[c] : C(0);
    });
    index += n, dy += n;
  });
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

// y[c] = sum of x[w, c] over the columns of a window / count
template <class C>
void average_columns(const AverageRange& columns, std::int64_t channels, C count, const C* x,
                     C* y) {
  const std::int64_t n = columns.stop - columns.start;
  x += columns.start * channels;
  if (channels == 1) {
    *y = sum_of(x, n) / count;
    return;
  }
  std::fill_n(y, channels, C(0));
  for (std::int64_t w = 0; w < n; ++w, x += channels) add_row(channels, x, y);
  for (std::int64_t c = 0; c < channels; ++c) y[c] /= count;
}

// x[w, c] += dy[c] / count in the columns of a window; `share` is room for a row of channels.
template <class C>
void spread_columns(const AverageRange& columns, std::int64_t channels, C count, const C* dy,
                    C* share, C* x) {
  if (channels == 1) {
    const C value = *dy / count;
    for (std::int64_t w = columns.start; w < columns.stop; ++w) x[w] += value;
    return;
  }
  for (std::int64_t c = 0; c < channels; ++c) share[c] = dy[c] / count;
  for (std::int64_t w = columns.start; w < columns.stop; ++w) {
    add_row(channels, share, x + w * channels);
  }
}

// One plane: y (P, Q, channels) from x (H, W, channels). Rows are added up first, whole, then the
// columns of windows.
template <class C>
void average(const Planes& s, const Averages& all, const C* x, C* y) {
  const std::int64_t width = s.w * s.channels;
  std::vector<C> line(static_cast<std::size_t>(width));
  for (const AverageRange& row : all.rows) {
    std::fill(line.begin(), line.end(), C(0));
    for (std::int64_t h = row.start; h < row.stop; ++h) add_row(width, x + h * width, line.data());
    for (const AverageRange& column : all.columns) {
      average_columns(column, s.channels, C(all.count(row, column)), line.data(), y);
      y += s.channels;
    }
  }
}

// One plane: every element of a window gets dy / divisor; dx starts as zeros.
template <class C>
void spread(const Planes& s, const Averages& all, const C* dy, C* dx) {
  const std::int64_t width = s.w * s.channels;
  std::vector<C> line(static_cast<std::size_t>(width));
  std::vector<C> share(static_cast<std::size_t>(s.channels));
  for (const AverageRange& row : all.rows) {
    std::fill(line.begin(), line.end(), C(0));
    for (const AverageRange& column : all.columns) {
      spread_columns(column, s.channels, C(all.count(row, column)), dy, share.data(), line.data());
      dy += s.channels;
    }
    for (std::int64_t h = row.start; h < row.stop; ++h) add_row(width, line.data(), dx + h * width);
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
  const Planes s(x, y, y);
  const Array in = laid_out(s, x);
  with_float(x.dtype(), [&]<class T>(host::Type<T>) {
    const auto largest =
        s.format == MemoryFormat::contiguous ? largest_of_rows<T> : largest_of_pixels<T>;
    T* out = y.fresh_data<T>();
    std::int32_t* taken = index.defined() ? index.fresh_data<std::int32_t>() : nullptr;
    const std::int64_t from = s.h * s.w * s.channels, to = s.p * s.q * s.channels;  // of a plane
    const auto some_planes = [&](std::int64_t begin, std::int64_t end) {
      Planes some = s;
      some.count = end - begin;
      largest(some, window, in.data<T>() + begin * from, out + begin * to,
              taken ? taken + begin * to : nullptr);
    };
    host::for_each_range(device(), s.count, double(s.count * from), some_planes);
  });
}

void CpuBackend::max_pool2d_grad(const Window2d& window, const Array& index, const Array& dy,
                                 Array& dx) {
  const Planes s(dx, index, dx);
  const bool once = tile_exactly(s, window);
  const Array grad = laid_out(s, dy), taken = laid_out(s, index);
  const std::int32_t* at = taken.data<std::int32_t>();
  for_each_plane(grad, dx, s.count, [&]<class C>(const C* from, C* to, std::int64_t n) {
    if (!once) std::fill_n(to, n, C(0));
    once ? write_to_largest(s, window, at, from, to) : return_to_largest(s, at, from, to);
    at += s.p * s.q * s.channels;
  });
}

void CpuBackend::avg_pool2d(const AverageRule& rule, const Array& x, Array& y) {
  const Planes s(x, y, y);
  const Averages all(rule, s);
  for_each_plane(laid_out(s, x), y, s.count,
                 [&]<class C>(const C* from, C* to, std::int64_t) { average(s, all, from, to); });
}

void CpuBackend::avg_pool2d_grad(const AverageRule& rule, const Array& dy, Array& dx) {
  const Planes s(dx, dy, dx);
  const Averages all(rule, s);
  for_each_plane(laid_out(s, dy), dx, s.count, [&]<class C>(const C* from, C* to, std::int64_t n) {
    std::fill_n(to, n, C(0));
    spread(s, all, from, to);
  });
}

}  // namespace tandem
