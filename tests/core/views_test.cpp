// Views and joins: sharing memory, -1, empty sizes, what is refused. Values and gradients of every
// op are checked by the op table.
#include <doctest/doctest.h>

#include "tests/support/check.h"

#include <tandem/core/ops/factories.h>
#include <tandem/core/ops/pointwise.h>
#include <tandem/core/ops/reduce.h>
#include <tandem/core/ops/views.h>
#include <tandem/core/thread_state.h>

using namespace tandem;
using namespace tandem::test;

TEST_CASE("views: share memory and version with what they view") {
  const Tensor x = arange(24).view({2, 3, 4});
  const std::vector<std::pair<const char*, Tensor>> views{
      {"view", x.view({6, 4})},         {"reshape", x.reshape({-1})},
      {"flatten", x.flatten(1)},        {"permute", x.permute({2, 0, 1})},
      {"transpose", x.transpose(0, 2)}, {"squeeze", x.squeeze()},
      {"unsqueeze", x.unsqueeze(1)},    {"expand", x.unsqueeze(0).expand({5, -1, -1, -1})},
      {"narrow", x.narrow(2, 1, 2)},    {"slice", x.slice(2, 0, 4, 2)},
      {"select", x.select(1, 2)},       {"split", x.split(2, 1)[1]},
      {"detach", x.detach()},           {"[]", x[1]}};
  for (const auto& [name, v] : views) {
    INFO(name);
    CHECK(v.array().storage() == x.array().storage());
  }
  const auto version = x.version();
  Tensor first = x.select(2, 0);
  first.fill_(-1);
  CHECK(x.version() == version + 1);
  CHECK(views[0].second.version() == x.version());
  CHECK(doubles(x)[4] == -1);
  CHECK(doubles(x)[5] == 5);
}

TEST_CASE("view: -1 is worked out; what it cannot mean is refused") {
  const Tensor x = arange(12);
  CHECK(x.view({3, -1}).shape() == Shape{3, 4});
  CHECK(x.view({-1}).shape() == Shape{12});
  CHECK(x.view({12, 1, -1}).shape() == Shape{12, 1, 1});
  CHECK(zeros({0, 4}).view({-1, 4}).shape() == Shape{0, 4});
  CHECK(zeros({0, 4}).view({7, 0}).shape() == Shape{7, 0});
  CHECK(tensor(2.0).view({1, 1}).shape() == Shape{1, 1});
  CHECK(tensor({2.0}).view({}).shape() == Shape{});
  CHECK(throws<UsageError>([&] { x.view({5, -1}); }, {"[view]", "(12,)", "(5, -1)"}));
  CHECK(throws<UsageError>([&] { x.view({-1, -1}); }, {"[view] only one size can be -1"}));
  CHECK(throws<UsageError>([&] { x.reshape({-2, 6}); }, {"[reshape] a size is negative"}));
  CHECK(throws<UsageError>([&] { zeros({0, 4}).view({-1, 0}); }, {"[view]", "not determined"}));
  CHECK(throws<UsageError>([&] { x.view({5}); }, {"[view] the number of elements differs"}));
}

TEST_CASE("view: refuses strides that do not allow it and names the way out; reshape copies") {
  const Tensor x = arange(6).view({2, 3}).t();
  CHECK(throws<UsageError>([&] { x.view({6}); }, {"[view]", "(1, 3)", "(3, 2)", "reshape()"}));
  const Tensor y = x.reshape({6});
  CHECK(y.array().storage() != x.array().storage());
  CHECK(doubles(y) == std::vector<double>{0, 3, 1, 4, 2, 5});
  CHECK(x.view({3, 1, 2}).array().storage() == x.array().storage());
}

