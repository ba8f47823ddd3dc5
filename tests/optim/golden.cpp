// Optimizers against PyTorch 1.13: 50 steps with the same gradients end with the same bits.
#include <doctest/doctest.h>

#include <functional>
#include <memory>
#include <string>

#include <tandem/core/thread_state.h>
#include <tandem/optim/adam.h>
#include <tandem/optim/sgd.h>

#include "tests/optim/golden_optim.h"
#include "tests/optim/recipe.h"
#include "tests/support/bits.h"

using namespace tandem;
using namespace tandem::optim;
using namespace tandem::test;

namespace {

using Params = std::vector<Tensor>;
using Make = std::function<std::unique_ptr<Optimizer>(Params)>;

Make sgd(SGDOptions o) {
  return [o](Params p) { return std::make_unique<SGD>(p, o); };
}
Make adam(AdamOptions o = {}) {
  return [o](Params p) { return std::make_unique<Adam>(p, o); };
}
Make adamw(AdamWOptions o = {}) {
  return [o](Params p) { return std::make_unique<AdamW>(p, o); };
}

std::unique_ptr<Optimizer> two_groups(const Params& p) {
  return std::make_unique<AdamW>(std::vector<ParamGroup>{
      {.params = {p[0]}},
      {.params = {p[1], p[2]}, .options = {{"lr", 1e-2}, {"weight_decay", 0}}}});
}

struct Case {
  const char* name;
  Make make;
  DType dtype = float32;
  bool skips = false;     // parameter 1 has a gradient in every third step only
  bool schedule = false;  // a tenth of lr from step 25 on
};

/// The cases of tests/golden/make_optim.py under the same names.
const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"sgd", sgd({.lr = 0.1})},
      {"sgd weight_decay", sgd({.lr = 0.1, .weight_decay = 0.01})},
      {"sgd momentum", sgd({.lr = 0.03, .momentum = 0.9})},
      {"sgd dampening", sgd({.lr = 0.03, .momentum = 0.9, .dampening = 0.3})},
      {"sgd nesterov", sgd({.lr = 0.03, .momentum = 0.9, .weight_decay = 5e-4, .nesterov = true})},
      {"sgd maximize", sgd({.lr = 0.03, .momentum = 0.8, .weight_decay = 1e-3, .maximize = true})},
      {"sgd float64", sgd({.lr = 0.03, .momentum = 0.9, .weight_decay = 5e-4}), float64},
      {"adam", adam()},
      {"adam options", adam({.lr = 3e-3, .betas = {0.8, 0.95}, .eps = 1e-6})},
      {"adam weight_decay", adam({.lr = 1e-2, .weight_decay = 0.02})},
      {"adam amsgrad", adam({.lr = 1e-2, .amsgrad = true})},
      {"adam maximize", adam({.lr = 1e-2, .maximize = true})},
      {"adam float64", adam({.lr = 1e-2, .weight_decay = 0.02, .amsgrad = true}), float64},
      {"adamw", adamw()},
      {"adamw amsgrad", adamw({.lr = 1e-2, .weight_decay = 0.1, .amsgrad = true})},
      {"adam skips", adam({.lr = 1e-2}), float32, true},
      {"sgd schedule", sgd({.lr = 0.1, .momentum = 0.9}), float32, false, true},
      {"adamw groups", two_groups},
  };
  return all;
}

const OptimGolden& golden(const std::string& name) {
  for (const OptimGolden& g : kOptimGolden) {
    if (g.name == name) return g;
  }
  FAIL("no golden numbers for " << name);
  throw std::logic_error("not reached");
}

