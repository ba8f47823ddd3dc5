#include <tandem/nn/sequential.h>

#include <tandem/core/ops/conv.h>
#include <tandem/core/ops/linalg.h>
#include <tandem/nn/activations.h>
#include <tandem/nn/conv.h>
#include <tandem/nn/linear.h>

namespace tandem::nn {
namespace {

// relu(layer(x)) in one op, or undefined if there is none for this layer.
Tensor rectified(Box& layer, const Tensor& x) {
  if (const auto* linear = layer.get_if<Linear>()) {
    return linear_relu(x, linear->weight, linear->bias);
  }
  if (const auto* conv = layer.get_if<Conv2d>()) {
    return conv2d_relu(x, conv->weight, conv->bias, conv->options());
  }
  return {};
}

}  // namespace

Tensor Sequential::forward(const Tensor& x) {
  const bool observed = LayerObserver::current() != nullptr;  // then layers are called one by one
  Tensor y = x;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const bool before_relu =
        !observed && i + 1 < layers.size() && layers[i + 1].get_if<ReLU>() != nullptr;
    if (const Tensor both = before_relu ? rectified(layers[i], y) : Tensor(); both.defined()) {
      y = both;
      ++i;
    } else {
      y = layers[i].forward(y);
    }
  }
  return y;
}

}  // namespace tandem::nn
