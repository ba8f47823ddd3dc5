// How the gradients of a model stand after a backward: for the hour in which it does not learn.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include <tandem/nn/module.h>

namespace tandem::nn {

struct GradientState {
  std::string name{};
  Shape shape{};
  bool requires_grad = false;
  bool defined = false;         // has a backward reached it since zero_grad()?
  double norm = 0;              // sqrt(sum g^2), in double
  double max_abs = 0;           // NaN if any is
  std::int64_t non_finite = 0;  // how many are infinite or NaN
};

/// Of every parameter, in visit order, tied ones once. Waits for devices and copies to the host.
std::vector<GradientState> gradient_states(Module& model);

/// The same as a table: name, shape, and the norm, or "none", or "frozen".
void print_gradients(Module& model, std::ostream& out);

}  // namespace tandem::nn