template <class T>
void compare_with_golden(const Case& c, Device device) {
  const OptimGolden& expected = golden(c.name);
  Params params;
  for (std::uint64_t k = 0; k < 3; ++k) {
    params.push_back(golden_tensor(0, k, c.dtype, device).requires_grad_());
  }
  const auto optimizer = c.make(params);
  const auto arrays = [&] {
    return std::vector<Array>{params[0].array(), params[1].array(), params[2].array()};
  };
  for (std::uint64_t step = 1; step <= 50; ++step) {
    for (std::uint64_t k = 0; k < 3; ++k) {
      const bool skipped = c.skips && k == 1 && step % 3 != 0;
      params[k].set_grad(skipped ? Tensor() : golden_tensor(step, k, c.dtype, device));
    }
    if (c.schedule && step == 25) optimizer->group(0)["lr"] *= 0.1;
    optimizer->step();
    if (step == 1) CHECK(fnv1a<T>(arrays()) == expected.after[0]);
    if (step == 10) CHECK(fnv1a<T>(arrays()) == expected.after[1]);
  }
  CHECK(fnv1a<T>(arrays()) == expected.after[2]);
  const std::vector<T> first = params[0].to_vector<T>();
  for (std::size_t i = 0; i < first.size(); ++i) CHECK(bits_of(first[i]) == expected.bits[i]);

  std::vector<Array> state;
  for (std::size_t slot = 0; slot < optimizer->state_names().size(); ++slot) {
    for (std::size_t k = 0; k < 3; ++k) {
      const Array& a = optimizer->state(k).tensors[slot];
      if (a.defined()) state.push_back(a);
    }
  }
  CHECK(fnv1a<T>(state) == expected.state);
}

void compare(const std::string& name, Device device = dev(0)) {
  for (const Case& c : cases()) {
    if (c.name != name) continue;
    if (c.dtype == float64) {
      compare_with_golden<double>(c, device);
    } else {
      compare_with_golden<float>(c, device);
    }
    return;
  }
  FAIL("no case " << name);
}

}  // namespace

TEST_CASE("SGD: 50 plain steps have PyTorch's bits") {
  compare("sgd");
}
TEST_CASE("SGD: weight decay has PyTorch's bits") {
  compare("sgd weight_decay");
}
TEST_CASE("SGD: momentum has PyTorch's bits") {
  compare("sgd momentum");
}
TEST_CASE("SGD: dampening spares the first step and has PyTorch's bits") {
  compare("sgd dampening");
}
TEST_CASE("SGD: nesterov momentum has PyTorch's bits") {
  compare("sgd nesterov");
}
TEST_CASE("SGD: maximize has PyTorch's bits") {
  compare("sgd maximize");
}
TEST_CASE("SGD: float64 has PyTorch's bits" * doctest::skip(!has_float64())) {
  compare("sgd float64");
}
TEST_CASE("SGD: lr changed between steps has PyTorch's bits") {
  compare("sgd schedule");
}
TEST_CASE("Adam: 50 steps with the defaults have PyTorch's bits") {
  compare("adam");
}
TEST_CASE("Adam: other lr, betas and eps have PyTorch's bits") {
  compare("adam options");
}
TEST_CASE("Adam: weight decay added to the gradient has PyTorch's bits") {
  compare("adam weight_decay");
}
TEST_CASE("Adam: amsgrad has PyTorch's bits") {
  compare("adam amsgrad");
}
TEST_CASE("Adam: maximize has PyTorch's bits") {
  compare("adam maximize");
}
TEST_CASE("Adam: float64 has PyTorch's bits" * doctest::skip(!has_float64())) {
  compare("adam float64");
}
TEST_CASE("Adam: a parameter without gradient keeps its own step count, with PyTorch's bits") {
  compare("adam skips");
}
TEST_CASE("AdamW: 50 steps with the defaults have PyTorch's bits") {
  compare("adamw");
}
TEST_CASE("AdamW: amsgrad has PyTorch's bits") {
  compare("adamw amsgrad");
}
TEST_CASE("AdamW: groups with options of their own have PyTorch's bits") {
  compare("adamw groups");
}
TEST_CASE("Adam: the second logical device gives the same bits as the first") {
  compare("adam weight_decay", dev(1));
}
