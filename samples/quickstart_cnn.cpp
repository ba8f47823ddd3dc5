// The classic second script: two convolutions, random images, and the loss of each epoch.
//
//   quickstart_cnn --batch 128 --devices 2
//
// Under the same seed the losses are those of the PyTorch script, and the number of devices does
// not change them. Read quickstart.cpp first; train_cnn.cpp trains on real images.
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include <tandem/tandem.h>

#include "command_line.h"

using namespace tandem;

namespace {

struct Options {
  std::uint64_t seed = 0;
  std::string devices = "1";
  std::int64_t batch = 32;
  int epochs = 3;
  double lr = 1e-3;
};

void run(const Options& options) {
  const std::vector<Device> devices = devices_named(options.devices);
  manual_seed(options.seed);

  const DeviceScope on_first(devices.front());  // weights and data start on the first device
  nn::Sequential model{nn::Conv2d(3, 64, 3, {.padding = 1}),
                       nn::ReLU(),
                       nn::MaxPool2d(2),
                       nn::Conv2d(64, 128, 3, {.padding = 1}),
                       nn::ReLU(),
                       nn::AdaptiveAvgPool2d(1),
                       nn::Flatten(),
                       nn::Linear(128, 10)};
  parallel::DataParallel net(model, {.devices = devices});
  optim::Adam optimizer(model.parameters(), {.lr = options.lr});
  const Tensor images = randn({1000, 3, 32, 32});
  const Tensor labels = randint(0, 10, {1000});
  const data::DataLoader loader({images, labels}, {.batch_size = options.batch, .shuffle = true});

  for (int epoch = 1; epoch <= options.epochs; ++epoch) {
    const auto start = std::chrono::steady_clock::now();
    double loss_sum = 0;
    for (auto&& [x, y] : loader) {
      optimizer.zero_grad();
      const Tensor loss = nn::cross_entropy(net(x), y);
      loss.backward();
      optimizer.step();
      loss_sum += loss.item<double>();
    }
    const double ms =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    std::printf("Epoch %d: Loss=%.4f  %.1f ms per step\n", epoch, loss_sum / double(loader.size()),
                ms / double(loader.size()));
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CommandLine line("Trains two convolutions on random images, on one or more devices.");
  line.add("--seed", options.seed, "Seed of weights and data");
  line.add("--devices", options.devices, "How many, or which: 2, cpu:0,cpu:1, or cuda");
  line.add("--batch", options.batch, "Rows of a step");
  line.add("--epochs", options.epochs);
  line.add("--lr", options.lr, "Learning rate of Adam");
  return line.run(argc, argv, [&] {
    run(options);
    return 0;
  });
}
