#include <tandem/nn/pooling.h>

#include <tandem/nn/describe.h>

namespace tandem::nn {

namespace {

/// "2" or "(2, 3)"
std::string text(const Size2d& s) {
  return s.square() ? str(s.h) : str(s);
}

}  // namespace

MaxPool2d::MaxPool2d(Size2d kernel_size, const MaxPool2dOptions& more)
    : kernel(kernel_size), options(more) {
  if (!options.stride) options.stride = kernel;
}

Tensor MaxPool2d::forward(const Tensor& x) {
  return max_pool2d(x, kernel, options);
}

void MaxPool2d::visit(Visitor& v) {
  v("kernel", kernel);
  v("stride", options.stride);
  v("padding", options.padding);
  v("dilation", options.dilation);
  v("ceil_mode", options.ceil_mode);
}

std::string MaxPool2d::describe() const {
  return str("MaxPool2d(kernel_size=", text(kernel), ", stride=", text(*options.stride),
             ", padding=", text(options.padding), ", dilation=", text(options.dilation),
             ", ceil_mode=", true_or_false(options.ceil_mode), ")");
}

AvgPool2d::AvgPool2d(Size2d kernel_size, const AvgPool2dOptions& more)
    : kernel(kernel_size), options(more) {
  if (!options.stride) options.stride = kernel;
}

Tensor AvgPool2d::forward(const Tensor& x) {
  return avg_pool2d(x, kernel, options);
}

void AvgPool2d::visit(Visitor& v) {
  v("kernel", kernel);
  v("stride", options.stride);
  v("padding", options.padding);
  v("ceil_mode", options.ceil_mode);
  v("count_include_pad", options.count_include_pad);
}

std::string AvgPool2d::describe() const {
  return str("AvgPool2d(kernel_size=", text(kernel), ", stride=", text(*options.stride),
             ", padding=", text(options.padding), ")");
}

Tensor AdaptiveAvgPool2d::forward(const Tensor& x) {
  return adaptive_avg_pool2d(x, size);
}

void AdaptiveAvgPool2d::visit(Visitor& v) {
  v("size", size);
}

std::string AdaptiveAvgPool2d::describe() const {
  return str("AdaptiveAvgPool2d(output_size=", text(size), ")");
}

}  // namespace tandem::nn
