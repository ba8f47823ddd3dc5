// What all optimizers do around their rule: options, groups, checks, state, gradients, versions.
#include <doctest/doctest.h>

#include <limits>

#include <tandem/core/autograd.h>
#include <tandem/core/memory.h>
#include <tandem/core/ops/reduce.h>
#include <tandem/nn/linear.h>
#include <tandem/optim/adam.h>
#include <tandem/optim/sgd.h>

#include "tests/support/check.h"

using namespace tandem;
using namespace tandem::optim;
using namespace tandem::test;

namespace {

Tensor parameter(const std::vector<double>& values, Device device = dev(0)) {
  return tensor_of(values, {std::int64_t(values.size())}, float32, device).requires_grad_();
}

void give_grad(Tensor& p, double value) {
  p.set_grad(Tensor(Array::full(p.shape(), value, p.dtype(), p.device())));
}

template <class F>
Verdict refused(F&& f, std::initializer_list<const char*> parts) {
  return throws<UsageError>(std::forward<F>(f), parts);
}

}  // namespace

TEST_CASE("SGD: options that make no sense are refused") {
  const Tensor p = parameter({1});
  CHECK(refused([&] { SGD({p}, {}); }, {"[SGD]", "lr is required"}));
  CHECK(refused([&] { SGD({p}, {.lr = -0.1}); }, {"[SGD]", "lr", "-0.1"}));
  CHECK(refused([&] { SGD({p}, {.lr = 0.1, .momentum = -1}); }, {"momentum", "-1"}));
  CHECK(refused([&] { SGD({p}, {.lr = 0.1, .weight_decay = -2}); }, {"weight_decay", "-2"}));
  CHECK(refused([&] { SGD({p}, {.lr = 0.1, .nesterov = true}); }, {"nesterov", "momentum 0"}));
  CHECK(refused([&] { SGD({p}, {.lr = 0.1, .momentum = 0.9, .dampening = 0.5, .nesterov = true}); },
                {"nesterov", "dampening 0.5"}));
}

TEST_CASE("Adam and AdamW: options that make no sense are refused under their own names") {
  const Tensor p = parameter({1});
  CHECK(refused([&] { Adam({p}, {.lr = -1}); }, {"[Adam]", "lr", "-1"}));
  CHECK(refused([&] { Adam({p}, {.betas = {1.0, 0.9}}); }, {"[Adam]", "beta1", "1"}));
  CHECK(refused([&] { Adam({p}, {.betas = {0.9, -0.5}}); }, {"[Adam]", "beta2", "-0.5"}));
  CHECK(refused([&] { AdamW({p}, {.eps = -1e-8}); }, {"[AdamW]", "eps"}));
  CHECK(refused([&] { AdamW({p}, {.weight_decay = -1}); }, {"[AdamW]", "weight_decay"}));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(refused([&] { Adam({p}, {.lr = nan}); }, {"[Adam]", "lr"}));
}

TEST_CASE("Optimizer: parameters that cannot be optimized are refused") {
  const Tensor p = parameter({1, 2});
  CHECK(refused([&] { Adam(std::vector<Tensor>{}); }, {"empty list"}));
  CHECK(refused([&] { Adam(std::vector<ParamGroup>{}); }, {"empty list"}));
  CHECK(refused([&] { Adam({p, p}); }, {"parameter 1", "twice"}));
  CHECK(refused([&] { Adam({{.params = {p}}, {.params = {p}}}); }, {"twice"}));
  CHECK(refused([&] { Adam({p, Tensor()}); }, {"parameter 1", "undefined"}));
  CHECK(refused([&] { Adam({tensor_of({1}, {1}, int64)}); }, {"int64"}));
  CHECK(refused([&] { Adam({p * 2.0}); }, {"result of an op"}));
  Tensor gaps(tensor_of({1, 2, 3, 4}, {4}).array().slice(0, 0, 4, 2));
  CHECK(refused([&] { Adam({gaps.requires_grad_()}); }, {"gaps", "contiguous"}));
}

TEST_CASE("Optimizer: a group takes what it does not name from the optimizer") {
  SGD optimizer(
      {{.params = {parameter({1})}, .options = {{"lr", 0.5}}}, {.params = {parameter({2})}}},
      {.lr = 0.1, .momentum = 0.9});
  CHECK(optimizer.group_count() == 2);
  CHECK(optimizer.group(0)["lr"] == 0.5);
  CHECK(optimizer.group(0)["momentum"] == 0.9);
  CHECK(optimizer.group(1)["lr"] == 0.1);
  optimizer.add_param_group({.params = {parameter({3})}, .options = {{"momentum", 0}}});
  CHECK(optimizer.group(2)["momentum"] == 0);
  CHECK(optimizer.parameter_count() == 3);
}

