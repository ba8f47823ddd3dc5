// Convolution, unless Winograd's method (winograd.cpp) or oneDNN takes it, as matrix products: the
// inputs of every output position become a column.
//
// For one sample and group, with K = C KH KW and P Q output positions,
//   y (O, P Q) = w (O, K) columns (K, P Q),   dw += dy columns^T,   columns' = w^T dy,
// where columns' are added back to where the columns came from. The columns are made a tile of
// positions at a time, so that they stay in the cache and workspace is bounded: one tile, and one
// image with its padding around it. Samples are computed one by one: their bits do not depend on
// the batch. Images that are not row-major, or of 16-bit floats, are packed one by one on the way
// in and unpacked on the way out. Products: gemm.cpp.
#include <algorithm>
#include <vector>

#include <tandem/core/cpu/backend.h>
#include <tandem/core/cpu/conv_shared.h>
#include <tandem/core/cpu/gemm.h>
#include <tandem/core/cpu/team.h>
#include <tandem/core/cpu/winograd.h>
#include <tandem/core/memory.h>

namespace tandem {
namespace {

constexpr std::int64_t kTileBytes = std::int64_t(1) << 20;  // of columns
constexpr std::int64_t kFewest = 32;                        // positions in a tile

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
  std::int64_t padded_height() const { return height + 2 * window.padding.h; }
  std::int64_t padded_width() const { return width + 2 * window.padding.w; }
  // Of an image with its padding; 0: there is none.
  std::int64_t padded_size() const {
    return window.padding == Size2d(0) ? 0 : channels * padded_height() * padded_width();
  }
  std::int64_t positions() const { return rows * columns; }
  std::int64_t output_size() const { return outputs * positions(); }
  std::int64_t depth() const { return channels * window.kernel.h * window.kernel.w; }
  // Are the columns the image itself?
  bool pointwise() const {
    return window.kernel == Size2d(1) && window.stride == Size2d(1) && padded_size() == 0;
  }
  // Positions at a time; whole rows where they are short: fewer pieces to copy.
  std::int64_t tile(std::size_t element) const {
    if (pointwise()) return positions();
    const std::int64_t bytes = std::max<std::int64_t>(1, depth() * std::int64_t(element));
    const std::int64_t fit = std::max(kFewest, kTileBytes / bytes);
    return std::min(positions(), fit < columns ? fit : fit / columns * columns);
  }
};

// A tile of output positions of one image, and room for its columns.
template <class T>
struct Tile {
  std::int64_t begin, count;
  T* columns;
};

// f(column data, image data, n) for each run of n positions in one row of y, for every row (c, i,
// j) of the columns: their element t belongs to image[t stride.w]. The image has its padding.
template <class T, class Image, class F>
void for_each_run(const Geometry& g, const Tile<T>& tile, Image* image, F f) {
  const Window2d& win = g.window;
  const std::int64_t width = g.padded_width(), step = win.stride.h * width;
  const std::int64_t row = tile.begin / g.columns, column = tile.begin % g.columns;
  T* out = tile.columns;
  for (std::int64_t c = 0; c < g.channels; ++c) {
    for (std::int64_t i = 0; i < win.kernel.h; ++i) {
      for (std::int64_t j = 0; j < win.kernel.w; ++j) {
        Image* line = image + (c * g.padded_height() + i * win.dilation.h) * width +
                      j * win.dilation.w + row * step;
        std::int64_t q = column;
        for (std::int64_t left = tile.count; left > 0; line += step, q = 0) {
          const std::int64_t n = std::min(left, g.columns - q);
          f(out, line + q * win.stride.w, n);
          out += n;
          left -= n;
        }
      }
    }
  }
}

// The columns of a tile, (K, count): copied, or the image as it lies.
template <class T>
host::Matrix<T> gather_columns(const Geometry& g, const Tile<T>& tile, const T* image) {
  if (g.pointwise()) return {image + tile.begin, g.channels, tile.count, g.positions()};
  const std::int64_t stride = g.window.stride.w;
  for_each_run(g, tile, image, [stride](T* out, const T* from, std::int64_t n) {
    if (stride == 1) {
#pragma GCC ivdep
      for (std::int64_t t = 0; t < n; ++t) out[t] = from[t];
    } else {
      for (std::int64_t t = 0; t < n; ++t) out[t] = from[t * stride];
    }
  });
  return {tile.columns, g.depth(), tile.count, tile.count};
}

// The reverse: adds the columns of a tile to where they came from.
template <class T>
void scatter_columns(const Geometry& g, const Tile<T>& tile, T* image) {
  const std::int64_t stride = g.window.stride.w;
  for_each_run(g, tile, image, [stride](const T* in, T* to, std::int64_t n) {
    if (stride == 1) {
#pragma GCC ivdep
      for (std::int64_t t = 0; t < n; ++t) to[t] += in[t];
    } else {
      for (std::int64_t t = 0; t < n; ++t) to[t * stride] += in[t];
    }
  });
}

// f(row of an image, the same row in the image with padding) for all rows of all channels.
template <class T, class Padded, class F>
void for_each_row(const Geometry& g, T* image, Padded* padded, F f) {
  for (std::int64_t c = 0; c < g.channels; ++c) {
    Padded* line = padded + g.window.padding.h * g.padded_width() + g.window.padding.w;
    for (std::int64_t h = 0; h < g.height; ++h, image += g.width, line += g.padded_width()) {
      f(image, line);
    }
    padded += g.padded_height() * g.padded_width();
  }
}

// Memory that a call works in. Padding is 0, and stays so: images are written inside of it.
template <class T>
struct Workspace {
  Array columns, image;

