// Convolution as matrix products: the inputs of every output position become a column.
//
// For one sample and group, with K = C KH KW and P Q output positions,
//   y (O, P Q) = w (O, K) columns (K, P Q),   dw += dy columns^T,   columns' = w^T dy,
// where columns' are added back to where the columns came from. The columns are made a tile of
// positions at a time, so that they stay in the cache and workspace is bounded. Samples are
// computed one by one: their bits do not depend on the batch. Products: gemm.cpp.
#include <algorithm>

#include <tandem/core/cpu/backend.h>
#include <tandem/core/cpu/gemm.h>
#include <tandem/core/memory.h>

namespace tandem {
namespace {

constexpr std::int64_t kTileBytes = std::int64_t(1) << 20;  // of columns; at least 32 positions

// One group of one sample: an image (C, H, W), weights (O, K), an output (O, P Q).
struct Geometry {
  Window2d window;
  std::int64_t images;  // samples times groups
  std::int64_t groups, channels, height, width, outputs, rows, columns;

  Geometry(const Window2d& win, std::int64_t group_count, const Array& x, const Array& y)
      : window(win),
        images(x.size(0) * group_count),
        groups(group_count),
        channels(x.size(1) / group_count),
        height(x.size(2)),
        width(x.size(3)),
        outputs(y.size(1) / group_count),
        rows(y.size(2)),
        columns(y.size(3)) {}

