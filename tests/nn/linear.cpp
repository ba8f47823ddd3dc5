// Linear, the layers without weights, and initialisation, against PyTorch and closed forms.
#include <doctest/doctest.h>

#include <cmath>

#include <tandem/core/autograd.h>
#include <tandem/core/ops/factories.h>
#include <tandem/core/ops/reduce.h>
#include <tandem/core/random.h>
#include <tandem/nn/activations.h>
#include <tandem/nn/init.h>
#include <tandem/nn/linear.h>

#include "tests/nn/golden_nn.h"
#include "tests/support/bits.h"
#include "tests/support/check.h"

using namespace tandem;
using namespace tandem::test;

namespace {

void same_as_torch(const InitGolden& golden, const Tensor& t, Tolerance tolerance) {
  const std::vector<double> values = doubles(t);
  double sum = 0;
  for (const double x : values) sum += x;
  for (int i = 0; i < 3; ++i) {
    CHECK(close(values[std::size_t(i)], golden.first[i], tolerance));
  }
  CHECK(close(values.back(), golden.last, tolerance));
  CHECK(close(sum, golden.sum, {1e-5, 1e-5}));
}

/// Uniform draws are exact; log and cos of the normal ones may differ in the last bits.
constexpr Tolerance kExact{0, 0};
constexpr Tolerance kNormalDraws{1e-5, 1e-6};

Tensor drawn(const Shape& shape) {
  manual_seed(7);
  return zeros(shape);
}

}  // namespace

TEST_CASE("Linear: the first weights under seed 0 are PyTorch's, bit for bit") {
  manual_seed(0);
  const nn::Linear a(128, 256), b(256, 256), c(256, 10);
  CHECK(fnv1a<float>({a.weight.array()}) == kMlpHash0[0]);
  CHECK(fnv1a<float>({a.bias.array()}) == kMlpHash0[1]);
  CHECK(fnv1a<float>({b.weight.array()}) == kMlpHash1[0]);
  CHECK(fnv1a<float>({b.bias.array()}) == kMlpHash1[1]);
  CHECK(fnv1a<float>({c.weight.array()}) == kMlpHash2[0]);
  CHECK(fnv1a<float>({c.bias.array()}) == kMlpHash2[1]);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(bits_of(a.weight.to_vector<float>()[i]) == kMlpWeight[i]);
    CHECK(bits_of(a.bias.to_vector<float>()[i]) == kMlpBias[i]);
  }
}

TEST_CASE("Linear: the same seed gives the same weights on every device") {
  manual_seed(3);
  const nn::Linear here(5, 4);
  manual_seed(3);
  const DeviceScope scope(dev(2));
  const nn::Linear there(5, 4);
  CHECK(there.weight.device() == dev(2));
  CHECK(bits_equal(here.weight, there.weight));
  CHECK(bits_equal(here.bias, there.bias));
}

TEST_CASE("Linear: y = x weight^T + bias, with gradients, for any batch dimensions") {
  nn::Linear layer(2, 1);
  {
    const NoGrad no_grad;
    layer.weight.copy_(tensor_of({2, -1}, {1, 2}));
    layer.bias.copy_(tensor_of({0.5}, {1}));
  }
  Tensor x = tensor_of({1, 2, 3, 4, 5, 6}, {3, 1, 2}).requires_grad_();
  const Tensor y = layer(x);
  CHECK(y.shape() == Shape{3, 1, 1});
  CHECK(close(y, {0.5, 2.5, 4.5}));
  sum(y).backward();
  CHECK(close(layer.weight.grad(), {9, 12}));
  CHECK(close(layer.bias.grad(), {3}));
  CHECK(close(x.grad(), {2, -1, 2, -1, 2, -1}));
}

TEST_CASE("Linear: without bias and without inputs") {
  nn::Linear no_bias(3, 2, {.bias = false});
  CHECK(!no_bias.bias.defined());
  CHECK(no_bias.parameters().size() == 1);
  nn::Linear no_inputs(0, 2);
  CHECK(close(no_inputs.bias, {0, 0}, kExact));
  CHECK(throws<UsageError>([] { nn::Linear(-1, 2); }, {"[Linear]", "-1"}));
}

TEST_CASE("layers without weights compute what their ops do") {
  const Tensor x = tensor_of({-2, 0, 1.5}, {3});
  CHECK(close(nn::ReLU()(x), {0, 0, 1.5}, kExact));
  CHECK(close(nn::Tanh()(x), {std::tanh(-2), 0, std::tanh(1.5)}));
  CHECK(close(nn::Sigmoid()(x), {1 / (1 + std::exp(2)), 0.5, 1 / (1 + std::exp(-1.5))}));
  const auto gelu = [](double v) { return v / 2 * (1 + std::erf(v / std::sqrt(2.0))); };
  CHECK(close(nn::GELU()(x), {gelu(-2), 0, gelu(1.5)}));
  CHECK(close(nn::SiLU()(x), {-2 / (1 + std::exp(2)), 0, 1.5 / (1 + std::exp(-1.5))}));
  CHECK(close(nn::LeakyReLU()(x), {-0.02, 0, 1.5}));
  CHECK(close(nn::LeakyReLU(0.5)(x), {-1, 0, 1.5}, kExact));
}