TEST_CASE("slice: as in Python, clipped at both ends") {
  const Tensor x = arange(10);
  using Values = std::vector<double>;
  CHECK(doubles(x.slice(0, 2, 8, 3)) == Values{2, 5});
  CHECK(doubles(x.slice(0, -3, 100)) == Values{7, 8, 9});
  CHECK(doubles(x.slice(0, -100, -8)) == Values{0, 1});
  CHECK(doubles(x.slice(0, 0, 10, 4)) == Values{0, 4, 8});
  CHECK(x.slice(0, 7, 3).shape() == Shape{0});
  CHECK(x.slice(0, 12, 15).shape() == Shape{0});
  CHECK(throws<UsageError>([&] { x.slice(0, 0, 5, 0); }, {"[slice] step 0"}));
}

TEST_CASE("views: refuse what does not exist") {
  const Tensor x = arange(6).view({2, 3}), point = tensor(1.0);
  CHECK(throws<UsageError>([&] { x.select(0, 2); }, {"[select] index 2", "(2, 3)"}));
  CHECK(throws<UsageError>([&] { x.select(1, -4); }, {"[select] index -4"}));
  CHECK(throws<UsageError>([&] { x.select(2, 0); }, {"[select] dimension 2", "-2 to 1"}));
  CHECK(throws<UsageError>([&] { point[0]; }, {"[select] a 0-dim tensor"}));
  CHECK(throws<UsageError>([&] { x.narrow(1, 2, 2); }, {"[narrow] 2 elements from 2", "(2, 3)"}));
  CHECK(throws<UsageError>([&] { x.narrow(1, 0, -1); }, {"[narrow]"}));
  CHECK(throws<UsageError>([&] { x.permute({0}); }, {"[permute] 1 dimensions"}));
  CHECK(throws<UsageError>([&] { x.permute({1, -1}); }, {"[permute] dimension -1", "twice"}));
  CHECK(throws<UsageError>([&] { x.expand({2, 2}); }, {"[expand] (2, 3)", "(2, 2)"}));
  CHECK(throws<UsageError>([&] { x.expand({3}); }, {"[expand]"}));
  CHECK(throws<UsageError>([&] { x.expand({-1, 2, 3}); }, {"[expand]"}));
  CHECK(throws<UsageError>([&] { x.flatten(1, 0); }, {"[flatten]"}));
  CHECK(throws<UsageError>([&] { arange(8).view({2, 2, 2}).t(); }, {"[t]", "transpose()"}));
  CHECK(throws<UsageError>([&] { x.unsqueeze(3); }, {"[unsqueeze] dimension 3"}));
}

TEST_CASE("narrow and select: count from the end") {
  const Tensor x = arange(6).view({2, 3});
  CHECK(doubles(x.narrow(-1, -2, 2)) == std::vector<double>{1, 2, 4, 5});
  CHECK(doubles(x[-1]) == std::vector<double>{3, 4, 5});
}

TEST_CASE("squeeze: drops sizes of one only; 0-dim tensors pass") {
  const Tensor x = zeros({1, 3, 1});
  CHECK(x.squeeze().shape() == Shape{3});
  CHECK(x.squeeze(1).shape() == Shape{1, 3, 1});
  CHECK(x.squeeze(-1).shape() == Shape{1, 3});
  CHECK(tensor(1.0).squeeze(0).shape() == Shape{});
  CHECK(tensor(1.0).flatten().shape() == Shape{1});
  CHECK(tensor(1.0).transpose(0, -1).shape() == Shape{});
}

TEST_CASE("cat: types promote and each gradient goes back to its type") {
  const Tensor a = ones({2}, {.requires_grad = true});
  const Tensor b = ones({3}, {.dtype = float64, .requires_grad = true});
  const Tensor y = cat({a, b, tensor({7})});
  CHECK(y.dtype() == float64);
  y.backward(arange(0, 6, 1.0, {.dtype = float64}));
  CHECK(a.grad().dtype() == float32);
  CHECK(close(a.grad(), {0, 1}));
  CHECK(b.grad().dtype() == float64);
  CHECK(close(b.grad(), {2, 3, 4}));
}

