// What derives from visit(): lists of parameters, moving, converting, modes, copies and clones.
#include <doctest/doctest.h>

#include <tandem/core/autograd.h>
#include <tandem/core/memory.h>
#include <tandem/core/ops/reduce.h>
#include <tandem/nn/module.h>

#include "tests/nn/nets.h"
#include "tests/support/check.h"

using namespace tandem;
using namespace tandem::test;

namespace {

std::vector<std::string> names(const std::vector<std::pair<std::string, Tensor>>& named) {
  std::vector<std::string> list;
  for (const auto& [name, t] : named) list.push_back(name);
  return list;
}

using Names = std::vector<std::string>;

/// Every container a visitor looks into.
struct Containers : nn::Module {
  std::vector<nn::Linear> list{nn::Linear(1, 1, {.bias = false}), nn::Linear(1, 1)};
  std::array<Tensor, 2> pair{zeros({1}), zeros({1})};
  std::map<std::string, Tensor> map{{"a", zeros({1})}, {"b", zeros({1})}};
  std::optional<nn::Linear> none, some{nn::Linear(1, 1, {.bias = false})};
  std::tuple<Tensor, int, nn::Box> tuple{zeros({1}), 3, nn::Box(nn::Linear(1, 1, {.bias = false}))};
  std::pair<Tensor, Tensor> two{zeros({1}), Tensor()};

  void visit(nn::Visitor& v) override {
    v("list", list);
    v("array", pair);
    v("map", map);
    v("none", none);
    v("some", some);
    v("tuple", tuple);
    v("pair", two);
  }
};

}  // namespace

TEST_CASE("Module: parameters come in visit order under dotted names, buffers apart") {
  Net net;
  CHECK(names(net.named_parameters()) == Names{"fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"});
  CHECK(names(net.named_buffers()) == Names{"mean"});
  CHECK(net.parameters().size() == 4);
  CHECK(net.parameters()[2].is_same(net.fc2.weight));
  CHECK(net.buffers()[0].is_same(net.mean));
}

TEST_CASE("Module: Sequential names its layers by position") {
  nn::Sequential net{nn::Linear(2, 3), nn::ReLU(), nn::Linear(3, 1, {.bias = false})};
  CHECK(names(net.named_parameters()) == Names{"0.weight", "0.bias", "2.weight"});
}

TEST_CASE("Module: every container is looked into, and undefined tensors are passed over") {
  Containers c;
  CHECK(names(c.named_parameters()) == Names{"list.0.weight", "list.1.weight", "list.1.bias",
                                             "array.0", "array.1", "map.a", "map.b", "some.weight",
                                             "tuple.0", "tuple.2.weight", "pair.0"});
}

TEST_CASE("Module: a tied weight is one parameter") {
  Tied net;
  CHECK(names(net.named_parameters()) == Names{"in.weight"});
}

TEST_CASE("Module: to(device) moves values and gradients inside the handles") {
  Net net;
  const Tensor handle = net.fc1.weight;
  const std::vector<double> before = doubles(handle);
  sum(net(tensor_of({1, 2, 3}, {1, 3}))).backward();
  const std::vector<double> grad = doubles(net.fc2.bias.grad());
  net.to(dev(3));
  CHECK(handle.device() == dev(3));
  CHECK(handle.requires_grad());
  CHECK(doubles(handle) == before);
  CHECK(net.fc2.bias.grad().device() == dev(3));
  CHECK(doubles(net.fc2.bias.grad()) == grad);
  CHECK(net.mean.device() == dev(3));
}

TEST_CASE("Module: to(device) keeps tied weights tied") {
  Tied net;
  net.to(dev(1));
  CHECK(net.in.weight.is_same(net.out.weight));
  CHECK(net.out.weight.device() == dev(1));
}

