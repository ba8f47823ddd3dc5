// Small nets on simulated GPUs, and what some steps of training make of them.
#pragma once

#include <string>
#include <vector>

#include <tandem/tandem.h>

#include "tests/support/check.h"

namespace tandem::test {

struct Mlp : nn::Layer {
  nn::Linear a{6, 8}, b{8, 4};
  Tensor forward(const Tensor& x) override { return b(gelu(a(x))); }
  void visit(nn::Visitor& v) override { v("a", a), v("b", b); }
};

struct Cnn : nn::Layer {
  // No bias before the norm: its gradient would be rounding errors alone, which Adam makes large.
  nn::Conv2d conv1{2, 4, 3, {.padding = 1, .bias = false}},
      conv2{4, 6, 3, {.stride = 2, .groups = 2}};
  nn::BatchNorm2d norm{4};
  nn::MaxPool2d pool{2};
  nn::Dropout dropout{0.25};
  nn::Linear out{6, 4};

  Tensor forward(const Tensor& x) override {
    const Tensor y = relu(conv2(pool(relu(norm(conv1(x))))));  // (N, 6, 1, 1)
    return out(dropout(flatten(y, 1)));
  }
  void visit(nn::Visitor& v) override {
    v("conv1", conv1), v("norm", norm), v("pool", pool), v("conv2", conv2);
    v("dropout", dropout), v("out", out);
  }
};

inline Tensor labels(std::int64_t n, Device device) {
  std::vector<double> v;
  for (std::int64_t i = 0; i < n; ++i) v.push_back(double((i * 7) % 4));
  return tensor_of(v, {n}, int64, device);
}

/// Losses, and then parameters and buffers, after `steps` steps of Adam on one device or on
/// several.
template <class M>
std::vector<std::vector<double>> train(const std::vector<Device>& devices, const Shape& shape,
                                       int steps) {
  manual_seed(3);
  M model;
  model.to(devices[0]);
  parallel::DataParallel net(model, {.devices = devices});
  optim::Adam optimizer(model.parameters(), {.lr = 0.01});
  std::vector<std::vector<double>> result(1);
  for (int step = 0; step < steps; ++step) {
    const Tensor x = random_tensor(shape, 20 + std::uint64_t(step), float32, devices[0]);
    optimizer.zero_grad();
    const Tensor loss = nn::cross_entropy(net(x), labels(shape[0], devices[0]));
    loss.backward();
    optimizer.step();
    result[0].push_back(doubles(loss)[0]);
  }
  for (const auto& [name, t] : model.state_dict()) result.push_back(doubles(t));
  return result;
}

inline std::vector<Device> gpus(int n) {
  std::vector<Device> devices = all_devices(cuda);
  devices.resize(std::size_t(n));
  return devices;
}

}  // namespace tandem::test