TEST_CASE("cat and stack: refuse what does not fit, naming the tensor") {
  const Tensor x = zeros({2, 3});
  CHECK(throws<UsageError>([&] { cat({}); }, {"[cat] needs at least one"}));
  CHECK(throws<UsageError>([&] { cat({x, zeros({2, 4})}); }, {"[cat]", "tensor 1 is (2, 4)"}));
  CHECK(cat({x, zeros({2, 4})}, -1).shape() == Shape{2, 7});
  CHECK(throws<UsageError>([&] { cat({x, zeros({2})}); }, {"[cat]"}));
  CHECK(throws<UsageError>([&] { cat({tensor(1.0)}); }, {"[cat] 0-dim", "stack"}));
  CHECK(throws<UsageError>([&] { cat({x, Tensor()}); }, {"[cat] tensor 1 is undefined"}));
  CHECK(throws<UsageError>([&] { cat({x, x.to(dev(1))}); }, {"[cat]", dev_name(0), dev_name(1)}));
  CHECK(throws<UsageError>([&] { stack({x, zeros({3, 2})}); }, {"[stack]", "(3, 2)"}));
  CHECK(stack({tensor(1.0), tensor(2.0)}).shape() == Shape{2});
  CHECK(stack({x, x}, -1).shape() == Shape{2, 3, 2});
}

TEST_CASE("split and chunk: PyTorch's sizes") {
  auto sizes = [](const std::vector<Tensor>& pieces) {
    std::vector<std::int64_t> list;
    for (const Tensor& t : pieces) list.push_back(t.size(0));
    return list;
  };
  using Sizes = std::vector<std::int64_t>;
  const Tensor x = arange(10);
  CHECK(sizes(split(x, 4)) == Sizes{4, 4, 2});
  CHECK(sizes(split(x, 10)) == Sizes{10});
  CHECK(sizes(split(x, Sizes{0, 3, 7})) == Sizes{0, 3, 7});
  CHECK(sizes(chunk(x, 4)) == Sizes{3, 3, 3, 1});
  CHECK(sizes(chunk(x, 6)) == Sizes{2, 2, 2, 2, 2});
  CHECK(sizes(chunk(x, 20)) == Sizes(10, 1));
  CHECK(sizes(chunk(zeros({0}), 3)) == Sizes{0, 0, 0});
  CHECK(sizes(split(zeros({0}), 3)) == Sizes{0});
  CHECK(throws<UsageError>([&] { split(x, 0); }, {"[split]", "0"}));
  CHECK(throws<UsageError>([&] { split(x, Sizes{4, 4}); }, {"[split]", "add up to 8", "10"}));
  CHECK(throws<UsageError>([&] { split(x, Sizes{11, -1}); }, {"[split]"}));
  CHECK(throws<UsageError>([&] { chunk(x, 0); }, {"[chunk]"}));
  CHECK(throws<UsageError>([&] { chunk(tensor(1.0), 2); }, {"[chunk] a 0-dim"}));
}

TEST_CASE("split: a piece that is not used gets zeros") {
  const Tensor x = arange(0, 6, 1.0).requires_grad_();
  const std::vector<Tensor> pieces = split(x, 2);
  (pieces[0].sum() + (pieces[2] * 3.0).sum()).backward();
  CHECK(close(x.grad(), {1, 1, 0, 0, 3, 3}));
}

TEST_CASE("to: copies between devices and types are differentiable; the same gives itself") {
  const Tensor x = tensor({1.5, -2.5}, {.requires_grad = true});
  CHECK(x.to(dev(0)).is_same(x));
  CHECK(x.to(float32).is_same(x));
  CHECK(x.contiguous().is_same(x));
  CHECK(!x.clone().is_same(x));
  const Tensor y = x.to(dev(1)).to(float64).clone();
  CHECK(y.device() == dev(1));
  y.backward(tensor({2.0, 3.0}, {.dtype = float64, .device = dev(1)}));
  CHECK(x.grad().device() == dev(0));
  CHECK(x.grad().dtype() == float32);
  CHECK(close(x.grad(), {2, 3}));
  CHECK(!x.to(int64).requires_grad());
  CHECK(doubles(x.to(int64)) == std::vector<double>{1, -2});
}
