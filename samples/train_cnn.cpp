// Trains a small convolutional network on real images, on as many devices as you like.
//
//   train_cnn --devices 2                                       handwritten digits
//   train_cnn --data fashion-mnist --epochs 2 --devices 2 --save cnn.safetensors
//   train_cnn --data fashion-mnist --load cnn.safetensors --schedule cosine
//
// What it prints is what train_mlp prints; the loop, too, is the one of training.h.
#include "training.h"

using namespace tandem;

namespace {

/// Conv 32 - ReLU - pool - Conv 64 - ReLU - pool - Linear 128 - ReLU - Linear: each pool halves the
/// image.
nn::Sequential cnn(const sample::Data& data) {
  const std::int64_t rest = (data.height() / 4) * (data.width() / 4);
  return {nn::Conv2d(data.channels(), 32, 3, {.padding = 1}),
          nn::ReLU(),
          nn::MaxPool2d(2),
          nn::Conv2d(32, 64, 3, {.padding = 1}),
          nn::ReLU(),
          nn::MaxPool2d(2),
          nn::Flatten(),
          nn::Linear(64 * rest, 128),
          nn::ReLU(),
          nn::Linear(128, data.classes)};
}

}  // namespace

int main(int argc, char** argv) {
  sample::Options options{.lr = 1e-3};
  CommandLine line("Trains a convolutional network on images, on one or more devices.");
  sample::add_options(line, options);
  return line.run(argc, argv, [&] {
    const DeviceScope on_first(devices_named(options.devices).front());  // weights and data
    const sample::Data data = sample::load_data(options.data);
    manual_seed(options.seed);
    nn::Sequential model = cnn(data);
    return sample::train(model, data, options);
  });
}