TEST_CASE("Softmax and LogSoftmax: along the dimension that was asked for") {
  const Tensor x = tensor_of({0, std::log(3.0), 0, 0}, {2, 2});
  CHECK(close(nn::Softmax(1)(x), {0.25, 0.75, 0.5, 0.5}));
  CHECK(close(nn::Softmax(0)(x), {0.5, 0.75, 0.5, 0.25}));
  CHECK(close(nn::LogSoftmax(-1)(x), {std::log(0.25), std::log(0.75), -std::log(2), -std::log(2)}));
  CHECK(str(nn::Softmax(1), nn::LogSoftmax(-1), nn::LeakyReLU(), nn::SiLU()) ==
        "Softmax(dim=1)LogSoftmax(dim=-1)LeakyReLU(negative_slope=0.01)SiLU()");
}

TEST_CASE("Flatten: all but the batch, or the dimensions asked for") {
  const Tensor x = zeros({2, 3, 4, 5});
  CHECK(nn::Flatten()(x).shape() == Shape{2, 60});
  CHECK(nn::Flatten(0, 1)(x).shape() == Shape{6, 4, 5});
  CHECK(nn::Flatten(1, 2)(x).shape() == Shape{2, 12, 5});
}

TEST_CASE("Dropout: scales what it keeps while training, and is the identity in eval") {
  nn::Dropout drop(0.25);
  const Tensor x = ones({40, 25});
  int kept = 0;
  for (const double y : doubles(drop(x))) {
    CHECK((y == 0 || close(y, 4.0 / 3)));
    kept += y != 0;
  }
  CHECK(kept > 680);  // 750 expected; 70 is five standard deviations
  CHECK(kept < 820);
  drop.eval();
  CHECK(drop(x).is_same(x));
  CHECK(throws<UsageError>([] { nn::Dropout(1.5); }, {"[Dropout]", "1.5"}));
  CHECK(throws<UsageError>([] { nn::Dropout(-0.1); }, {"[Dropout]", "-0.1"}));
}

TEST_CASE("init: draws are PyTorch's for the same seed") {
  namespace init = nn::init;
  constexpr auto relu = init::Nonlinearity::relu;
  same_as_torch(kUniform, init::uniform_(drawn({5, 7}), -0.3, 0.7), kExact);
  same_as_torch(kNormal, init::normal_(drawn({5, 7}), 0.5, 2), kNormalDraws);
  same_as_torch(kKaimingUniform,
                init::kaiming_uniform_(drawn({6, 3, 2, 2}), {.nonlinearity = relu}), kExact);
  same_as_torch(kKaimingFanOut,
                init::kaiming_uniform_(drawn({6, 3, 2, 2}), {.a = 0.1, .mode = init::FanMode::out}),
                kExact);
  same_as_torch(kKaimingNormal, init::kaiming_normal_(drawn({6, 3, 2, 2}), {.nonlinearity = relu}),
                kNormalDraws);
  same_as_torch(
      kXavierUniform,
      init::xavier_uniform_(drawn({9, 4}), init::calculate_gain(init::Nonlinearity::tanh)), kExact);
  same_as_torch(kXavierNormal, init::xavier_normal_(drawn({9, 4})), kNormalDraws);
}

TEST_CASE("init: writes in place, once, outside of any history, in the tensor's own layout") {
  Tensor t = zeros({2, 3}).requires_grad_();
  const std::uint64_t version = t.version();
  nn::init::constant_(t, 2.5);
  CHECK(t.version() == version + 1);
  CHECK(t.is_leaf());
  CHECK(close(t, std::vector<double>(6, 2.5), kExact));
  CHECK(close(nn::init::ones_(t), std::vector<double>(6, 1), kExact));
  CHECK(close(nn::init::zeros_(t), std::vector<double>(6, 0), kExact));

  manual_seed(1);
  const std::vector<double> expected = doubles(nn::init::uniform_(zeros({2, 3})));
  manual_seed(1);
  const Tensor turned(Array::zeros({3, 2}, float32, dev(0)).transpose(0, 1));
  CHECK(doubles(nn::init::uniform_(turned)) == expected);
}

TEST_CASE("init: float16 weights are drawn in float32 and rounded") {
  manual_seed(1);
  std::vector<double> expected = doubles(nn::init::uniform_(zeros({9})));
  for (double& x : expected) x = stored_as(float16, x);
  manual_seed(1);
  CHECK(doubles(nn::init::uniform_(zeros({9}, {.dtype = float16}))) == expected);
}

TEST_CASE("init: fans of a convolution count its kernel; impossible requests are refused") {
  const nn::init::Fans fans = nn::init::calculate_fans(zeros({6, 3, 2, 5}));
  CHECK(fans.in == 30);
  CHECK(fans.out == 60);
  CHECK(throws<UsageError>([] { nn::init::kaiming_uniform_(zeros({3})); }, {"(3,)"}));
  CHECK(throws<UsageError>([] { nn::init::uniform_(zeros({3}, {.dtype = int64})); },
                           {"[uniform_]", "int64"}));
  CHECK(throws<UsageError>([] { nn::init::uniform_(zeros({3}), 1, 0); }, {"[uniform_]", "low"}));
  CHECK(throws<UsageError>([] { nn::init::normal_(zeros({3}), 0, -1); }, {"[normal_]", "-1"}));
}
