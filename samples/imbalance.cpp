// Why the first device is full, and what helps: a wide output layer on four devices.
//
//   imbalance --devices 4
//
// DataParallel gathers outputs on the first device, so the loss and its gradient, for all rows, are
// there too, beside the parameters, the summed gradients and the optimizer's state. The cures are
// switched on one by one; each line of the last table is one training step, and all of them give
// the same loss. Read docs/data_parallel.md for the reasons.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include <tandem/tandem.h>

#include "command_line.h"

using namespace tandem;

namespace {

constexpr std::int64_t kInputs = 64;

struct Options {
  std::string devices = "4";
  std::int64_t batch = 960;
  std::int64_t classes = 8192;
};

/// One layer with a wide output, as word models end in.
struct Wide : nn::Layer {
  nn::Linear out;

  explicit Wide(std::int64_t classes) : out(kInputs, classes) {}
  Tensor forward(const Tensor& x) override { return out(x); }
  void visit(nn::Visitor& v) override { v("out", out); }
};

/// The same weights every time.
Wide fresh_model(const Options& options) {
  manual_seed(1);
  return Wide(options.classes);
}

Tensor cross_entropy(const Tensor& logits, const Tensor& y) {
  return nn::cross_entropy(logits, y);
}

/// Where the first device's memory stands: what was in use at the peak of one training step.
struct Result {
  const char* name;
  double loss;
  std::vector<double> peak;  // MiB per device

  double first_over_mean() const {
    double sum = 0;
    for (double p : peak) sum += p;
    return peak[0] * double(peak.size()) / sum;
  }
};

/// Trains for two steps (the first makes the optimizer's state) and looks at the second.
Result measure(const char* name, const std::vector<Device>& devices, Wide& model,
               const std::function<Tensor()>& loss_of_batch) {
  optim::Adam optimizer(model.parameters(), {.lr = 1e-3});
  Result result{name, 0, {}};
  for (int step = 0; step < 2; ++step) {
    for (Device d : devices) memory::reset_peak(d);
    optimizer.zero_grad();
    const Tensor loss = loss_of_batch();
    loss.backward();
    optimizer.step();
    result.loss = loss.item<double>();
  }
  std::cout << name << ": at its peak\n" << memory::table(devices, true) << "\n";
  for (Device d : devices) {
    result.peak.push_back(double(memory::stats(d).peak_allocated) / (1 << 20));
  }
  return result;
}

/// Chunk weights that fill all devices alike. A row takes its logits, their softmax and their
/// gradient, 3 C floats; the first device also has Adam's two numbers for each parameter.
parallel::ChunkOptions fewer_rows_on_first(const Options& options, std::size_t devices) {
  const double parameters = double((kInputs + 1) * options.classes);
  const double in_rows = 2 * parameters / double(3 * options.classes);
  const double others = (double(options.batch) + in_rows) / double(devices);
  std::vector<double> weights(devices, others);
  weights[0] = std::max(others - in_rows, 0.0);
  return {.weights = weights};
}

void print(const std::vector<Result>& results) {
  std::printf("%-28s %9s %12s %13s %17s\n", "", "loss", "first, MiB", "others, MiB",
              "first over mean");
  for (const Result& r : results) {
    double others = 0;
    for (std::size_t rank = 1; rank < r.peak.size(); ++rank)
      others = std::max(others, r.peak[rank]);
    std::printf("%-28s %9.4f %12.1f %13.1f %17.2f\n", r.name, r.loss, r.peak[0], others,
                r.first_over_mean());
  }
}

void run(const Options& options) {
  const std::vector<Device> devices = devices_named(options.devices);
  const DeviceScope on_first(devices.front());
  manual_seed(0);
  const Tensor x = randn({options.batch, kInputs});
  const Tensor y = randint(0, options.classes, {options.batch});
  std::vector<Result> results;

  {  // Everything comes to the first device.
    Wide model = fresh_model(options);
    parallel::DataParallel net(model, {.devices = devices});
    results.push_back(
        measure("the usual way", devices, model, [&] { return cross_entropy(net(x), y); }));
  }
  {  // Outputs stay where they are. The mean over all rows is the sum of the devices' means, each
     // times its share of the rows.
    Wide model = fresh_model(options);
    parallel::DataParallel net(model, {.devices = devices});
    const std::vector<Tensor> targets = parallel::scatter(y, devices);
    results.push_back(measure("scattered outputs", devices, model, [&] {
      const std::vector<Tensor> logits = net.scattered(x);
      Tensor loss = zeros({});
      for (std::size_t rank = 0; rank < logits.size(); ++rank) {
        const double share = double(logits[rank].size(0)) / double(y.size(0));
        loss = loss + (cross_entropy(logits[rank], targets[rank]) * share).to(devices[0]);
      }
      return loss;
    }));
  }
  {  // The loss is part of what the replicas compute; one number each is gathered.
    Wide model = fresh_model(options);
    auto whole = parallel::with_loss(model, cross_entropy);
    parallel::DataParallel net(whole, {.devices = devices});
    results.push_back(measure("with_loss", devices, model, [&] { return net(x, y); }));
  }
  {  // And the first device gets fewer rows, since it holds the optimizer's state as well.
    Wide model = fresh_model(options);
    auto whole = parallel::with_loss(model, cross_entropy);
    parallel::DataParallel net(
        whole, {.devices = devices, .chunks = fewer_rows_on_first(options, devices.size())});
    results.push_back(
        measure("with_loss and chunk weights", devices, model, [&] { return net(x, y); }));
  }
  print(results);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CommandLine line("Shows the memory of the first device against the others', and the cures.");
  line.add("--devices", options.devices, "How many, or which: 4, cpu:0,cpu:1, or cuda");
  line.add("--batch", options.batch, "Rows of a step");
  line.add("--classes", options.classes, "Width of the output");
  return line.run(argc, argv, [&] {
    run(options);
    return 0;
  });
}
