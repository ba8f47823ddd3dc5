// Convolution over images.
#pragma once

#include <tandem/core/tensor.h>
#include <tandem/core/window.h>

namespace tandem {

struct ConvOptions {
  Size2d stride = 1, padding = 0, dilation = 1;
  std::int64_t groups = 1;
};

/// y[n, o, p, q] = bias[o] + sum over c, i, j of
///     weight[o, c, i, j] x[n, c0 + c, p stride - padding + i dilation, q ...]
/// with zeros in the padding. x (N, C, H, W), or (C, H, W) for one image; weight
/// (O, C / groups, KH, KW); bias (O) or undefined. Output channel o sees the input channels of its
/// group: those from c0 = floor(o groups / O) C / groups on. The result is (N, O, P, Q), where
///     P = floor((H + 2 padding - dilation (KH - 1) - 1) / stride) + 1.
/// It is channels-last if x or the weight is, or if the backend prefers that; the gradients of x
/// and the weight lie as they do. REQUIRES: one floating type, one device; C and O are multiples of
/// groups; P, Q >= 1.
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              const ConvOptions& options = {});

/// relu(conv2d(x, weight, bias, options)) with fewer passes over memory: what nn::Sequential calls
/// for a Conv2d and the ReLU behind it.
Tensor conv2d_relu(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                   const ConvOptions& options = {});

}  // namespace tandem
