// Writing in place: one write of the slot, other types and devices, and what is refused untouched.
#include <doctest/doctest.h>

#include "tests/support/check.h"

#include <tandem/core/ops/factories.h>
#include <tandem/core/ops/pointwise.h>
#include <tandem/core/ops/views.h>
#include <tandem/core/thread_state.h>

using namespace tandem;
using namespace tandem::test;

TEST_CASE("in place: the value, seen by all copies of the handle, counted as one write") {
  Tensor x = tensor({1.0, 2.0});
  const Tensor same = x;
  const Tensor two = tensor({2.0, 2.0}), three = tensor(3);
  struct Step {
    const char* name;
    std::function<void()> write;
    std::vector<double> expected;
  };
  const std::vector<Step> steps{{"add_", [&] { x.add_(two); }, {3, 4}},
                                {"add_ alpha", [&] { x.add_(two, 0.5); }, {4, 5}},
                                {"sub_", [&] { x.sub_(two, 2); }, {0, 1}},
                                {"add_ int", [&] { x.add_(three); }, {3, 4}},
                                {"mul_", [&] { x.mul_(two); }, {6, 8}},
                                {"mul_ number", [&] { x.mul_(0.5); }, {3, 4}},
                                {"div_", [&] { x.div_(2); }, {1.5, 2}},
                                {"fill_", [&] { x.fill_(7); }, {7, 7}},
                                {"copy_", [&] { x.copy_(two); }, {2, 2}},
                                {"copy_ broadcast", [&] { x.copy_(three); }, {3, 3}},
                                {"zero_", [&] { x.zero_(); }, {0, 0}}};
  for (const Step& step : steps) {
    INFO(step.name);
    const auto version = x.version();
    step.write();
    CHECK(same.version() == version + 1);
    CHECK(doubles(same) == step.expected);
  }
}

TEST_CASE("copy_: any device, dtype and strides") {
  Tensor x = zeros({3, 2}, {.dtype = float64}), t = x.t();
  t.copy_(arange(6).view({2, 3}).to(dev(1)));
  CHECK(doubles(x) == std::vector<double>{0, 3, 1, 4, 2, 5});
  x.copy_(tensor({7.0, 8.0}, {.dtype = float16, .device = dev(2)}));
  CHECK(doubles(x) == std::vector<double>{7, 8, 7, 8, 7, 8});
  CHECK(throws<UsageError>([&] { x.copy_(zeros({3})); }, {"[copy_]"}));
  CHECK(throws<UsageError>([&] { x.copy_(zeros({1, 3, 2})); }, {"[copy_]", "(1, 3, 2)"}));
  CHECK(throws<UsageError>([&] { x.copy_(Tensor()); }, {"[copy_] argument from is undefined"}));
}

TEST_CASE("in place: refused where a gradient would be lost, and nothing is written") {
  Tensor w = ones({2}, {.requires_grad = true}), x = ones({2});
  Tensor hidden = w * 2.0;
  const auto version = w.version();
  for (auto write : std::initializer_list<std::function<void()>>{
           [&] { w.add_(x); }, [&] { w.mul_(2.0); }, [&] { w.fill_(0); }, [&] { w.copy_(x); },
           [&] { hidden.div_(2.0); }, [&] { hidden.zero_(); }}) {
    CHECK(throws<UsageError>(write, {"NoGrad"}));
  }
  CHECK(w.version() == version);
  for (auto write : std::initializer_list<std::function<void()>>{
           [&] { x.add_(w); }, [&] { x.copy_(hidden); }, [&] { x.mul_(w); }}) {
    CHECK(throws<UsageError>(write, {"would be lost", "detach()"}));
  }
  CHECK(doubles(x) == std::vector<double>{1, 1});
  const NoGrad no_grad;
  w.sub_(hidden, 0.25);
  CHECK(doubles(w) == std::vector<double>{0.5, 0.5});
}

TEST_CASE("in place: refused if the result does not fit, and nothing is written") {
  Tensor n = tensor({1, 2}), x = ones({2});
  Tensor wide = ones({1}).expand({2});
  const auto version = n.version();
  CHECK(throws<UsageError>([&] { n.add_(tensor({0.5, 0.5})); }, {"[add_]", "float32", "int64"}));
  CHECK(throws<UsageError>([&] { n.mul_(0.5); }, {"[mul_]", "float32", "int64"}));
  CHECK(throws<UsageError>([&] { n.add_(tensor({1, 1}), 0.5); }, {"[add_] alpha 0.5"}));
  CHECK(throws<UsageError>([&] { n.div_(2); }, {"[div_]", "int64"}));
  CHECK(throws<UsageError>([&] { x.add_(ones({3})); }, {"[add_]", "(2,)", "(3,)"}));
  CHECK(throws<UsageError>([&] { x.add_(ones({4, 2})); }, {"[add_]", "(4, 2)"}));
  CHECK(throws<UsageError>([&] { wide.add_(x); }, {"[add_]", "expanded", "clone()"}));
  CHECK(throws<UsageError>([&] { wide.copy_(x); }, {"[copy_]", "expanded"}));
  CHECK(throws<UsageError>([&] { Tensor().fill_(1); }, {"[fill_] argument self is undefined"}));
  CHECK(n.version() == version);
  CHECK(doubles(n) == std::vector<double>{1, 2});
}

TEST_CASE("in place: integers stay exact") {
  Tensor n = tensor(std::int64_t(1) << 60);
  n.add_(tensor(1));
  CHECK(n.item<std::int64_t>() == (std::int64_t(1) << 60) + 1);
}