TEST_CASE("Optimizer: an unknown option is an error that lists those there are") {
  SGD optimizer({parameter({1})}, {.lr = 0.1});
  CHECK(refused([&] { optimizer.group(0)["learning_rate"] = 1; },
                {"learning_rate", "lr, momentum, dampening"}));
  CHECK(refused(
      [&] {
        optimizer.add_param_group({.params = {parameter({1})}, .options = {{"beta1", 0.5}}});
      },
      {"beta1"}));
  CHECK(optimizer.group_count() == 1);
}

TEST_CASE("Optimizer: an option set to nonsense between steps is refused before anything moves") {
  Tensor p = parameter({1});
  SGD optimizer({p}, {.lr = 0.1});
  give_grad(p, 1);
  optimizer.group(0)["lr"] = -1;
  CHECK(refused([&] { optimizer.step(); }, {"lr"}));
  CHECK(close(p, {1.0}, {0, 0}));
}

TEST_CASE("Optimizer: parameters without gradient stay and their steps do not count") {
  Tensor a = parameter({1}), b = parameter({1});
  Adam optimizer({a, b}, {.lr = 0.5});
  give_grad(a, 1);
  optimizer.step();
  CHECK(close(a, {0.5}, {1e-6, 0}));  // the first step of Adam is lr, whatever the gradient
  CHECK(close(b, {1.0}, {0, 0}));
  CHECK(optimizer.state(0).step == 1);
  CHECK(optimizer.state(1).step == 0);
  CHECK(!optimizer.state(1).tensors[0].defined());
}

TEST_CASE("Optimizer: a step is one write of each parameter, and stale graphs notice") {
  Tensor p = parameter({1, 2});
  SGD optimizer({p}, {.lr = 0.1});
  Tensor y = sum(p * p);
  give_grad(p, 1);
  const std::uint64_t before = p.version();
  optimizer.step();
  CHECK(p.version() == before + 1);
  CHECK(throws<StaleGraphError>([&] { y.backward(); }));
}

TEST_CASE("Optimizer: a step records no history and keeps the handle") {
  Tensor p = parameter({1, 2});
  const Tensor same = p;
  Adam optimizer({p});
  sum(p * p).backward();
  optimizer.step();
  CHECK(p.is_leaf());
  CHECK(p.requires_grad());
  CHECK(bits_equal(p, same));
}

TEST_CASE("Optimizer: zero_grad leaves gradients undefined, or zero if asked") {
  Tensor p = parameter({1, 2});
  SGD optimizer({p}, {.lr = 0.1});
  give_grad(p, 3);
  optimizer.zero_grad(false);
  CHECK(close(p.grad(), {0.0, 0.0}, {0, 0}));
  optimizer.zero_grad();
  CHECK(!p.grad().defined());
}

TEST_CASE("Optimizer: a zero gradient still moves a parameter that has momentum; none does not") {
  Tensor p = parameter({1});
  SGD optimizer({p}, {.lr = 0.1, .momentum = 0.5});
  give_grad(p, 1);
  optimizer.step();  // 0.9
  optimizer.zero_grad(false);
  optimizer.step();  // b = 0.5
  CHECK(close(p, {0.85}));
  optimizer.zero_grad();
  optimizer.step();
  CHECK(close(p, {0.85}));
}

TEST_CASE("SGD: momentum switched on later starts with the gradient, not with garbage") {
  litter_pool(dev(0));
  Tensor p = parameter({1});
  SGD optimizer({p}, {.lr = 0.1, .dampening = 0.5});
  give_grad(p, 1);
  optimizer.step();  // 0.9
  CHECK(!optimizer.state(0).tensors[0].defined());
  optimizer.group(0)["momentum"] = 0.9;
  optimizer.step();  // b = 1: 0.8
  optimizer.step();  // b = 0.9 + 0.5: 0.66
  CHECK(close(p, {0.66}));
}

TEST_CASE("Optimizer: parameters of several devices are updated where they are") {
  Tensor a = parameter({1}), b = parameter({1}, dev(1)), c = parameter({1});
  Adam optimizer({a, b, c}, {.lr = 0.5});
  for (Tensor* p : {&a, &b, &c}) give_grad(*p, 2);
  optimizer.step();
  CHECK(b.device() == dev(1));
  CHECK(optimizer.state(1).tensors[0].device() == dev(1));
  for (const Tensor& p : {a, b, c}) CHECK(close(p, {0.5}, {1e-6, 0}));
}

