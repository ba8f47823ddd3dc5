// Making tensors: types, devices, conversion on the way in, and what is refused.
#include <doctest/doctest.h>

#include "tests/support/check.h"

#include <tandem/core/ops/factories.h>
#include <tandem/core/ops/views.h>
#include <tandem/core/thread_state.h>

using namespace tandem;
using namespace tandem::test;

namespace {
using Values = std::vector<double>;
}  // namespace

TEST_CASE("factories: defaults are float32 on the thread's device, without gradient") {
  const Tensor x = zeros({2, 3});
  CHECK(x.dtype() == float32);
  CHECK(x.device() == dev(0));
  CHECK(!x.requires_grad());
  const DeviceScope scope(dev(2));
  CHECK(ones({1}).device() == dev(2));
  CHECK(tensor({1.0}).device() == dev(2));
  CHECK(randperm(3).device() == dev(2));
  CHECK(ones({1}, {.device = dev(1)}).device() == dev(1));
  CHECK(ones({1}, {.requires_grad = true}).requires_grad());
}

TEST_CASE("tensor: the type follows the values") {
  CHECK(tensor({1.0, 2.0}).dtype() == float32);
  CHECK(tensor({1.0f}).dtype() == float32);
  CHECK(tensor({1, 2}).dtype() == int64);
  CHECK(tensor({true}).dtype() == boolean);
  CHECK(tensor(3.0).shape() == Shape{});
  CHECK(tensor(3.0).dtype() == float32);
  CHECK(tensor(3).dtype() == int64);
  CHECK(tensor(true).dtype() == boolean);
  CHECK(tensor({1, 2}, {.dtype = float64}).dtype() == float64);
  CHECK(throws<UsageError>([] { tensor({1}, {.requires_grad = true}); }, {"int64"}));
}

TEST_CASE("from_vector: every type in, every type out") {
  const std::vector<DType> types{float32, float64, float16, bfloat16, int64, int32, uint8, boolean};
  for (DType to : types) {
    INFO(to);
    auto expected = [&](const Values& v) {
      Values list;
      for (double x : v) list.push_back(stored_as(to, x));
      return list;
    };
    const TensorOptions options{.dtype = to};
    CHECK(doubles(from_vector(std::vector<double>{0, 2.75, 100.1}, options)) ==
          expected({0, 2.75, 100.1}));
    CHECK(doubles(from_vector(std::vector<float>{0, 2.75f}, options)) == expected({0, 2.75}));
    CHECK(doubles(from_vector(std::vector<Half>{Half(2.75f)}, options)) == expected({2.75}));
    CHECK(doubles(from_vector(std::vector<BFloat16>{BFloat16(2.75f)}, options)) ==
          expected({2.75}));
    CHECK(doubles(from_vector(std::vector<std::int64_t>{0, 3}, options)) == expected({0, 3}));
    CHECK(doubles(from_vector(std::vector<long long>{0, 3}, options)) == expected({0, 3}));
    CHECK(doubles(from_vector(std::vector<std::int32_t>{0, 3}, options)) == expected({0, 3}));
    CHECK(doubles(from_vector(std::vector<std::uint8_t>{0, 255}, options)) == expected({0, 255}));
    CHECK(doubles(from_vector(std::vector<bool>{false, true}, options)) == expected({0, 1}));
  }
  CHECK(from_vector(std::vector<int>{1}).dtype() == int32);
  CHECK(from_vector(std::vector<float>{}, {0, 3}).shape() == Shape{0, 3});
  CHECK(throws<UsageError>(
      [] {
        from_vector(std::vector<float>{1, 2, 3}, {2, 2});
      },
      {"[from_vector] 3 values", "(2, 2)"}));
}

TEST_CASE("arange: integers stay integers, floats are counted from the start") {
  CHECK(arange(4).dtype() == int64);
  CHECK(doubles(arange(4)) == Values{0, 1, 2, 3});
  CHECK(doubles(arange(2, 9, 3)) == Values{2, 5, 8});
  CHECK(doubles(arange(5, 0, -2)) == Values{5, 3, 1});
  CHECK(arange(0).shape() == Shape{0});
  CHECK(arange(0, 1, 0.25).dtype() == float32);
  CHECK(close(arange(1, 2, 0.3), {1, 1.3, 1.6, 1.9}));
  CHECK(arange(0, 3, 1, {.dtype = float64}).dtype() == float64);
  CHECK(throws<UsageError>([] { arange(0, 5, -1); }, {"[arange]"}));
  CHECK(throws<UsageError>([] { arange(0, 5, 0); }, {"[arange]"}));
  CHECK(throws<UsageError>([] { arange(-1); }, {"[arange]"}));
}

TEST_CASE("eye: square, wide, tall, empty") {
  CHECK(doubles(eye(2)) == Values{1, 0, 0, 1});
  CHECK(doubles(eye(2, 3)) == Values{1, 0, 0, 0, 1, 0});
  CHECK(doubles(eye(3, 2)) == Values{1, 0, 0, 1, 0, 0});
  CHECK(eye(0).shape() == Shape{0, 0});
  CHECK(eye(2, 0).shape() == Shape{2, 0});
  CHECK(eye(2, -1, {.dtype = int64}).dtype() == int64);
  CHECK(throws<UsageError>([] { eye(-2); }, {"negative"}));
}

TEST_CASE("*_like: shape, type, device and layout of the other, no gradient") {
  const Tensor x = ones({2, 3}, {.dtype = float64, .device = dev(1)}).t().requires_grad_();
  for (const Tensor& y : {zeros_like(x), ones_like(x), full_like(x, 7), empty_like(x)}) {
    CHECK(y.shape() == Shape{3, 2});
    CHECK(y.dtype() == float64);
    CHECK(y.device() == dev(1));
    CHECK(y.array().strides() == x.array().strides());
    CHECK(!y.requires_grad());
  }
  CHECK(doubles(full_like(x, 7)) == Values(6, 7));
}

TEST_CASE("factories: sizes below zero are refused") {
  CHECK(throws<UsageError>([] { zeros({2, -1}); }, {"negative", "(2, -1)"}));
  CHECK(throws<UsageError>([] { rand({-1}); }, {"negative"}));
}

TEST_CASE("item: the only element, converted") {
  CHECK(tensor(2.5).item<double>() == 2.5);
  CHECK(tensor({2.5}).item<float>() == 2.5f);
  CHECK(tensor(2.5).item<int>() == 2);
  CHECK(tensor(0.5).item<bool>());
  const std::int64_t big = (std::int64_t(1) << 60) + 1;
  CHECK(tensor(big).item<std::int64_t>() == big);
  CHECK(throws<UsageError>([] { tensor({1, 2}).item<std::int64_t>(); }, {"[item]", "(2,)"}));
  CHECK(throws<UsageError>([] { zeros({0}).item<double>(); }, {"[item]"}));
}
