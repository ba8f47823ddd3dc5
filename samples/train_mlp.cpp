// Trains an MLP on handwritten digits, on as many devices as you like, and shows what that costs.
//
//   train_mlp --devices 2                 two logical CPU devices
//   train_mlp --devices cpu:0,cpu:3 --batch 128 --accumulate 4
//
// A line per epoch; then the memory of each device by category, the phases of one training step,
// and the accuracy on digits that were not trained on. Ctrl-C ends it with status 130. The loop
// stands in training.h.
#include "training.h"

using namespace tandem;

namespace {

struct Mlp : nn::Layer {
  nn::Linear fc1, fc2, fc3;

  Mlp(std::int64_t pixels, std::int64_t classes)
      : fc1(pixels, 128), fc2(128, 64), fc3(64, classes) {}

  Tensor forward(const Tensor& x) override { return fc3(relu(fc2(relu(fc1(x.flatten(1)))))); }
  void visit(nn::Visitor& v) override { v("fc1", fc1), v("fc2", fc2), v("fc3", fc3); }
};

}  // namespace

int main(int argc, char** argv) {
  sample::Options options;
  CommandLine line("Trains an MLP on images, on one or more devices.");
  sample::add_options(line, options);
  return line.run(argc, argv, [&] {
    const DeviceScope on_first(devices_named(options.devices).front());  // weights and data
    const sample::Data data = sample::load_data(options.data);
    manual_seed(options.seed);
    Mlp model(data.pixels(), data.classes);
    return sample::train(model, data, options);
  });
}