TEST_CASE("Optimizer: state on another device than its parameter is an error naming both") {
  nn::Linear layer(2, 1);
  Adam optimizer(layer.parameters());
  for (Tensor& p : layer.parameters()) give_grad(p, 1);
  optimizer.step();
  layer.to(dev(1));
  for (Tensor& p : layer.parameters()) give_grad(p, 1);
  const std::vector<double> before = doubles(layer.weight);
  CHECK(
      refused([&] { optimizer.step(); }, {"state sits on", dev_name(0), "is now on", dev_name(1)}));
  CHECK(doubles(layer.weight) == before);
  layer.to(dev(0));
  for (Tensor& p : layer.parameters()) give_grad(p, 1);
  optimizer.step();
  CHECK(optimizer.state(0).step == 2);
}

TEST_CASE("Optimizer: without state yet, a module may move after the optimizer was made") {
  nn::Linear layer(2, 1);
  Adam optimizer(layer.parameters(), {.lr = 0.5});
  layer.to(dev(1));
  const std::vector<double> before = doubles(layer.bias);
  for (Tensor& p : layer.parameters()) give_grad(p, 1);
  optimizer.step();
  CHECK(close(layer.bias, {before[0] - 0.5}, {1e-6, 1e-6}));
  CHECK(layer.bias.device() == dev(1));
}

TEST_CASE("Optimizer: a gradient of another shape, dtype or device is refused, nothing moves") {
  Tensor a = parameter({1, 1}), b = parameter({1, 1});
  SGD optimizer({a, b}, {.lr = 0.1});
  give_grad(a, 1);
  b.impl()->grad = Array::full({3}, 1, float32, dev(0));
  CHECK(refused([&] { optimizer.step(); }, {"parameter 1", "(2,)", "(3,)"}));
  b.impl()->grad = Array::full({2}, 1, float64, dev(0));
  CHECK(refused([&] { optimizer.step(); }, {"parameter 1", "float32", "float64"}));
  b.impl()->grad = Array::full({2}, 1, float32, dev(1));
  CHECK(refused([&] { optimizer.step(); }, {"parameter 1", dev_name(1), dev_name(0)}));
  CHECK(close(a, {1.0, 1.0}, {0, 0}));
  CHECK(optimizer.state(0).step == 0);
}

TEST_CASE("Optimizer: a gradient in another order of strides counts element by element") {
  Tensor p = tensor_of({0, 0, 0, 0, 0, 0}, {2, 3}).requires_grad_();
  SGD optimizer({p}, {.lr = 1, .momentum = 0.9});
  p.impl()->grad = tensor_of({1, 2, 3, 4, 5, 6}, {3, 2}).array().transpose(0, 1);
  optimizer.step();
  CHECK(close(p, {-1, -3, -5, -2, -4, -6}, {0, 0}));
}

TEST_CASE("Optimizer: a parameter in another order of strides is updated in place") {
  Tensor p(tensor_of({0, 0, 0, 0, 0, 0}, {3, 2}).array().transpose(0, 1));
  p.requires_grad_();
  Adam optimizer({p}, {.lr = 1});
  p.set_grad(tensor_of({1, -1, 1, -1, 1, -1}, {2, 3}));
  optimizer.step();
  CHECK(close(p, {-1, 1, -1, 1, -1, 1}, {1e-6, 0}));
}

TEST_CASE("Optimizer: state is counted under its own category and made at the first step") {
  Tensor p(Array::zeros({1000}, float32, dev(5)));
  p.requires_grad_();
  Adam optimizer({p});
  CHECK(memory::stats(dev(5)).of(Category::optimizer) == 0);
  give_grad(p, 1);
  optimizer.step();
  CHECK(memory::stats(dev(5)).of(Category::optimizer) >= 8000);
  const std::int64_t after_one = memory::stats(dev(5)).of(Category::optimizer);
  optimizer.step();
  CHECK(memory::stats(dev(5)).of(Category::optimizer) == after_one);
}

TEST_CASE("Optimizer: float16 parameters are updated with arithmetic in float32") {
  Tensor p = tensor_of({1, -2}, {2}, float16).requires_grad_();
  SGD optimizer({p}, {.lr = 0.1});
  p.set_grad(tensor_of({0.5, 0.25}, {2}, float16));
  optimizer.step();
  CHECK(close(p, {stored_as(float16, 0.95), stored_as(float16, -2.025)}, {0, 0}));
}