  Workspace(const Geometry& g, Device device) {
    if (!g.pointwise()) columns = make(g.depth() * g.tile(sizeof(T)), device);
    if (g.padded_size() == 0) return;
    image = make(g.padded_size(), device);
    std::fill_n(padded(), g.padded_size(), T(0));
  }
  T* padded() { return image.fresh_data<T>(); }

  // f(tile) for all tiles of one image.
  template <class F>
  void for_each_tile(const Geometry& g, F f) {
    T* room = columns.defined() ? columns.fresh_data<T>() : nullptr;
    const std::int64_t most = g.tile(sizeof(T));
    for (std::int64_t begin = 0; begin < g.positions(); begin += most) {
      f(Tile<T>{begin, std::min(most, g.positions() - begin), room});
    }
  }

 private:
  static Array make(std::int64_t n, Device device) {
    return Array::empty({n}, dtype_of<T>, device);
  }
};

// The image with its padding: itself, if it has none.
template <class T>
const T* with_padding(const Geometry& g, const T* image, Workspace<T>& space) {
  if (g.padded_size() == 0) return image;
  for_each_row(g, image, space.padded(),
               [&](const T* row, T* line) { std::copy_n(row, g.width, line); });
  return space.padded();
}

template <class T>
host::Matrix<T> weights_of(const Geometry& g, const T* w, std::int64_t image) {
  return {w + image % g.groups * g.outputs * g.depth(), g.outputs, g.depth(), g.depth()};
}

// The images of an array, one after the other, as the loops above need them: row-major, and of the
// type that is computed in. They are used where they lie if they lie so.
template <class T>
class Images {
 public:
  Images(const Array& a, std::int64_t groups, CpuBackend& backend)
      : array_(a), groups_(groups), channels_(a.size(1) / groups), backend_(backend) {
    if (a.dtype() == dtype_of<T> && a.is_contiguous()) return;
    place_ = Array::empty({1, channels_, a.size(2), a.size(3)}, dtype_of<T>, a.device());
  }

  const T* read(std::int64_t image) {
    if (!place_.defined()) return array_.data<T>() + image * size();
    transfer(part(image), place_);
    return place_.data<T>();
  }
  // Room for the image, which store() then puts where it belongs.
  T* write(std::int64_t image) {
    return place_.defined() ? place_.fresh_data<T>() : array_.fresh_data<T>() + image * size();
  }
  void store(std::int64_t image) {
    if (!place_.defined()) return;
    Array to = part(image);
    transfer(place_, to);
  }

