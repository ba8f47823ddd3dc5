// cuDNN: pooling and its gradient.
#include "dnn/context.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace cudasim;
using namespace cudasim::dnn;

namespace {

using Numbers = std::vector<double>;

struct Pooling {
  cudnnPoolingStruct descriptor;
  std::int64_t planes;  // samples times channels
  std::int64_t in[2], out[2];

  bool takes_maximum() const {
    return descriptor.mode == CUDNN_POOLING_MAX ||
           descriptor.mode == CUDNN_POOLING_MAX_DETERMINISTIC;
  }
};

// The part of a window that lies in the input.
struct Window {
  std::int64_t plane, top, bottom, left, right;  // half-open

  std::int64_t count() const { return (bottom - top) * (right - left); }
};

// Calls visit(index of y, window) for every output.
template <class Visit>
void for_each_window(const Pooling& p, Visit&& visit) {
  const auto range = [&](int d, std::int64_t at, std::int64_t& begin, std::int64_t& end) {
    const std::int64_t first = at * p.descriptor.stride[d] - p.descriptor.pad[d];
    begin = std::max<std::int64_t>(first, 0);
    end = std::min(first + p.descriptor.window[d], p.in[d]);
  };
  std::size_t y = 0;
  for (std::int64_t plane = 0; plane < p.planes; ++plane)
    for (std::int64_t row = 0; row < p.out[0]; ++row)
      for (std::int64_t column = 0; column < p.out[1]; ++column) {
        Window w{plane, 0, 0, 0, 0};
        range(0, row, w.top, w.bottom);
        range(1, column, w.left, w.right);
        visit(y++, w);
      }
}

template <class Visit>
void for_each_element(const Pooling& p, const Window& w, Visit&& visit) {
  for (std::int64_t row = w.top; row < w.bottom; ++row)
    for (std::int64_t column = w.left; column < w.right; ++column)
      visit(static_cast<std::size_t>((w.plane * p.in[0] + row) * p.in[1] + column));
}

// The first maximum, row by row. A NaN wins where it is to be propagated, else it is passed over.
std::size_t find_maximum(const Pooling& p, const Window& w, const Numbers& x) {
  std::size_t best = (w.plane * p.in[0] + w.top) * p.in[1] + w.left;
  for_each_element(p, w, [&](std::size_t i) {
    const bool best_is_nan = std::isnan(x[best]), is_nan = std::isnan(x[i]);
    if (p.descriptor.nan == CUDNN_PROPAGATE_NAN ? !best_is_nan && (is_nan || x[i] > x[best])
                                                : !is_nan && (best_is_nan || x[i] > x[best]))
      best = i;
  });
  return best;
}

double divisor(const Pooling& p, const Window& w) {
  if (p.descriptor.mode == CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING)
    return static_cast<double>(w.count());
  return static_cast<double>(p.descriptor.window[0]) * p.descriptor.window[1];
}

Numbers pool(const Pooling& p, const Numbers& x) {
  Numbers y(p.planes * p.out[0] * p.out[1], 0.0);
  for_each_window(p, [&](std::size_t at, const Window& w) {
    if (p.takes_maximum()) {
      y[at] = x[find_maximum(p, w, x)];
    } else {
      for_each_element(p, w, [&](std::size_t i) { y[at] += x[i]; });
      y[at] /= divisor(p, w);
    }
  });
  return y;
}

Numbers pool_to_input(const Pooling& p, const Numbers& x, const Numbers& dy) {
  Numbers dx(x.size(), 0.0);
  for_each_window(p, [&](std::size_t at, const Window& w) {
    if (p.takes_maximum())
      dx[find_maximum(p, w, x)] += dy[at];
    else
      for_each_element(p, w, [&](std::size_t i) { dx[i] += dy[at] / divisor(p, w); });
  });
  return dx;
}

cudnnStatus_t refuse(const cudnnPoolingStruct& d, const cudnnTensorStruct& x,
                     const cudnnTensorStruct& y) {
  if (!d.is_set() || !x.is_set() || !y.is_set()) return bad("a descriptor that was never set");
  if (x.rank != 4 || y.rank != 4) return unsupported("cudasim: not four dimensions");
  if (x.dims[0] != y.dims[0] || x.dims[1] != y.dims[1]) return bad("x and y differ in N or C");
  if (x.type != y.type) return bad("x and y differ in type");
  Real type;
  if (!real_of(x.type, type)) return unsupported("not a floating-point type");
  for (int i : {0, 1}) {
    if (d.pad[i] < 0 || d.pad[i] >= d.window[i])
      return unsupported("padding that is negative, or hides a whole window");
    if (y.dims[2 + i] != output_extent(x.dims[2 + i], d.pad[i], d.window[i], d.stride[i], 1))
      return bad("y's height or width is not the pooling's");
  }
  return CUDNN_STATUS_SUCCESS;
}

Pooling pooling_of(const cudnnPoolingStruct& d, const cudnnTensorStruct& x,
                   const cudnnTensorStruct& y) {
  return {d, std::int64_t{x.dims[0]} * x.dims[1], {x.dims[2], x.dims[3]}, {y.dims[2], y.dims[3]}};
}

bool same_layout(const cudnnTensorStruct& a, const cudnnTensorStruct& b) {
  return a.rank == b.rank && a.dims == b.dims && a.strides == b.strides;
}

// What cudnnPoolingBackward may rely on: a maximum y that is not the pooling of x gives no
// gradient.
std::string compare(const Pooling& p, const Numbers& x, const Numbers& y) {
  if (!p.takes_maximum()) return "";
  const Numbers expected = pool(p, x);
  for (std::size_t i = 0; i < y.size(); ++i)
    if (y[i] != expected[i] && !(std::isnan(y[i]) && std::isnan(expected[i])))
      return "y is not the pooling of x";
  return "";
}

}  // namespace

