// How many launches it takes to send parameters to replicas, and to bring gradients home.
#include <doctest/doctest.h>

#include "runtime/cudasim.h"
#include "tests/support/check.h"

#include <tandem/tandem.h>

using namespace tandem;
using namespace tandem::test;

namespace {

// 62 parameters, none of which fills its slot of a flat block.
struct Deep : nn::Layer {
  std::vector<nn::Linear> layers{31, nn::Linear(5, 5)};
  Deep() {
    for (auto& l : layers) l = nn::Linear(5, 5);
  }
  Tensor forward(const Tensor& x) override {
    Tensor y = x;
    for (auto& l : layers) y = l(y);
    return y;
  }
  void visit(nn::Visitor& v) override { v("layers", layers); }
};

int launches() {
  for (int i = 0; i < 2; ++i) backend(cuda(i)).synchronize();
  return int(cudasim::statistics().kernels_launched) + cudasim::calls("cudaMemcpyAsync") +
         cudasim::calls("cudaMemcpyPeerAsync");
}

}  // namespace

TEST_CASE("pack: parameters and gradients of a deep module travel in a few launches") {
  const DeviceScope on_first(cuda(0));
  Deep model;
  REQUIRE(model.parameters().size() == 62);
  parallel::DataParallel net(model, {.devices = {cuda(0), cuda(1)}});
  optim::SGD optimizer(model.parameters(), {.lr = 0.01});
  const Tensor x = random_tensor({4, 5}, 1, float32, cuda(0));
  const auto step = [&](auto&& f) {
    optimizer.zero_grad();
    const int before = launches();
    const Tensor y = f(x);
    const int forward = launches();
    mean(y * y).backward();
    const int backward = launches();
    optimizer.step();
    return std::pair{forward - before, backward - forward};
  };
  const auto one = [&](const Tensor& t) { return model(t); };
  const auto two = [&](const Tensor& t) { return net(t); };
  step(two), step(one);
  const auto alone = step(one), both = step(two);
  // On top of the layers of both replicas: packing and the zeros of the gaps, a copy, unpacking;
  // the chunks of x and y; a bucket's sum. One by one it were 190 and 243.
  CHECK(both.first - 2 * alone.first < 16);
  CHECK(both.second - 2 * alone.second < 16);
}
