#include <tandem/core/ops/pool.h>

#include <limits>

#include <tandem/core/array_ops.h>
#include <tandem/core/backend.h>
#include <tandem/core/ops/operands.h>
#include <tandem/core/ops/window_checks.h>

namespace tandem {
namespace {

Array batched(const Array& x) {
  return x.dim() == 3 ? x.unsqueeze(0) : x;
}

/// x as (N, C, H, W), dense in one of the two layouts.
Array images(const char* op, const Array& x) {
  check(x.dim() == 3 || x.dim() == 4, "[", op, "] x is (N, C, H, W) or (C, H, W): got ", x.shape());
  check(is_floating(x.dtype()), "[", op, "] needs a floating type: ", x.dtype(),
        ". Convert it first with to(float32)");
  const Array four = batched(x);
  check(four.size(2) > 0 && four.size(3) > 0, "[", op, "] the images are empty: ", x.shape());
  return dense_image(four);
}

void check_window(const char* op, const Window2d& w) {
  check_window_sizes(op, w);
  check(w.kernel.h > 0 && w.kernel.w > 0, "[", op, "] kernel must be positive: ", w.kernel);
  check_window_steps(op, w);
  check(w.padding.h <= w.kernel.h / 2 && w.padding.w <= w.kernel.w / 2, "[", op, "] padding ",
        w.padding, " is more than half of the kernel ", w.kernel);
}

Shape result_shape(const char* op, const Array& x, const Window2d& w, bool ceil) {
  const Size2d count = fitting_windows(op, x.shape(), w, ceil);
  return {x.size(0), x.size(1), count.h, count.w};
}

/// `y` for users, who gave `x`: without the batch that images() added.
Array as_given(const Array& y, int dims) {
  return dims == 3 ? y.squeeze(0) : y;
}

Tensor average(const char* op, const Tensor& x, const Array& in, const Shape& result,
               const AverageRule& rule) {
  const ImageLike like(in);
  Array y = Array::empty(result, in.dtype(), in.device(), like.format);
  backend(in.device()).avg_pool2d(rule, in, y);
  return record(
      op, as_given(y, x.dim()), {x},
      [rule, like](const Array& dy, const Wanted&) {
        Array dx = like.gradient(dy);
        backend(dy.device()).avg_pool2d_grad(rule, dense_image(batched(dy)), dx);
        return as_given(dx, dy.dim());
      },
      Keeps::nothing);
}

}  // namespace

Tensor max_pool2d(const Tensor& x, Size2d kernel, const MaxPool2dOptions& options) {
  const Array in = images("max_pool2d", operand("max_pool2d", x, "x"));
  const Window2d window{kernel, options.stride.value_or(kernel), options.padding, options.dilation};
  check_window("max_pool2d", window);
  check(in.size(2) <= std::numeric_limits<std::int32_t>::max() / in.size(3),
        "[max_pool2d] an image has more than 2^31 elements: ", in.shape());
  const Shape result = result_shape("max_pool2d", in, window, options.ceil_mode);
  const ImageLike like(in);
  Array y = Array::empty(result, in.dtype(), in.device(), like.format), index;
  if (tracked(x)) index = Array::empty(result, int32, in.device(), like.format);
  backend(in.device()).max_pool2d(window, in, y, index);
  return record(
      "max_pool2d", as_given(y, x.dim()), {x},
      [index = Saved(index), window, like](const Array& dy, const Wanted&) {
        Array dx = like.gradient(dy);
        backend(dy.device()).max_pool2d_grad(window, index.get(), dense_image(batched(dy)), dx);
        return as_given(dx, dy.dim());
      });
}

Tensor avg_pool2d(const Tensor& x, Size2d kernel, const AvgPool2dOptions& options) {
  const Array in = images("avg_pool2d", operand("avg_pool2d", x, "x"));
  AverageRule rule{.window = {kernel, options.stride.value_or(kernel), options.padding, 1},
                   .count_padding = options.count_include_pad,
                   .divisor = options.divisor_override.value_or(0)};
  check_window("avg_pool2d", rule.window);
  check(!options.divisor_override || rule.divisor != 0, "[avg_pool2d] the divisor must not be 0");
  return average("avg_pool2d", x, in,
                 result_shape("avg_pool2d", in, rule.window, options.ceil_mode), rule);
}

Tensor adaptive_avg_pool2d(const Tensor& x, Size2d size) {
  const Array in = images("adaptive_avg_pool2d", operand("adaptive_avg_pool2d", x, "x"));
  check(size.h > 0 && size.w > 0, "[adaptive_avg_pool2d] the size must be positive: ", size);
  return average("adaptive_avg_pool2d", x, in, {in.size(0), in.size(1), size.h, size.w},
                 {.adaptive = true});
}

}  // namespace tandem
