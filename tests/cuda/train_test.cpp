// Whole training steps on simulated CUDA devices: they equal the CPU's, on one device and on
// several.
#include <doctest/doctest.h>

#include "runtime/cudasim.h"
#include "tests/support/check.h"

#include <tandem/tandem.h>

using namespace tandem;
using namespace tandem::test;

namespace {

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

Tensor labels(std::int64_t n, Device device) {
  std::vector<double> v;
  for (std::int64_t i = 0; i < n; ++i) v.push_back(double((i * 7) % 4));
  return tensor_of(v, {n}, int64, device);
}

// Parameters, buffers and losses after `steps` steps of Adam on one device or on several.
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

// Adam divides by the square root of a mean square: small gradients make rounding visible.
Verdict all_close(const std::vector<std::vector<double>>& a,
                  const std::vector<std::vector<double>>& b) {
  if (a.size() != b.size()) return {false, "different numbers of tensors"};
  for (std::size_t i = 0; i < a.size(); ++i) {
    const Verdict v = close(a[i], b[i], {1e-4, 2e-5});
    if (!v.ok) return {false, "tensor " + std::to_string(i) + ": " + v.why};
  }
  return {};
}

std::vector<Device> gpus(int n) {
  std::vector<Device> devices = all_devices(cuda);
  devices.resize(std::size_t(n));
  return devices;
}

}  // namespace

TEST_CASE("train: five steps of a small net equal the CPU's") {
  CHECK(all_close(train<Mlp>({cuda(0)}, {7, 6}, 5), train<Mlp>({cpu(0)}, {7, 6}, 5)));
}

TEST_CASE("train: a small net on two devices equals one, and the same again is bit-equal") {
  const auto two = train<Mlp>(gpus(2), {7, 6}, 4);
  CHECK(all_close(two, train<Mlp>({cpu(0)}, {7, 6}, 4)));
  CHECK(train<Mlp>(gpus(2), {7, 6}, 4) == two);
}

TEST_CASE("train: five steps of a convolutional net equal the CPU's") {
  CHECK(all_close(train<Cnn>({cuda(0)}, {4, 2, 6, 6}, 5), train<Cnn>({cpu(0)}, {4, 2, 6, 6}, 5)));
}

TEST_CASE("train: a convolutional net on two devices equals two CPUs, and is bit-equal again") {
  const auto two = train<Cnn>(gpus(2), {4, 2, 6, 6}, 3);
  CHECK(all_close(two, train<Cnn>({cpu(0), cpu(1)}, {4, 2, 6, 6}, 3)));
  CHECK(train<Cnn>(gpus(2), {4, 2, 6, 6}, 3) == two);
}

TEST_CASE("train: the bytes in use on every device return to what they were") {
  std::vector<std::int64_t> before;
  for (const Device d : gpus(2)) before.push_back(bytes_in_use(d));
  train<Cnn>(gpus(2), {4, 2, 6, 6}, 1);
  for (std::size_t i = 0; i < 2; ++i) CHECK(bytes_in_use(gpus(2)[i]) == before[i]);
  CHECK(cudasim::violations() == std::vector<std::string>{});
}
