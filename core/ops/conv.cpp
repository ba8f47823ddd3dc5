#include <tandem/core/ops/conv.h>

#include <array>

#include <tandem/core/array_ops.h>
#include <tandem/core/autocast.h>
#include <tandem/core/backend.h>
#include <tandem/core/ops/operands.h>
#include <tandem/core/ops/window_checks.h>
#include <tandem/core/trace.h>

namespace tandem {
namespace {

void check_operands(const Array& x, const Array& w, const Array& bias, std::int64_t groups) {
  check(x.dim() == 3 || x.dim() == 4, "[conv2d] x is (N, C, H, W) or (C, H, W): got ", x.shape());
  check(w.dim() == 4, "[conv2d] the weight is (out, in / groups, height, width): got ", w.shape());
  check_same_device("conv2d", {&x, &w, &bias});
  check(is_floating(x.dtype()), "[conv2d] needs a floating type: ", x.dtype(),
        ". Convert it first with to(float32)");
  const std::int64_t channels = x.size(x.dim() - 3);
  check(channels == w.size(1) * groups, "[conv2d] x ", x.shape(), " has ", channels,
        " channels, the weight (out, in / groups, height, width) = ", w.shape(), " with groups ",
        groups, " expects ", w.size(1) * groups);
  check(w.size(0) > 0 && w.size(0) % groups == 0, "[conv2d] ", w.size(0),
        " output channels do not divide into ", groups, " groups");
  check(!bias.defined() || bias.shape() == Shape{w.size(0)}, "[conv2d] the bias is ",
        bias.defined() ? bias.shape() : Shape(), ", the weight has ", w.size(0),
        " output channels");
}

/// The shape of y; REQUIRES: operands and options are checked.
Shape result_shape(const Array& x, const Array& w, const Window2d& win) {
  check(win.kernel.h > 0 && win.kernel.w > 0, "[conv2d] the kernel is empty: weight ", w.shape());
  check_window_sizes("conv2d", win);
  const Size2d count = fitting_windows("conv2d", x.shape(), win);
  constexpr double kMost = 0x1p59;  // elements whose bytes can still be counted
  const double padded = double(x.size(1)) * double(x.size(2) + 2 * win.padding.h) *
                        double(x.size(3) + 2 * win.padding.w);
  check(padded < kMost, "[conv2d] an image of ", x.shape(), " with padding ", win.padding,
        " is too large");
  return {x.size(0), w.size(0), count.h, count.w};
}

/// Forward and each of the two gradients: every element of y takes one product with each weight of
/// its output channel.
void count_products(const Array& y, const Shape& weight) {
  trace::count_flops(2 * y.numel() * weight[1] * weight[2] * weight[3]);
}

/// How y lies: channels-last if x or the weight does, else as the backend prefers; a single image
/// as it came.
MemoryFormat result_format(const Array& x, const Array& w, bool single) {
  if (single) return format_of(x);
  const bool last =
      format_of(x) == MemoryFormat::channels_last || format_of(w) == MemoryFormat::channels_last;
  return last ? MemoryFormat::channels_last : backend(x.device()).conv_format();
}

/// `x` as the convolution reads it, forward and for the gradient of the weight: a backend that
/// works channels-last would copy a row-major x each time, so where both will come it is copied
/// here, once.
Array as_read(const Array& x, MemoryFormat result, const Tensor& weight) {
  const bool last = result == MemoryFormat::channels_last &&
                    backend(x.device()).conv_format() == MemoryFormat::channels_last;
  return last && tracked(weight) ? x.to(MemoryFormat::channels_last) : x;
}

/// The gradient of a y in `format`, for the kernels: one whose elements are repeated, as that of a
/// sum is, has no layout of its own and gets y's.
Array dense_gradient(const Array& dy, MemoryFormat format) {
  return expanded(dy) ? dy.to(format) : dense_image(dy);
}

Array input_gradient(const Window2d& win, std::int64_t groups, const ImageLike& x, const Array& w,
                     const Array& dy) {
  Array dx = x.gradient(dy);
  count_products(dy, w.shape());
  backend(dy.device()).conv2d_grad_input(win, groups, w, dy, dx);
  return dx;
}

Array weight_gradient(const Window2d& win, std::int64_t groups, const ImageLike& w, const Array& x,
                      const Array& dy) {
  Array dw = w.gradient(dy);
  count_products(dy, w.shape);
  backend(dy.device()).conv2d_grad_weight(win, groups, x, dy, dw);
  return dw;
}

/// conv2d(), or relu of it. With dz = dy, or y > 0 ? dy : 0, the gradients are those of
/// Backend::conv2d_grad_input() and _grad_weight() of dz, and db[o] = sum of dz over samples and
/// positions.
Tensor convolve(const char* name, const Tensor& x, const Tensor& weight, const Tensor& bias,
                const ConvOptions& options, bool rectified) {
  if (const Recast to = recast(CastGroup::low, {x, weight, bias})) {
    return convolve(name, to(x), to(weight), to(bias), options, rectified);
  }
  const Array& in = operand("conv2d", x, "x");
  const Array& w = operand("conv2d", weight, "weight");
  const Array b = bias.defined() ? bias.array() : Array();
  Window2d win{1, options.stride, options.padding, options.dilation};
  check_window_steps("conv2d", win);
  check(options.groups > 0, "[conv2d] groups must be positive: ", options.groups);
  check_operands(in, w, b, options.groups);
  check_one_type("conv2d", {{"x", x}, {"weight", weight}, {"bias", bias}});
  const bool single = in.dim() == 3;
  const Array given = dense_image(single ? in.unsqueeze(0) : in), kernels = dense_image(w);
  win.kernel = {w.size(2), w.size(3)};
  Array y = Array::empty(result_shape(given, w, win), in.dtype(), in.device(),
                         result_format(given, kernels, single));
  const Array images = as_read(given, format_of(y), weight);
  count_products(y, w.shape());
  backend(in.device()).conv2d(win, options.groups, images, kernels, b, y);
  if (rectified) relu_(y);
  return record(
      name, single ? y.squeeze(0) : y, {x, weight, bias},
      [images = Saved::if_(tracked(weight), images), kernels = Saved::if_(tracked(x), kernels),
       like_x = ImageLike(given), like_w = ImageLike(kernels), win, single, format = format_of(y),
       groups = options.groups,
       y = Saved::if_(rectified, y)](const Array& grad, const Wanted& wanted) {
        const Array dy = dense_gradient(single ? grad.unsqueeze(0) : grad, format);
        const Shape per_channel{dy.size(1), 1, 1};
        const auto [dz, db] = bias_gradients(y.get(), dy, per_channel, wanted[2]);
        std::array<Array, 3> grads;
        if (wanted[0]) {
          grads[0] = input_gradient(win, groups, like_x, kernels.get(), dz);
          if (single) grads[0] = grads[0].squeeze(0);
        }
        if (wanted[1]) grads[1] = weight_gradient(win, groups, like_w, images.get(), dz);
        if (wanted[2]) grads[2] = db.view_or_undefined({dy.size(1)});
        return grads;
      });
}

}  // namespace

Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
              const ConvOptions& options) {
  return convolve("conv2d", x, weight, bias, options, false);
}

Tensor conv2d_relu(const Tensor& x, const Tensor& weight, const Tensor& bias,
                   const ConvOptions& options) {
  return convolve("conv2d_relu", x, weight, bias, options, true);
}

}  // namespace tandem