TEST_CASE("Module: to(dtype) converts floating tensors only") {
  struct Counter : nn::Module {
    Tensor weight = ones({2}), count = tensor({7});
    void visit(nn::Visitor& v) override {
      v("weight", weight);
      v.buffer("count", count);
    }
  } m;
  m.to(float64);
  CHECK(m.weight.dtype() == float64);
  CHECK(m.count.dtype() == int64);
  CHECK(throws<UsageError>([&] { m.to(int64); }, {"[Module::to]", "int64"}));
}

TEST_CASE("Module: train and eval reach every module below, boxed ones too") {
  nn::Sequential net{nn::Dropout(0.5), nn::Sequential{nn::Dropout(0.1)}};
  net.eval();
  CHECK(!net.training);
  CHECK(!net[0].get_if<nn::Dropout>()->training);
  nn::Sequential& inner = *net[1].get_if<nn::Sequential>();
  CHECK(!inner[0].get_if<nn::Dropout>()->training);
  net.train();
  CHECK(inner[0].get_if<nn::Dropout>()->training);
}

TEST_CASE("Module: zero_grad and requires_grad_ reach every parameter") {
  Net net;
  sum(net(tensor_of({1, 2, 3}, {1, 3}))).backward();
  CHECK(net.fc1.weight.grad().defined());
  net.zero_grad();
  for (const Tensor& p : net.parameters()) CHECK(!p.grad().defined());
  net.requires_grad_(false);
  CHECK(!net(tensor_of({1, 2, 3}, {1, 3})).requires_grad());
}

TEST_CASE("Module: a copy shares its weights") {
  Net net;
  Net copy = net;
  CHECK(copy.fc1.weight.is_same(net.fc1.weight));
  nn::Sequential boxed{nn::Linear(2, 2)};
  nn::Sequential boxed_copy = boxed;
  CHECK(boxed_copy.parameters()[0].is_same(boxed.parameters()[0]));
}

TEST_CASE("clone: has values of its own, keeps settings and requires_grad, drops gradients") {
  Net net;
  net.steps = 5;
  net.fc2.bias.requires_grad_(false);
  sum(net(tensor_of({1, 2, 3}, {1, 3}))).backward();
  Net twin = nn::clone(net);
  CHECK(twin.steps == 5);
  CHECK(twin.fc1.weight.requires_grad());
  CHECK(!twin.fc2.bias.requires_grad());
  CHECK(!twin.fc1.weight.grad().defined());
  CHECK(bits_equal(twin.fc1.weight, net.fc1.weight));
  const std::vector<double> before = doubles(net.fc1.weight);
  {
    const NoGrad no_grad;
    twin.fc1.weight.fill_(9);
    twin.mean.fill_(9);
  }
  CHECK(doubles(net.fc1.weight) == before);
  CHECK(close(net.mean, {0.5, 0.25, 0.125}, {0, 0}));
  CHECK(net.fc1.weight.grad().defined());
}

TEST_CASE("clone: tied weights stay tied, and apart from the original's") {
  Tied net;
  Tied twin = nn::clone(net);
  CHECK(twin.in.weight.is_same(twin.out.weight));
  CHECK(!twin.in.weight.is_same(net.in.weight));
}

TEST_CASE("clone: boxed layers are cloned as well") {
  nn::Sequential net{nn::Linear(2, 2), nn::ReLU()};
  nn::Sequential twin = nn::clone(net);
  CHECK(!twin.parameters()[0].is_same(net.parameters()[0]));
  CHECK(bits_equal(twin.parameters()[0], net.parameters()[0]));
}

TEST_CASE("Module: parameters are counted as such, wherever they go") {
  const auto of = [](int i) { return memory::stats(dev(i)).of(Category::parameter); };
  const DeviceScope on_six(dev(6));
  nn::Linear layer(100, 10);
  CHECK(of(6) >= 4040);
  layer.to(dev(7));
  CHECK(of(6) == 0);
  CHECK(of(7) >= 4040);
  const std::int64_t one = of(7);
  nn::Linear twin = nn::clone(layer);
  CHECK(of(7) == 2 * one);
}
