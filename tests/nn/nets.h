// Modules that the tests of nn/ share.
#pragma once

#include <tandem/core/ops/factories.h>
#include <tandem/core/ops/linalg.h>
#include <tandem/core/ops/pointwise.h>
#include <tandem/nn/activations.h>
#include <tandem/nn/linear.h>
#include <tandem/nn/sequential.h>

namespace tandem::test {

/// Two layers, a buffer and a setting.
struct Net : nn::Layer {
  nn::Linear fc1{3, 4}, fc2{4, 2};
  Tensor mean = tensor({0.5, 0.25, 0.125});
  int steps = 0;

  Tensor forward(const Tensor& x) override { return fc2(relu(fc1(x - mean))); }
  void visit(nn::Visitor& v) override {
    v("fc1", fc1);
    v("fc2", fc2);
    v.buffer("mean", mean);
    v("steps", steps);
  }
};

/// One weight under two names.
struct Tied : nn::Layer {
  nn::Linear in{3, 3, {.bias = false}}, out{3, 3, {.bias = false}};

  Tied() { out.weight = in.weight; }
  Tensor forward(const Tensor& x) override { return out(in(x)); }
  void visit(nn::Visitor& v) override {
    v("in", in);
    v("out", out);
  }
};

}  // namespace tandem::test
