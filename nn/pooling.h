// Pooling layers: the largest or the average of each window. What they compute stands in
// core/ops/pool.h, with the meaning of every option.
#pragma once

#include <string>

#include <tandem/core/ops/pool.h>
#include <tandem/nn/module.h>

namespace tandem::nn {

/// x (N, C, H, W) -> (N, C, P, Q). The stride defaults to the kernel, and is set from then on.
struct MaxPool2d : Layer {
  Size2d kernel;
  MaxPool2dOptions options;

  explicit MaxPool2d(Size2d kernel_size, const MaxPool2dOptions& more = {});

  Tensor forward(const Tensor& x) override;
  void visit(Visitor& v) override;
  std::string describe() const override;
};

/// x (N, C, H, W) -> (N, C, P, Q). The stride defaults to the kernel, and is set from then on.
struct AvgPool2d : Layer {
  Size2d kernel;
  AvgPool2dOptions options;

  explicit AvgPool2d(Size2d kernel_size, const AvgPool2dOptions& more = {});

  Tensor forward(const Tensor& x) override;
  void visit(Visitor& v) override;
  std::string describe() const override;
};

/// x (N, C, H, W) -> (N, C, size.h, size.w), whatever H and W are.
struct AdaptiveAvgPool2d : Layer {
  Size2d size;

  explicit AdaptiveAvgPool2d(Size2d output_size) : size(output_size) {}

  Tensor forward(const Tensor& x) override;
  void visit(Visitor& v) override;
  std::string describe() const override;
};

}  // namespace tandem::nn
