// A training loop, twice: single_device.cpp on one device, data_parallel.cpp on two logical ones.
// Three lines differ. Both train on the digits and print nearly the same numbers.
#include <cstdio>

#include <tandem/tandem.h>

using namespace tandem;

int main() {
  manual_seed(0);
  nn::Sequential model{nn::Linear(64, 128), nn::ReLU(), nn::Linear(128, 10)};
  parallel::DataParallel net(model, {.devices = {cpu(0), cpu(1)}});
  optim::Adam optimizer(model.parameters(), {.lr = 1e-3});
  const auto [train, test] = data::split_digits(data::read_digits(TANDEM_DIGITS));
  data::DataLoader loader(train, {.batch_size = 64, .shuffle = true});

  for (int epoch = 1; epoch <= 10; ++epoch) {
    for (auto&& [x, y] : loader) {
      optimizer.zero_grad();
      Tensor loss = nn::cross_entropy(net(x), y);
      loss.backward();
      optimizer.step();
    }
    const NoGrad no_grad;
    const Tensor right = (net(test.x).argmax(1) == test.y).to(float32);
    std::printf("epoch %2d: test accuracy %.4f\n", epoch, right.mean().item<double>());
  }
}
