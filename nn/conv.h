// Conv2d: convolution over images. What it computes stands in core/ops/conv.h.
//
// Weights start as PyTorch's do, bit for bit under the same seed. Next: pooling.h.
#pragma once

#include <cstdint>
#include <string>

#include <tandem/core/ops/conv.h>
#include <tandem/core/window.h>
#include <tandem/nn/module.h>

namespace tandem::nn {

struct Conv2dOptions {
  Size2d stride = 1, padding = 0, dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;
};

/// x (N, in, H, W) -> (N, out, P, Q), where P = floor((H + 2 padding - dilation (kernel - 1) - 1) /
/// stride) + 1. Made on the thread's default device, in float32.
struct Conv2d : Layer {
  Tensor weight;  // (out, in / groups, height, width)
  Tensor bias;    // (out), or undefined
  Size2d stride, padding, dilation;
  std::int64_t groups;

  /// REQUIRES: in_channels and out_channels are multiples of options.groups.
  Conv2d(std::int64_t in_channels, std::int64_t out_channels, Size2d kernel,
         const Conv2dOptions& options = {});

  std::int64_t in_channels() const { return weight.size(1) * groups; }
  std::int64_t out_channels() const { return weight.size(0); }
  Size2d kernel() const { return {weight.size(2), weight.size(3)}; }
  ConvOptions options() const;

  Tensor forward(const Tensor& x) override;
  void visit(Visitor& v) override;
  std::string describe() const override;
};

}  // namespace tandem::nn
