// Conv2d: weights drawn first, then the bias, as PyTorch draws them.
#include <tandem/nn/conv.h>

#include <cmath>

#include <tandem/core/memory.h>
#include <tandem/core/ops/factories.h>
#include <tandem/nn/init.h>

namespace tandem::nn {

Conv2d::Conv2d(std::int64_t in_channels, std::int64_t out_channels, Size2d kernel,
               const Conv2dOptions& options)
    : stride(options.stride),
      padding(options.padding),
      dilation(options.dilation),
      groups(options.groups) {
  check(in_channels > 0 && out_channels > 0, "[Conv2d] channels must be positive: in ", in_channels,
        ", out ", out_channels);
  check(kernel.h > 0 && kernel.w > 0, "[Conv2d] the kernel must be positive: ", kernel);
  check(groups > 0 && in_channels % groups == 0 && out_channels % groups == 0,
        "[Conv2d] channels must be multiples of groups: in ", in_channels, ", out ", out_channels,
        ", groups ", groups);
  const CategoryScope scope(Category::parameter);
  weight = empty({out_channels, in_channels / groups, kernel.h, kernel.w});
  init::kaiming_uniform_(weight, {.a = std::sqrt(5.0)});  // see linear.cpp
  weight.requires_grad_();
  if (!options.bias) return;
  bias = empty({out_channels});
  const double bound = 1 / std::sqrt(double(init::calculate_fans(weight).in));
  init::uniform_(bias, -bound, bound);
  bias.requires_grad_();
}

Tensor Conv2d::forward(const Tensor& x) {
  return conv2d(x, weight, bias, options());
}

ConvOptions Conv2d::options() const {
  return {.stride = stride, .padding = padding, .dilation = dilation, .groups = groups};
}

void Conv2d::visit(Visitor& v) {
  v("weight", weight);
  v("bias", bias);
  v("stride", stride);
  v("padding", padding);
  v("dilation", dilation);
  v("groups", groups);
}

std::string Conv2d::describe() const {
  std::string text = str("Conv2d(", in_channels(), ", ", out_channels(), ", kernel_size=", kernel(),
                         ", stride=", stride);
  if (!(padding == Size2d(0))) text += str(", padding=", padding);
  if (!(dilation == Size2d(1))) text += str(", dilation=", dilation);
  if (groups != 1) text += str(", groups=", groups);
  if (!bias.defined()) text += ", bias=False";
  return text + ")";
}

}  // namespace tandem::nn