 private:
  std::int64_t size() const { return channels_ * array_.size(2) * array_.size(3); }
  Array part(std::int64_t image) const {
    return array_.narrow(0, image / groups_, 1).narrow(1, image % groups_ * channels_, channels_);
  }
  void transfer(const Array& from, Array& to) {
    from.dtype() == to.dtype() ? backend_.copy(from, to) : backend_.cast(from, to);
  }

  Array array_;
  std::int64_t groups_, channels_;
  CpuBackend& backend_;
  Array place_;  // undefined: not needed
};

// f(begin, end) for parts of the images, which do not depend on each other.
template <class F>
void for_some_images(const Geometry& g, Device device, F f) {
  const double products = double(g.images) * double(g.output_size()) * double(g.depth());
  host::for_each_range(device, g.images, 0.04 * products, f);
}

template <class T>
void forward(const Geometry& g, const Array& x, const T* w, const T* bias, const Array& y,
             CpuBackend& backend) {
  for_some_images(g, backend.device(), [&](std::int64_t i, std::int64_t end) {
    Workspace<T> space(g, backend.device());
    Images<T> images(x, g.groups, backend), results(y, g.groups, backend);
    for (; i < end; ++i) {
      T* out = results.write(i);
      for (std::int64_t o = 0; o < g.outputs; ++o) {
        const T start = bias ? bias[i % g.groups * g.outputs + o] : T(0);
        std::fill_n(out + o * g.positions(), g.positions(), start);
      }
      const T* image = with_padding(g, images.read(i), space);
      space.for_each_tile(g, [&](const Tile<T>& tile) {
        host::add_product(weights_of(g, w, i), gather_columns(g, tile, image), out + tile.begin,
                          g.positions());
      });
      results.store(i);
    }
  });
}

// The positions of a tile in the gradient of an output.
template <class T>
host::Matrix<T> part_of(const Geometry& g, const T* dy, const Tile<T>& tile) {
  return {dy + tile.begin, g.outputs, tile.count, g.positions()};
}

template <class T>
void input_gradient(const Geometry& g, const T* w, const Array& dy, const Array& dx,
                    CpuBackend& backend) {
  for_some_images(g, backend.device(), [&](std::int64_t i, std::int64_t end) {
    Workspace<T> space(g, backend.device());
    Images<T> grads(dy, g.groups, backend), results(dx, g.groups, backend);
    for (; i < end; ++i) {
      const bool padded = g.padded_size() > 0;
      const T* grad = grads.read(i);
      T* out = results.write(i);
      T* image = padded ? space.padded() : out;
      std::fill_n(image, padded ? g.padded_size() : g.image_size(), T(0));
      host::Matrix<T> weights = weights_of(g, w, i);
      weights.transposed = true;
      space.for_each_tile(g, [&](const Tile<T>& tile) {
        const host::Matrix<T> part = part_of(g, grad, tile);
        if (g.pointwise()) {
          return host::add_product(weights, part, out + tile.begin, g.positions());
        }
        std::fill_n(tile.columns, g.depth() * tile.count, T(0));
        host::add_product(weights, part, tile.columns, tile.count);
        scatter_columns(g, tile, image);
      });
      if (padded) {
        for_each_row(g, out, image,
                     [&](T* row, const T* line) { std::copy_n(line, g.width, row); });
      }
      results.store(i);
    }
  });
}

// Of images [i, end).
template <class T>
void weight_gradient(const Geometry& g, const Array& x, const Array& dy, std::int64_t i,
                     std::int64_t end, T* dw, CpuBackend& backend) {
  Workspace<T> space(g, backend.device());
  Images<T> images(x, g.groups, backend), grads(dy, g.groups, backend);
  const std::int64_t weights = g.outputs * g.depth();
  std::fill_n(dw, g.groups * weights, T(0));
  for (; i < end; ++i) {
    const T* image = with_padding(g, images.read(i), space);
    const T* grad = grads.read(i);
    space.for_each_tile(g, [&](const Tile<T>& tile) {
      host::Matrix<T> columns = gather_columns(g, tile, image);
      columns.transposed = true;
      host::add_product(part_of(g, grad, tile), columns, dw + i % g.groups * weights, g.depth());
    });
  }
}

// dw is row-major.
template <class T>
void weight_gradient(const Geometry& g, const Array& x, const Array& dy, Array& dw,
                     CpuBackend& backend) {
  const std::int64_t samples = dy.size(0),
                     parts = host::weight_parts(dw.shape(), dy.shape(), dw.dtype());
  std::vector<Array> sums(std::size_t(parts), dw);
  for (std::size_t p = 1; p < sums.size(); ++p) {
    sums[p] = Array::empty(dw.shape(), dw.dtype(), dw.device());
  }
  host::for_each_part(backend.device(), int(parts), [&](int p) {
    weight_gradient(g, x, dy, samples * p / parts * g.groups, samples * (p + 1) / parts * g.groups,
                    sums[std::size_t(p)].template fresh_data<T>(), backend);
  });
  for (std::size_t p = 1; p < sums.size(); ++p) backend.zip(zip_op<Add>, dw, sums[p], dw);
}

// Calls f with T = float or double; 16-bit floats are computed in float32 and rounded once.
template <class F>
void in_compute_type(DType dtype, F f) {
  dtype == float64 ? f(double()) : f(float());
}

DType compute_type(const Array& a) {
  return a.dtype() == float64 ? float64 : float32;
}

// Weights or biases as the loops need them: row-major, in the type that is computed in.
Array prepared(const Array& a, CpuBackend& backend) {
  if (!a.defined() || (a.dtype() == compute_type(a) && a.is_contiguous())) return a;
  Array packed = Array::empty(a.shape(), compute_type(a), a.device());
  backend.cast(a, packed);
  return packed;
}

}  // namespace

