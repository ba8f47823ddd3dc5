// Pooling: each window of an image becomes one number, its largest or its average.
//
// Results and gradients lie as x does: row-major or channels-last.
#pragma once

#include <optional>

#include <tandem/core/tensor.h>
#include <tandem/core/window.h>

namespace tandem {

struct MaxPool2dOptions {
  std::optional<Size2d> stride{};  // default: the kernel
  Size2d padding = 0, dilation = 1;
  bool ceil_mode = false;  // windows that reach over the end count
};

struct AvgPool2dOptions {
  std::optional<Size2d> stride{};  // default: the kernel
  Size2d padding = 0;
  bool ceil_mode = false;
  bool count_include_pad = true;                   // padding counts as zeros
  std::optional<std::int64_t> divisor_override{};  // instead of the number of elements
};

/// The largest element of each window. x (N, C, H, W) or (C, H, W) -> (N, C, P, Q), where
///     P = floor((H + 2 padding - dilation (kernel - 1) - 1) / stride) + 1.
/// Padding is -inf. The gradient goes to the first of equal maxima; a NaN beats any number.
/// REQUIRES: a floating type, padding <= kernel / 2, P, Q >= 1.
Tensor max_pool2d(const Tensor& x, Size2d kernel, const MaxPool2dOptions& options = {});

/// The average of each window; sizes as max_pool2d.
Tensor avg_pool2d(const Tensor& x, Size2d kernel, const AvgPool2dOptions& options = {});

/// Averages to an image of a given size: output o takes the rows from floor(o H / P) to
/// ceil((o + 1) H / P), and the columns likewise. Size 1: the mean of the image.
Tensor adaptive_avg_pool2d(const Tensor& x, Size2d size);

}  // namespace tandem
