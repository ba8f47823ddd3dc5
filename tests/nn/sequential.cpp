// Sequential computes a Linear or Conv2d and the ReLU behind it as one op: nobody may notice.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <tandem/core/autograd.h>
#include <tandem/core/numerics.h>
#include <tandem/core/ops/factories.h>
#include <tandem/core/random.h>
#include <tandem/nn/activations.h>
#include <tandem/nn/conv.h>
#include <tandem/nn/linear.h>
#include <tandem/nn/pooling.h>
#include <tandem/nn/sequential.h>

#include "tests/support/check.h"

using namespace tandem;
using namespace tandem::test;

namespace {

/// The layers one by one, as a program without Sequential calls them.
Tensor one_by_one(nn::Sequential& model, const Tensor& x) {
  Tensor y = x;
  for (nn::Box& layer : model.layers) y = layer(y);
  return y;
}

/// y, then the gradients of x and of all parameters, for dy = 1, 2, 3, ...
std::vector<std::vector<float>> everything(nn::Sequential& model, const Tensor& start,
                                           Tensor (*run)(nn::Sequential&, const Tensor&)) {
  model.zero_grad();
  Tensor x(start.array());
  x.requires_grad_();
  const Tensor y = run(model, x);
  y.backward(arange(double(y.numel())).to(float32).reshape(y.shape()));
  std::vector<std::vector<float>> all{y.to_vector<float>(), x.grad().to_vector<float>()};
  for (const Tensor& p : model.parameters()) all.push_back(p.grad().to_vector<float>());
  return all;
}

std::string op_of(const Tensor& t) {
  return t.impl()->node->name;
}

}  // namespace

TEST_CASE("Sequential: a layer and its ReLU in one op give the bits of both, one by one") {
  manual_seed(3);
  const DeviceScope scope(dev(0));
  nn::Sequential mlp{nn::Linear(7, 300), nn::ReLU(), nn::Linear(300, 5, {.bias = false}),
                     nn::ReLU(), nn::Linear(5, 4)};
  nn::Sequential cnn{nn::Conv2d(3, 16, 3, {.padding = 1}), nn::ReLU(), nn::MaxPool2d(2),
                     nn::Conv2d(16, 8, 3, {.bias = false}), nn::ReLU()};
  const auto fused = [](nn::Sequential& model, const Tensor& x) { return model.forward(x); };
  for (const Shape& shape : {Shape{70, 7}, Shape{2, 3, 7}, Shape{7}, Shape{0, 7}}) {
    const Tensor x = randn(shape);
    CHECK(everything(mlp, x, fused) == everything(mlp, x, one_by_one));
  }
  for (const MemoryFormat format : {MemoryFormat::contiguous, MemoryFormat::channels_last}) {
    const Tensor x = randn({5, 3, 8, 8}).to(format);
    CHECK(everything(cnn, x, fused) == everything(cnn, x, one_by_one));
  }
}

TEST_CASE("Sequential: only a ReLU right behind a Linear or Conv2d is taken into its op") {
  const DeviceScope scope(dev(0));
  nn::Sequential both{nn::Linear(3, 4), nn::ReLU()}, apart{nn::Linear(3, 4), nn::Tanh()},
      relus{nn::ReLU(), nn::ReLU()}, images{nn::Conv2d(1, 2, 3), nn::ReLU()};
  Tensor x = randn({2, 3});
  x.requires_grad_();
  CHECK(op_of(both(x)) == "linear_relu");
  CHECK(op_of(images(randn({1, 1, 4, 4}))) == "conv2d_relu");
  CHECK(op_of(apart(x)) == "tanh");
  CHECK(op_of(relus(x)) == "relu");
  struct Scaled : nn::Linear {  // a layer of the user's: what it does is its own business
    using nn::Linear::Linear;
    Tensor forward(const Tensor& x) override { return nn::Linear::forward(x) * -1; }
  };
  nn::Sequential own{Scaled(3, 4), nn::ReLU()};
  CHECK(op_of(own(x)) == "relu");
}

TEST_CASE("Sequential: a NaN before a ReLU stays one") {
  const DeviceScope scope(dev(0));
  nn::Sequential cnn{nn::Conv2d(8, 8, 3), nn::ReLU()}, mlp{nn::Linear(8, 8), nn::ReLU()};
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const float y : cnn(full({1, 8, 4, 4}, nan)).to_vector<float>()) CHECK(std::isnan(y));
  for (const float y : mlp(full({2, 8}, nan)).to_vector<float>()) CHECK(std::isnan(y));
}
