// What is counted of the work of a thread: core/trace.h. Copies are tested in array_test.cpp.
#include <doctest/doctest.h>

#include <thread>

#include "tests/support/check.h"

#include <tandem/core/array_ops.h>
#include <tandem/core/ops/conv.h>
#include <tandem/core/ops/factories.h>
#include <tandem/core/ops/linalg.h>
#include <tandem/core/ops/reduce.h>
#include <tandem/core/thread_state.h>
#include <tandem/core/trace.h>

using namespace tandem;
using namespace tandem::test;

namespace {

template <class F>
std::int64_t flops_of(F f) {
  const std::int64_t before = trace::flops();
  f();
  return trace::flops() - before;
}

}  // namespace

TEST_CASE("trace: a matrix product is 2 M K N operations, a batch of them as many times that") {
  const Tensor a = zeros({3, 4}), b = zeros({4, 5});
  CHECK(flops_of([&] { matmul(a, b); }) == 2 * 3 * 4 * 5);
  CHECK(flops_of([&] { matmul(zeros({7, 3, 4}), zeros({7, 4, 5})); }) == 7 * 2 * 3 * 4 * 5);
  CHECK(flops_of([&] { matmul(b.t(), a.t()); }) == 2 * 3 * 4 * 5);
  CHECK(flops_of([&] { matmul(zeros({3, 0}), zeros({0, 5})); }) == 0);
  Array c = Array::zeros({3, 5}, float32, dev(0));
  CHECK(flops_of([&] { gemm_accumulate(a.array(), b.array(), c); }) == 2 * 3 * 4 * 5);
  CHECK(flops_of([&] { a + a; }) == 0);
}

TEST_CASE("trace: the backward of a linear layer costs twice its forward, or once without dx") {
  Tensor x = zeros({8, 3}).requires_grad_();
  const Tensor weight = zeros({5, 3}).requires_grad_(), bias = zeros({5}).requires_grad_();
  const std::int64_t forward = 2 * 8 * 3 * 5;
  CHECK(flops_of([&] { sum(linear(x, weight, bias)).backward(); }) == 3 * forward);
  x.requires_grad_(false);
  CHECK(flops_of([&] { sum(linear(x, weight, bias)).backward(); }) == 2 * forward);
}

TEST_CASE("trace: a convolution costs 2 operations per output and weight of its channel") {
  const Tensor x = zeros({2, 4, 6, 6}).requires_grad_();
  const Tensor weight = zeros({8, 2, 3, 3}).requires_grad_(), bias = zeros({8}).requires_grad_();
  const ConvOptions options{.stride = 2, .padding = 1, .groups = 2};  // -> (2, 8, 3, 3)
  const std::int64_t forward = 2 * (2 * 8 * 3 * 3) * (2 * 3 * 3);
  CHECK(flops_of([&] { conv2d(x, weight, bias, options); }) == forward);
  CHECK(flops_of([&] { sum(conv2d(x, weight, bias, options)).backward(); }) == 3 * forward);
}

TEST_CASE("trace: a product that is refused costs nothing, and threads count for themselves") {
  CHECK(flops_of([] {
          CHECK_THROWS(
              gemm(Array::zeros({2, 3}, float32, dev(0)), Array::zeros({2, 3}, float32, dev(0))));
        }) == 0);
  std::int64_t there = 0;
  const std::int64_t here = flops_of([&] {
    std::thread([&] {
      const DeviceScope scope(dev(0));
      there = flops_of([] { matmul(zeros({2, 3}), zeros({3, 2})); });
    }).join();
  });
  CHECK(here == 0);
  CHECK(there == 24);
}
