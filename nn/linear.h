// Linear: y = x weight^T + bias, the fully connected layer.
//
// Weights start as PyTorch's do, bit for bit under the same seed (init.h). Next: activations.h,
// sequential.h.
#pragma once

#include <cstdint>
#include <string>

#include <tandem/nn/module.h>

namespace tandem::nn {

struct LinearOptions {
  bool bias = true;
};

/// x (..., in) -> (..., out). Made on the thread's default device, in float32.
struct Linear : Layer {
  Tensor weight;  // (out, in)
  Tensor bias;    // (out), or undefined

  Linear(std::int64_t in_features, std::int64_t out_features, const LinearOptions& options = {});

  std::int64_t in_features() const { return weight.size(1); }
  std::int64_t out_features() const { return weight.size(0); }

  Tensor forward(const Tensor& x) override;
  void visit(Visitor& v) override;
  std::string describe() const override;
};

}  // namespace tandem::nn
