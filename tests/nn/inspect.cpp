// How gradients stand: norms by hand, what is missing, what is not finite.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <sstream>

#include <tandem/nn/inspect.h>

#include "tests/nn/nets.h"

using namespace tandem;
using namespace tandem::test;

TEST_CASE("gradients: every parameter is there, with the norm of its gradient or without one") {
  Net net;
  net.fc1.bias.requires_grad_(false);
  net.fc1.weight.set_grad(full({4, 3}, -0.5));
  net.fc2.bias.set_grad(tensor({3.0, 4.0}));
  const std::vector<nn::GradientState> states = nn::gradient_states(net);
  REQUIRE(states.size() == 4);
  CHECK(states[0].name == "fc1.weight");
  CHECK(states[0].shape == Shape{4, 3});
  CHECK(states[0].defined);
  CHECK(states[0].norm == doctest::Approx(0.5 * std::sqrt(12)).epsilon(1e-14));
  CHECK(states[0].max_abs == 0.5);
  CHECK(!states[1].requires_grad);
  CHECK(!states[1].defined);
  CHECK(states[2].requires_grad);
  CHECK(!states[2].defined);
  CHECK(states[3].norm == 5);
  CHECK(states[3].max_abs == 4);
  CHECK(states[3].non_finite == 0);

  std::ostringstream out;
  nn::print_gradients(net, out);
  CHECK(out.str() ==
        "parameter   shape         norm     max |g|  not finite\n"
        "fc1.weight  (4, 3)       1.732         0.5           0\n"
        "fc1.bias    (4,)        frozen\n"
        "fc2.weight  (2, 4)        none\n"
        "fc2.bias    (2,)             5           4           0\n");
}

TEST_CASE("gradients: what is not finite is counted, in every floating type") {
  constexpr double inf = std::numeric_limits<double>::infinity();
  for (const DType dtype : {float16, bfloat16, float32, float64}) {
    CAPTURE(dtype);
    nn::Linear layer(2, 2, {.bias = false});
    layer.to(dtype);
    layer.weight.set_grad(tensor({1.0, inf, 2.0, 0.5}).view({2, 2}).to(dtype));
    nn::GradientState state = nn::gradient_states(layer)[0];
    CHECK(state.non_finite == 1);
    CHECK(state.max_abs == inf);
    layer.weight.set_grad(tensor({1.0, -inf, std::nan(""), 3.0}).view({2, 2}).to(dtype));
    state = nn::gradient_states(layer)[0];
    CHECK(state.non_finite == 2);
    CHECK(std::isnan(state.max_abs));
    CHECK(std::isnan(state.norm));
  }
}
