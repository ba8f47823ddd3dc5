// Initialisation: PyTorch's nn.init, draw for draw.
//
// Values are drawn on the host from default_generator() in row-major order, then copied to where
// the tensor is: the same seed gives the same weights on every device. All functions write in place
// (one write, no history) and return the handle they were given. 16-bit floats are drawn in
// float32.
#pragma once

#include <cstdint>

#include <tandem/core/tensor.h>

namespace tandem::nn::init {

/// Uniform in [low, high).
Tensor uniform_(Tensor t, double low = 0, double high = 1);
Tensor normal_(Tensor t, double mean = 0, double std = 1);
Tensor constant_(Tensor t, double value);
Tensor zeros_(Tensor t);
Tensor ones_(Tensor t);

/// How many inputs a unit of a weight sees, and how many units see one input.
struct Fans {
  std::int64_t in = 0;
  std::int64_t out = 0;
};
/// Of a weight (out, in, kernel...): in = in * kernel elements. REQUIRES: at least two dimensions.
Fans calculate_fans(const Tensor& weight);

enum class Nonlinearity { linear, sigmoid, tanh, relu, leaky_relu, selu };
/// The factor that keeps the variance through a nonlinearity; `slope` is leaky_relu's.
double calculate_gain(Nonlinearity nonlinearity, double slope = 0.01);

enum class FanMode { in, out };

struct KaimingOptions {
  double a = 0;  // slope of leaky_relu
  FanMode mode = FanMode::in;
  Nonlinearity nonlinearity = Nonlinearity::leaky_relu;
};

/// std = gain / sqrt(fan); uniform in [-sqrt(3) std, sqrt(3) std), or normal.
Tensor kaiming_uniform_(Tensor weight, const KaimingOptions& options = {});
Tensor kaiming_normal_(Tensor weight, const KaimingOptions& options = {});
/// std = gain sqrt(2 / (fan in + fan out))
Tensor xavier_uniform_(Tensor weight, double gain = 1);
Tensor xavier_normal_(Tensor weight, double gain = 1);

}  // namespace tandem::nn::init
