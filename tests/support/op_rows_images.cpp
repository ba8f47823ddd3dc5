// Rows of convolution and pooling (core/ops/conv.h, pool.h). The references are the definitions,
// written out as loops over every element of every window.
#include <algorithm>
#include <limits>

#include "tests/support/op_table.h"

#include <tandem/core/ops/conv.h>
#include <tandem/core/ops/pool.h>

namespace tandem::test {
namespace {

using T = const Tensor&;
using Tensors = std::vector<Tensor>;
using Dimension = std::array<std::int64_t, 2>;  // height, width

const Domain kAll{-2, 2};
const Domain kApart{-2, 2, {}, true};

// Sums of up to 144 products below 4 in float32: their rounding errors add up.
const Tolerance kSums{2e-6, 2e-5};

struct Conv {
  Dimension stride{1, 1}, padding{0, 0}, dilation{1, 1};
  std::int64_t groups = 1;
  bool rectified = false;  // relu of it
};

// (N, C, H, W), (O, C / groups, KH, KW), (O)
Dense convolved(const Dense& x, const Dense& w, const Dense* bias, const Conv& c) {
  Shape shape{x.shape[0], w.shape[0], 0, 0};
  for (int d = 0; d < 2; ++d) {
    const auto i = std::size_t(d);
    const std::int64_t reach = c.dilation[i] * (w.shape[2 + d] - 1) + 1;
    shape[2 + d] = (x.shape[2 + d] + 2 * c.padding[i] - reach) / c.stride[i] + 1;
  }
  const std::int64_t outputs = w.shape[0] / c.groups, channels = w.shape[1];
  return dense(shape, [&](const Index& at) {
    double sum = bias ? bias->values[std::size_t(at[1])] : 0;
    for (std::int64_t k = 0; k < channels; ++k) {
      for (std::int64_t i = 0; i < w.shape[2]; ++i) {
        for (std::int64_t j = 0; j < w.shape[3]; ++j) {
          const std::int64_t row = at[2] * c.stride[0] - c.padding[0] + i * c.dilation[0];
          const std::int64_t column = at[3] * c.stride[1] - c.padding[1] + j * c.dilation[1];
          if (row < 0 || column < 0 || row >= x.shape[2] || column >= x.shape[3]) continue;
          sum +=
              w.at({at[1], k, i, j}) * x.at({at[0], at[1] / outputs * channels + k, row, column});
        }
      }
    }
    return c.rectified ? std::max(sum, 0.0) : sum;
  });
}

OpRow conv_row(std::string name, const Conv& c, std::vector<Shapes> shapes, bool bias = true) {
  OpRow row;
  row.name = std::move(name);
  row.inputs.assign(bias ? 3 : 2, kAll);
  row.shapes = std::move(shapes);
  row.tolerance = kSums;
  row.half_roundings = bias && on_gpu() ? 2 : 1;  // a GPU's library rounds before the bias is added
  const auto pair = [](const Dimension& d) { return Size2d(d[0], d[1]); };
  row.op = [=](const Tensors& x) {
    const auto op = c.rectified ? conv2d_relu : conv2d;
    return Tensors{op(x[0], x[1], bias ? x[2] : Tensor(),
                      {.stride = pair(c.stride),
                       .padding = pair(c.padding),
                       .dilation = pair(c.dilation),
                       .groups = c.groups})};
  };
  row.reference = [=](const std::vector<Dense>& x) {
    Dense images = x[0];
    const bool single = images.shape.dim() == 3;
    if (single) images.shape.insert(0, 1);
    Dense y = convolved(images, x[1], bias ? &x[2] : nullptr, c);
    if (single) y.shape.erase(0);
    return std::vector{y};
  };
  return row;
}

void add_conv_rows(std::vector<OpRow>& rows) {
  rows.push_back(conv_row("conv2d", {},
                          {{{2, 2, 4, 5}, {3, 2, 3, 2}, {3}},
                           {{2, 3, 3, 2}, {4, 3, 1, 1}, {4}},  // 1x1: the image is the columns
                           {{1, 2, 3, 3}, {2, 2, 3, 3}, {2}},  // one window
                           {{3, 1, 2, 2}, {1, 1, 2, 2}, {1}},  // one product
                           {{2, 16, 9, 7}, {8, 16, 3, 3}, {8}}}));
  rows.back().empty = {{{0, 2, 4, 5}, {3, 2, 3, 2}, {3}}};
  rows.push_back(conv_row("conv2d (stride, padding)", {.stride = {2, 1}, .padding = {1, 2}},
                          {{{1, 2, 5, 4}, {3, 2, 3, 2}, {3}}, {{2, 1, 1, 1}, {2, 1, 3, 3}, {2}}}));
  rows.push_back(conv_row("conv2d (wide stride)", {.stride = {3, 3}, .padding = {1, 1}},
                          {{{2, 1, 5, 7}, {2, 1, 2, 2}, {2}}}));
  rows.push_back(conv_row("conv2d (dilation)", {.padding = {2, 0}, .dilation = {2, 3}},
                          {{{1, 2, 4, 5}, {2, 2, 3, 2}, {2}}, {{1, 1, 5, 7}, {1, 1, 2, 3}, {1}}}));
  rows.push_back(conv_row("conv2d (groups)",
                          {.stride = {1, 2}, .padding = {1, 1}, .dilation = {1, 2}, .groups = 2},
                          {{{2, 4, 3, 4}, {2, 2, 2, 2}, {2}}, {{2, 2, 4, 4}, {6, 1, 3, 2}, {6}}}));
  rows.push_back(conv_row("conv2d (depthwise)", {.padding = {1, 1}, .groups = 3},
                          {{{1, 3, 4, 4}, {3, 1, 3, 3}, {3}}}));
  rows.push_back(conv_row("conv2d (one image, no bias)", {.padding = {1, 0}},
                          {{{2, 4, 5}, {3, 2, 2, 3}}}, false));
  rows.push_back(conv_row("conv2d_relu", {.padding = {1, 1}, .rectified = true},
                          {{{2, 2, 4, 3}, {3, 2, 3, 3}, {3}},
                           {{3, 4, 2, 2}, {5, 4, 1, 1}, {5}},
                           {{4, 3, 3}, {2, 4, 3, 3}, {2}}}));
  rows.push_back(conv_row("conv2d_relu (no bias)", {.rectified = true},
                          {{{2, 2, 4, 3}, {3, 2, 3, 3}}}, false));
}

struct Pool {
  Dimension kernel, stride, padding{0, 0}, dilation{1, 1};
  bool ceil = false;
  bool count_padding = true;
  std::int64_t divisor = 0;
};

std::int64_t pooled_size(std::int64_t size, const Pool& p, std::size_t d) {
  const std::int64_t room = size + 2 * p.padding[d] - p.dilation[d] * (p.kernel[d] - 1) - 1;
  std::int64_t n = room / p.stride[d] + 1;
  if (p.ceil && room % p.stride[d] != 0 && n * p.stride[d] < size + p.padding[d]) ++n;
  return n;
}

// f(the values of a window inside of the image, how many elements the window has with padding)
Dense pooled(const Dense& x, const Pool& p,
             const std::function<double(const std::vector<double>&, double)>& f) {
  const int first = x.shape.dim() - 2;
  Shape shape = x.shape;
  for (int d = 0; d < 2; ++d) {
    shape[first + d] = pooled_size(x.shape[first + d], p, std::size_t(d));
  }
  return dense(shape, [&](const Index& at) {
    std::vector<double> values;
    double covered = 0;
    for (std::int64_t i = 0; i < p.kernel[0]; ++i) {
      for (std::int64_t j = 0; j < p.kernel[1]; ++j) {
        Index from = at;
        bool inside = true, in_padding = true;
        for (int d = 0; d < 2; ++d) {
          const auto e = std::size_t(d);
          std::int64_t& k = from[std::size_t(first + d)];
          k = k * p.stride[e] - p.padding[e] + (d == 0 ? i : j) * p.dilation[e];
          inside = inside && k >= 0 && k < x.shape[first + d];
          in_padding = in_padding && k < x.shape[first + d] + p.padding[e];
        }
        if (inside) values.push_back(x.at(from));
        covered += in_padding;
      }
    }
    return f(values, covered);
  });
}

void add_max_row(std::vector<OpRow>& rows, std::string name, const Pool& p, Size2d kernel,
                 const MaxPool2dOptions& options, std::vector<Shape> shapes,
                 std::vector<Shape> empty = {}) {
  rows.push_back(from_one(
      std::move(name), kApart, std::move(shapes),
      [=](T x) { return std::vector{max_pool2d(x, kernel, options)}; },
      [=](const Dense& x) {
        return std::vector{pooled(x, p, [](const std::vector<double>& v, double) {
          return *std::max_element(v.begin(), v.end());
        })};
      },
      std::move(empty)));
}

void add_average_row(std::vector<OpRow>& rows, std::string name, const Pool& p, Size2d kernel,
                     const AvgPool2dOptions& options, std::vector<Shape> shapes,
                     std::vector<Shape> empty = {}) {
  rows.push_back(from_one(
      std::move(name), kAll, std::move(shapes),
      [=](T x) { return std::vector{avg_pool2d(x, kernel, options)}; },
      [=](const Dense& x) {
        return std::vector{pooled(x, p, [&](const std::vector<double>& v, double covered) {
          double sum = 0;
          for (double e : v) sum += e;
          if (p.divisor != 0) return sum / double(p.divisor);
          return sum / (p.count_padding ? covered : double(v.size()));
        })};
      },
      std::move(empty)));
}

void add_pool_rows(std::vector<OpRow>& rows) {
  add_max_row(rows, "max_pool2d", {.kernel = {2, 2}, .stride = {2, 2}}, 2, {},
              {{2, 3, 4, 5}, {1, 1, 2, 2}, {3, 4, 5}, {2, 3, 33, 40}},
              {{0, 3, 4, 5}, {2, 0, 4, 4}});
  add_max_row(rows, "max_pool2d (overlapping, padding)",
              {.kernel = {3, 2}, .stride = {2, 1}, .padding = {1, 1}}, {3, 2},
              {.stride = Size2d(2, 1), .padding = 1}, {{2, 2, 5, 4}, {1, 1, 1, 1}});
  add_max_row(
      rows, "max_pool2d (dilation, ceil)",
      {.kernel = {2, 3}, .stride = {2, 2}, .padding = {0, 1}, .dilation = {2, 1}, .ceil = true},
      {2, 3}, {.stride = 2, .padding = {0, 1}, .dilation = {2, 1}, .ceil_mode = true},
      {{1, 2, 6, 6}, {2, 1, 5, 7}});
  add_average_row(rows, "avg_pool2d", {.kernel = {2, 3}, .stride = {2, 3}}, {2, 3}, {},
                  {{2, 3, 4, 6}, {3, 4, 5}, {1, 2, 40, 39}}, {{0, 3, 4, 5}});
  add_average_row(rows, "avg_pool2d (padding, ceil)",
                  {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}, .ceil = true}, 3,
                  {.stride = 2, .padding = 1, .ceil_mode = true}, {{1, 2, 6, 6}, {2, 1, 5, 8}});
  add_average_row(
      rows, "avg_pool2d (padding does not count)",
      {.kernel = {3, 2}, .stride = {1, 2}, .padding = {1, 1}, .ceil = true, .count_padding = false},
      {3, 2}, {.stride = Size2d(1, 2), .padding = 1, .ceil_mode = true, .count_include_pad = false},
      {{1, 2, 4, 5}, {2, 1, 3, 4}});
  add_average_row(rows, "avg_pool2d (divisor)",
                  {.kernel = {2, 2}, .stride = {1, 1}, .padding = {1, 0}, .divisor = 3}, 2,
                  {.stride = 1, .padding = {1, 0}, .divisor_override = 3}, {{2, 2, 4, 5}});
}

// Windows [floor(o I / O), ceil((o + 1) I / O)).
Dense adapted(const Dense& x, const Dimension& size) {
  const int first = x.shape.dim() - 2;
  Shape shape = x.shape;
  shape[first] = size[0], shape[first + 1] = size[1];
  return dense(shape, [&](const Index& at) {
    std::array<std::int64_t, 2> start, stop;
    for (std::size_t d = 0; d < 2; ++d) {
      const std::int64_t in = x.shape[first + int(d)], o = at[std::size_t(first) + d];
      start[d] = o * in / size[d];
      stop[d] = ((o + 1) * in + size[d] - 1) / size[d];
    }
    double sum = 0;
    Index from = at;
    for (std::int64_t h = start[0]; h < stop[0]; ++h) {
      for (std::int64_t w = start[1]; w < stop[1]; ++w) {
        from[std::size_t(first)] = h, from[std::size_t(first) + 1] = w;
        sum += x.at(from);
      }
    }
    return sum / double((stop[0] - start[0]) * (stop[1] - start[1]));
  });
}

void add_adaptive_row(std::vector<OpRow>& rows, const char* name, const Dimension& size,
                      std::vector<Shape> shapes, std::vector<Shape> empty = {}) {
  rows.push_back(from_one(
      name, kAll, std::move(shapes),
      [size](T x) {
        return std::vector{adaptive_avg_pool2d(x, {size[0], size[1]})};
      },
      [size](const Dense& x) { return std::vector{adapted(x, size)}; }, std::move(empty)));
}

}  // namespace

void add_image_rows(std::vector<OpRow>& rows) {
  add_conv_rows(rows);
  add_pool_rows(rows);
  add_adaptive_row(rows, "adaptive_avg_pool2d", {1, 1}, {{2, 3, 4, 5}, {3, 1, 1}, {1, 2, 33, 40}},
                   {{0, 3, 4, 5}});
  add_adaptive_row(rows, "adaptive_avg_pool2d (overlapping)", {3, 2},
                   {{2, 1, 7, 5}, {1, 2, 3, 2}, {1, 1, 2, 1}, {2, 2, 5, 3}});
}

}  // namespace tandem::test