void CpuBackend::conv2d(const Window2d& window, std::int64_t groups, const Array& x, const Array& w,
                        const Array& bias, Array& y) {
  if (host::winograd_takes(window, groups, w, y.shape())) {
    return host::winograd(window, x, w, bias, y, *this);
  }
  if (onednn_.conv2d(window, groups, x, w, bias, y)) return;
  const CategoryScope scope(Category::workspace);
  const Geometry g(window, groups, x, y);
  const Array weight = prepared(w, *this), start = prepared(bias, *this);
  in_compute_type(y.dtype(), [&]<class T>(T) {
    forward<T>(g, x, weight.data<T>(), start.defined() ? start.data<T>() : nullptr, y, *this);
  });
}

void CpuBackend::conv2d_grad_input(const Window2d& window, std::int64_t groups, const Array& w,
                                   const Array& dy, Array& dx) {
  if (host::winograd_takes(window, groups, w, dy.shape())) {
    return host::winograd_grad_input(window, w, dy, dx, *this);
  }
  if (onednn_.conv2d_grad_input(window, groups, w, dy, dx)) return;
  const CategoryScope scope(Category::workspace);
  const Geometry g(window, groups, dx, dy);
  const Array weight = prepared(w, *this);
  in_compute_type(dx.dtype(),
                  [&]<class T>(T) { input_gradient<T>(g, weight.data<T>(), dy, dx, *this); });
}

void CpuBackend::conv2d_grad_weight(const Window2d& window, std::int64_t groups, const Array& x,
                                    const Array& dy, Array& dw) {
  if (host::winograd_takes(window, groups, dw, dy.shape())) {
    return host::winograd_grad_weight(window, x, dy, dw);
  }
  if (onednn_.conv2d_grad_weight(window, groups, x, dy, dw)) return;
  const CategoryScope scope(Category::workspace);
  const Geometry g(window, groups, x, dy);
  const bool own = dw.is_contiguous() && dw.dtype() == compute_type(dw);
  Array sum = own ? dw : Array::empty(dw.shape(), compute_type(dw), device());
  in_compute_type(dw.dtype(), [&]<class T>(T) { weight_gradient<T>(g, x, dy, sum, *this); });
  if (!own) cast(sum, dw);
}

}  // namespace tandem
