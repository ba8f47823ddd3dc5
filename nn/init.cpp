// Initialisation: drawn on the host, copied to the tensor, outside of any history.
#include <tandem/nn/init.h>

#include <cmath>
#include <span>
#include <vector>

#include <tandem/core/array_ops.h>
#include <tandem/core/error.h>
#include <tandem/core/random.h>

namespace tandem::nn::init {

namespace {

template <class T, class Draw>
void write_drawn(const Tensor& t, Draw draw) {
  std::vector<T> values(std::size_t(t.numel()));
  draw(std::span<T>(values));
  Array to = t.array();
  copy(to, Array::from_host(values.data(), t.shape(), dtype_of<T>, t.device()).to(t.dtype()));
}

/// `draw` fills a span of floats, or of doubles for a float64 tensor.
template <class Draw>
Tensor draw_into(const char* op, Tensor t, Draw draw) {
  check(is_floating(t.dtype()), "[", op, "] needs a floating type: the tensor is ", t.dtype());
  if (t.dtype() == float64) {
    write_drawn<double>(t, draw);
  } else {
    write_drawn<float>(t, draw);
  }
  return t;
}

double kaiming_std(const char* op, const Tensor& weight, const KaimingOptions& options) {
  const Fans fans = calculate_fans(weight);
  const std::int64_t fan = options.mode == FanMode::in ? fans.in : fans.out;
  check(fan > 0, "[", op, "] a weight of shape ", weight.shape(), " has a fan of zero");
  return calculate_gain(options.nonlinearity, options.a) / std::sqrt(double(fan));
}

double xavier_std(const Tensor& weight, double gain) {
  const Fans fans = calculate_fans(weight);
  return gain * std::sqrt(2.0 / double(fans.in + fans.out));
}

}  // namespace

Tensor uniform_(Tensor t, double low, double high) {
  check(low <= high, "[uniform_] low is above high: ", low, " and ", high);
  return draw_into("uniform_", std::move(t),
                   [&](auto out) { default_generator().uniform(out, low, high); });
}

Tensor normal_(Tensor t, double mean, double std) {
  check(std >= 0, "[normal_] std must not be negative: ", std);
  return draw_into("normal_", std::move(t),
                   [&](auto out) { default_generator().normal(out, mean, std); });
}

Tensor constant_(Tensor t, double value) {
  Array to = t.array();
  fill(to, value);
  return t;
}

Tensor zeros_(Tensor t) {
  return constant_(std::move(t), 0);
}

Tensor ones_(Tensor t) {
  return constant_(std::move(t), 1);
}

Fans calculate_fans(const Tensor& weight) {
  check(weight.dim() >= 2, "[calculate_fans] a weight needs at least two dimensions: got ",
        weight.shape());
  std::int64_t kernel = 1;
  for (int i = 2; i < weight.dim(); ++i) kernel *= weight.size(i);
  return {.in = weight.size(1) * kernel, .out = weight.size(0) * kernel};
}

double calculate_gain(Nonlinearity nonlinearity, double slope) {
  switch (nonlinearity) {
    case Nonlinearity::tanh:
      return 5.0 / 3.0;
    case Nonlinearity::relu:
      return std::sqrt(2.0);
    case Nonlinearity::leaky_relu:
      return std::sqrt(2.0 / (1 + slope * slope));
    case Nonlinearity::selu:
      return 0.75;
    default:
      return 1;
  }
}

Tensor kaiming_uniform_(Tensor weight, const KaimingOptions& options) {
  if (weight.numel() == 0) return weight;
  const double bound = std::sqrt(3.0) * kaiming_std("kaiming_uniform_", weight, options);
  return uniform_(std::move(weight), -bound, bound);
}

Tensor kaiming_normal_(Tensor weight, const KaimingOptions& options) {
  if (weight.numel() == 0) return weight;
  const double std = kaiming_std("kaiming_normal_", weight, options);
  return normal_(std::move(weight), 0, std);
}

Tensor xavier_uniform_(Tensor weight, double gain) {
  const double bound = std::sqrt(3.0) * xavier_std(weight, gain);
  return uniform_(std::move(weight), -bound, bound);
}

Tensor xavier_normal_(Tensor weight, double gain) {
  const double std = xavier_std(weight, gain);
  return normal_(std::move(weight), 0, std);
}

}  // namespace tandem::nn::init