  std::int64_t image_size() const { return channels * height * width; }
  std::int64_t positions() const { return rows * columns; }
  std::int64_t depth() const { return channels * window.kernel.h * window.kernel.w; }
  // Are the columns the image itself?
  bool pointwise() const {
    return window.kernel == Size2d(1) && window.stride == Size2d(1) && window.padding == Size2d(0);
  }
  std::int64_t tile(std::size_t element) const {
    if (pointwise()) return positions();
    const std::int64_t fit =
        kTileBytes / std::max<std::int64_t>(1, depth() * std::int64_t(element));
    // Whole rows where they are short: fewer pieces to copy.
    const std::int64_t whole = fit / columns * columns;
    return std::clamp<std::int64_t>(whole > 0 ? whole : fit, 32,
                                    std::max<std::int64_t>(32, positions()));
  }
};

// f(column data, image data, n) for each run of n positions of one row, for every row k = (c, i, j)
// of a tile [begin, begin + count): its element t belongs to image[t stride.w]; image is null in
// the padding.
template <class T, class Image, class F>
void for_each_run(const Geometry& g, Image* image, std::int64_t begin, std::int64_t count, T* out,
                  F f) {
  const Window2d& win = g.window;
  const std::int64_t first_row = begin / g.columns, first_column = begin % g.columns;
  for (std::int64_t c = 0; c < g.channels; ++c, image += g.height * g.width) {
    for (std::int64_t i = 0; i < win.kernel.h; ++i) {
      for (std::int64_t j = 0; j < win.kernel.w; ++j) {
        // Positions [low, high) of a row read inside of the image.
        const std::int64_t shift = j * win.dilation.w - win.padding.w, s = win.stride.w;
        const std::int64_t low = shift < 0 ? (s - 1 - shift) / s : 0;
        const std::int64_t high = shift < g.width ? (g.width - shift + s - 1) / s : 0;
        std::int64_t h = first_row * win.stride.h + i * win.dilation.h - win.padding.h;
        std::int64_t q = first_column;
        for (std::int64_t left = count; left > 0; h += win.stride.h, q = 0) {
          const std::int64_t n = std::min(left, g.columns - q);
          const bool inside = h >= 0 && h < g.height;
          const std::int64_t from = inside ? std::clamp(low, q, q + n) : q + n;
          const std::int64_t to = inside ? std::clamp(high, from, q + n) : q + n;
          if (from > q) f(out, static_cast<Image*>(nullptr), from - q);
          if (to > from) f(out + from - q, image + h * g.width + from * s + shift, to - from);
          if (q + n > to) f(out + to - q, static_cast<Image*>(nullptr), q + n - to);
          out += n;
          left -= n;
        }
      }
    }
  }
}

// The columns of a tile, (K, count): copied to `buffer`, or the image as it lies.
template <class T>
host::Matrix<T> gather_columns(const Geometry& g, const T* image, std::int64_t begin,
                               std::int64_t count, T* buffer) {
  if (g.pointwise()) return {image + begin, g.channels, count, g.positions()};
  const std::int64_t stride = g.window.stride.w;
  for_each_run(g, image, begin, count, buffer, [stride](T* out, const T* from, std::int64_t n) {
    if (from == nullptr) {
      std::fill_n(out, n, T(0));
    } else if (stride == 1) {
      std::copy_n(from, n, out);
    } else {
      for (std::int64_t t = 0; t < n; ++t) out[t] = from[t * stride];
    }
  });
  return {buffer, g.depth(), count, count};
}

// The reverse: adds the columns of a tile to where they came from.
template <class T>
void scatter_columns(const Geometry& g, const T* columns, std::int64_t begin, std::int64_t count,
                     T* image) {
  const std::int64_t stride = g.window.stride.w;
  for_each_run(g, image, begin, count, columns, [stride](const T* in, T* to, std::int64_t n) {
    if (to == nullptr) return;
    if (stride == 1) {
#pragma GCC ivdep
      for (std::int64_t t = 0; t < n; ++t) to[t] += in[t];
    } else {
      for (std::int64_t t = 0; t < n; ++t) to[t * stride] += in[t];
    }
  });
}

// f(image number, first position, positions) for all tiles.
template <class F>
void for_each_tile(const Geometry& g, std::int64_t tile, F f) {
  for (std::int64_t image = 0; image < g.images; ++image) {
    for (std::int64_t begin = 0; begin < g.positions(); begin += tile) {
      f(image, begin, std::min(tile, g.positions() - begin));
    }
  }
}

template <class T>
host::Matrix<T> weights_of(const Geometry& g, const T* w, std::int64_t image) {
  return {w + image % g.groups * g.outputs * g.depth(), g.outputs, g.depth(), g.depth()};
}

template <class T>
void forward(const Geometry& g, const T* x, const T* w, const T* bias, T* y, T* buffer) {
  const std::int64_t area = g.positions(), out_size = g.outputs * area;
  for (std::int64_t row = 0; row < g.images * g.outputs; ++row) {
    std::fill_n(y + row * area, area, bias ? bias[row % (g.groups * g.outputs)] : T(0));
  }
  for_each_tile(g, g.tile(sizeof(T)), [&](std::int64_t i, std::int64_t begin, std::int64_t n) {
    const auto columns = gather_columns(g, x + i * g.image_size(), begin, n, buffer);
    host::add_product(weights_of(g, w, i), columns, y + i * out_size + begin, area);
  });
}

template <class T>
void input_gradient(const Geometry& g, const T* w, const T* dy, T* dx, T* buffer) {
  const std::int64_t area = g.positions();
  std::fill_n(dx, g.images * g.image_size(), T(0));
  for_each_tile(g, g.tile(sizeof(T)), [&](std::int64_t i, std::int64_t begin, std::int64_t n) {
    host::Matrix<T> weights = weights_of(g, w, i);
    weights.transposed = true;
    const host::Matrix<T> out{dy + i * g.outputs * area + begin, g.outputs, n, area};
    T* image = dx + i * g.image_size();
    if (g.pointwise()) return host::add_product(weights, out, image + begin, area);
    std::fill_n(buffer, g.depth() * n, T(0));
    host::add_product(weights, out, buffer, n);
    scatter_columns<T>(g, buffer, begin, n, image);
  });
}

template <class T>
void weight_gradient(const Geometry& g, const T* x, const T* dy, T* dw, T* buffer) {
  const std::int64_t area = g.positions(), weights = g.outputs * g.depth();
  std::fill_n(dw, g.groups * weights, T(0));
  for_each_tile(g, g.tile(sizeof(T)), [&](std::int64_t i, std::int64_t begin, std::int64_t n) {
    host::Matrix<T> columns = gather_columns(g, x + i * g.image_size(), begin, n, buffer);
    columns.transposed = true;
    const host::Matrix<T> out{dy + i * g.outputs * area + begin, g.outputs, n, area};
    host::add_product(out, columns, dw + i % g.groups * weights, g.depth());
  });
}

// Calls f with T = float or double; 16-bit floats are computed in float32 and rounded once.
template <class F>
void in_compute_type(DType dtype, F f) {
  dtype == float64 ? f(double()) : f(float());
}

// An operand as the loops above need it: row-major, in the type that is computed in.
Array prepared(const Array& a) {
  if (!a.defined()) return a;
  return a.to(a.dtype() == float64 ? float64 : float32).contiguous();
}

// What is computed into: `y` itself, or an array of the compute type that store() rounds.
Array target(const Array& y) {
  const bool own = y.is_contiguous() && (y.dtype() == float32 || y.dtype() == float64);
  return own ? y : Array::empty(y.shape(), y.dtype() == float64 ? float64 : float32, y.device());
}
void store(const Array& from, Array& y, CpuBackend& backend) {
  if (!from.same_as(y)) backend.cast(from, y);
}

Array workspace(const Geometry& g, const Array& like) {
  if (g.pointwise()) return {};
  const std::int64_t n = std::min(g.tile(size_of(like.dtype())), g.positions());
  return Array::empty({g.depth() * n}, like.dtype(), like.device());
}

template <class T>
T* data_or_null(Array& a) {
  return a.defined() ? a.fresh_data<T>() : nullptr;
}

}  // namespace

void CpuBackend::conv2d(const Window2d& window, std::int64_t groups, const Array& x, const Array& w,
                        const Array& bias, Array& y) {
  const CategoryScope scope(Category::workspace);
  const Geometry g(window, groups, x, y);
  const Array in = prepared(x), weight = prepared(w);
  Array start = prepared(bias), out = target(y), buffer = workspace(g, out);
  in_compute_type(y.dtype(), [&]<class T>(T) {
    forward<T>(g, in.data<T>(), weight.data<T>(), data_or_null<T>(start), out.fresh_data<T>(),
               data_or_null<T>(buffer));
  });
  store(out, y, *this);
}

void CpuBackend::conv2d_grad_input(const Window2d& window, std::int64_t groups, const Array& w,
                                   const Array& dy, Array& dx) {
  const CategoryScope scope(Category::workspace);
  const Geometry g(window, groups, dx, dy);
  const Array weight = prepared(w), grad = prepared(dy);
  Array out = target(dx), buffer = workspace(g, out);
  in_compute_type(dx.dtype(), [&]<class T>(T) {
    input_gradient<T>(g, weight.data<T>(), grad.data<T>(), out.fresh_data<T>(),
                      data_or_null<T>(buffer));
  });
  store(out, dx, *this);
}

void CpuBackend::conv2d_grad_weight(const Window2d& window, std::int64_t groups, const Array& x,
                                    const Array& dy, Array& dw) {
  const CategoryScope scope(Category::workspace);
  const Geometry g(window, groups, x, dy);
  const Array in = prepared(x), grad = prepared(dy);
  Array out = target(dw), buffer = workspace(g, out);
  in_compute_type(dw.dtype(), [&]<class T>(T) {
    weight_gradient<T>(g, in.data<T>(), grad.data<T>(), out.fresh_data<T>(),
                       data_or_null<T>(buffer));
  });
  store(out, dw, *this);
}

}  // namespace tandem
