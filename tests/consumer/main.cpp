// Learns to multiply, over two devices: is the library all there?
#include <cstdio>

#include <nn/module.h>

#include "core/tensor.h"

#include <tandem/tandem.h>

using namespace tandem;

namespace {

/// A module of the project's own.
struct Net : nn::Layer {
  nn::Linear in{2, 32}, out{32, 1};

  Tensor forward(const Tensor& x) override { return out(tanh(in(x))); }
  void visit(nn::Visitor& v) override { v("in", in), v("out", out); }
};

}  // namespace

int main() {
  manual_seed(1);
  const Tensor x = rand({64, 2}) * 2 - 1;
  const Tensor y = x.slice(1, 0, 1) * x.slice(1, 1, 2);

  Net model;
  parallel::DataParallel net(model, {.devices = {cpu(0), cpu(1)}});
  optim::Adam optimizer(model.parameters(), {.lr = 1e-2});
  optim::CosineAnnealingLR schedule(optimizer, {.T_max = 200});
  double first = 0, last = 0;
  for (int step = 0; step < 200; ++step) {
    optimizer.zero_grad();
    const Tensor loss = nn::mse_loss(net(x), y);
    loss.backward();
    optimizer.step();
    schedule.step();
    last = loss.item<double>();
    if (step == 0) first = last;
  }
  const consumer::Tensor mine{.xx = 1, .yy = 2};
  std::printf("loss %.4f, then %.4f; %d modules, trace %g\n", first, last, consumer::kModules,
              mine.trace());
  return last < 0.1 * first && mine.trace() == 3 ? 0 : 1;
}
