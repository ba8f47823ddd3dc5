// The classic first script: a small network, random data, three epochs.
//
//   quickstart --seed 0 --devices 2
//
// Under the same seed the weights, the data and the losses are those of the PyTorch script, and the
// number of devices does not change them. Read data_parallel.cpp first; train_mlp.cpp comes next.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <tandem/tandem.h>

#include "command_line.h"

using namespace tandem;

namespace {

struct Options {
  std::uint64_t seed = 0;
  std::string devices = "1";
  std::string optimizer = "adam";
  double lr = 1e-3;
  double momentum = 0;
};

struct Mlp : nn::Layer {
  nn::Linear fc1{128, 256}, fc2{256, 256}, fc3{256, 10};

  Tensor forward(const Tensor& x) override { return fc3(relu(fc2(relu(fc1(x))))); }
  void visit(nn::Visitor& v) override { v("fc1", fc1), v("fc2", fc2), v("fc3", fc3); }
};

std::unique_ptr<optim::Optimizer> make_optimizer(const Options& options,
                                                 const std::vector<Tensor>& parameters) {
  if (options.optimizer == "sgd") {
    return std::make_unique<optim::SGD>(
        parameters, optim::SGDOptions{.lr = options.lr, .momentum = options.momentum});
  }
  if (options.optimizer == "adamw") {
    return std::make_unique<optim::AdamW>(parameters, optim::AdamWOptions{.lr = options.lr});
  }
  return std::make_unique<optim::Adam>(parameters, optim::AdamOptions{.lr = options.lr});
}

void run(const Options& options) {
  const std::vector<Device> devices = devices_named(options.devices);
  manual_seed(options.seed);

  const DeviceScope on_first(devices.front());  // weights and data start on the first device
  Mlp model;
  parallel::DataParallel net(model, {.devices = devices});
  const auto optimizer = make_optimizer(options, model.parameters());

  std::vector<data::Batch> batches;
  for (int i = 0; i < 10; ++i) {
    Tensor x = randn({32, 128});
    Tensor y = randint(0, 10, {32});
    batches.push_back({x, y});
  }

  for (int epoch = 1; epoch <= 3; ++epoch) {
    double loss_sum = 0, right = 0, rows = 0;
    for (const auto& [x, y] : batches) {
      optimizer->zero_grad();
      const Tensor logits = net(x);
      const Tensor loss = nn::cross_entropy(logits, y);
      loss.backward();
      optimizer->step();

      loss_sum += loss.item<double>();
      right += eq(logits.detach().argmax(1), y).to(float32).sum().item<double>();
      rows += double(y.size(0));
    }
    std::printf("Epoch %d: Loss=%.4f, Acc=%.4f\n", epoch, loss_sum / double(batches.size()),
                right / rows);
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CommandLine line("Trains a small network on random data, on one or more devices.");
  line.add("--seed", options.seed, "Seed of weights and data");
  line.add("--devices", options.devices, "How many, or which: 2, cpu:0,cpu:1, or cuda");
  line.add("--optimizer", options.optimizer, "", {"adam", "sgd", "adamw"});
  line.add("--lr", options.lr, "Learning rate");
  line.add("--momentum", options.momentum, "Of sgd");
  return line.run(argc, argv, [&] {
    run(options);
    return 0;
  });
}