extern "C" {

cudnnStatus_t CUDNNWINAPI cudnnPoolingForward(cudnnHandle_t handle,
                                              const cudnnPoolingDescriptor_t descriptor,
                                              const void* alpha,
                                              const cudnnTensorDescriptor_t x_descriptor,
                                              const void* x, const void* beta,
                                              const cudnnTensorDescriptor_t y_descriptor, void* y) {
  const char* function = __func__;
  return call(function, handle, [&](State& s, Lock& lock) {
    if (!is_live(s, descriptor, function) || !is_live(s, x_descriptor, function) ||
        !is_live(s, y_descriptor, function))
      return bad("no descriptor");
    if (cudnnStatus_t status = refuse(*descriptor, *x_descriptor, *y_descriptor)) return status;
    if (!all_given(alpha, beta, x, y)) return bad("a null pointer");
    CUstream_st* stream = stream_of(s, handle, function);
    if (!stream) return CUDNN_STATUS_EXECUTION_FAILED;
    const Pooling p = pooling_of(*descriptor, *x_descriptor, *y_descriptor);
    const double a = factor(alpha, x_descriptor->type), b = factor(beta, x_descriptor->type);
    enqueue_library(
        s, lock, *stream,
        {.function = function,
         .operands = {operand("y", *y_descriptor, y, b != 0 ? Access::update : Access::write),
                      operand("x", *x_descriptor, x, Access::read)},
         .compute = [=](const std::vector<Operand>& o) {
           write_scaled(o[0], pool(p, read_all(o[1])), a, b);
           return "";
         }});
    return CUDNN_STATUS_SUCCESS;
  });
}

cudnnStatus_t CUDNNWINAPI
cudnnPoolingBackward(cudnnHandle_t handle, const cudnnPoolingDescriptor_t descriptor,
                     const void* alpha, const cudnnTensorDescriptor_t y_descriptor, const void* y,
                     const cudnnTensorDescriptor_t dy_descriptor, const void* dy,
                     const cudnnTensorDescriptor_t x_descriptor, const void* x, const void* beta,
                     const cudnnTensorDescriptor_t dx_descriptor, void* dx) {
  const char* function = __func__;
  return call(function, handle, [&](State& s, Lock& lock) {
    if (!is_live(s, descriptor, function) || !is_live(s, y_descriptor, function) ||
        !is_live(s, dy_descriptor, function) || !is_live(s, x_descriptor, function) ||
        !is_live(s, dx_descriptor, function))
      return bad("no descriptor");
    if (cudnnStatus_t status = refuse(*descriptor, *x_descriptor, *y_descriptor)) return status;
    if (!same_layout(*y_descriptor, *dy_descriptor) || !same_layout(*x_descriptor, *dx_descriptor))
      return bad("a gradient differs from its tensor in dimensions or strides");
    if (dy_descriptor->type != y_descriptor->type || dx_descriptor->type != x_descriptor->type)
      return bad("a gradient differs from its tensor in type");
    if (!all_given(alpha, beta, y, dy, x, dx)) return bad("a null pointer");
    CUstream_st* stream = stream_of(s, handle, function);
    if (!stream) return CUDNN_STATUS_EXECUTION_FAILED;
    if (descriptor->mode == CUDNN_POOLING_MAX)
      violation(s, std::string(function) + ": CUDNN_POOLING_MAX is not deterministic");
    const Pooling p = pooling_of(*descriptor, *x_descriptor, *y_descriptor);
    const double a = factor(alpha, x_descriptor->type), b = factor(beta, x_descriptor->type);
    enqueue_library(
        s, lock, *stream,
        {.function = function,
         .operands = {operand("dx", *dx_descriptor, dx, b != 0 ? Access::update : Access::write),
                      operand("x", *x_descriptor, x, Access::read),
                      operand("dy", *dy_descriptor, dy, Access::read),
                      operand("y", *y_descriptor, y, Access::read)},
         .compute = [=](const std::vector<Operand>& o) {
           const Numbers input = read_all(o[1]);
           write_scaled(o[0], pool_to_input(p, input, read_all(o[2])), a, b);
           return compare(p, input, read_all(o[3]));
         }});
    return CUDNN_STATUS_SUCCESS;
  });
}

}  // extern "C"
