// Trains an MLP on handwritten digits, on as many devices as you like, and shows what that costs.
//
//   train_mlp --devices 2                 two logical CPU devices
//   train_mlp --devices cpu:0,cpu:3 --batch 128 --accumulate 4
//
// A line per epoch; then the memory of each device by category, the phases of one training step,
// and the accuracy on digits that were not trained on. Ctrl-C ends it with status 130.
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include <tandem/tandem.h>

using namespace tandem;

namespace {

struct Options {
  std::string devices = "1";
  std::int64_t batch = 64;
  int epochs = 20;
  double lr = 2e-3;
  std::uint64_t seed = 0;
  std::int64_t accumulate = 1;
  std::string data = TANDEM_DIGITS;
};

struct Mlp : nn::Layer {
  nn::Linear fc1{64, 128}, fc2{128, 64}, fc3{64, 10};

  Tensor forward(const Tensor& x) override { return fc3(relu(fc2(relu(fc1(x))))); }
  void visit(nn::Visitor& v) override { v("fc1", fc1), v("fc2", fc2), v("fc3", fc3); }
};
using Net = parallel::DataParallel<Mlp>;

volatile std::sig_atomic_t interrupted = 0;

/// One line that is drawn over and over; nothing unless standard output is a terminal.
class ProgressBar {
 public:
  ProgressBar(int epoch, std::int64_t steps) : epoch_(epoch), steps_(steps) {}
  ~ProgressBar() {
    if (on_) std::fputs("\r\033[K", stdout);
  }
  void show(std::int64_t step, double loss) {
    if (!on_) return;
    constexpr int kWidth = 30;
    const int done = int(kWidth * step / steps_);
    std::printf("\repoch %2d [%s%s] %3d%%  loss %.4f", epoch_, std::string(done, '=').c_str(),
                std::string(kWidth - done, ' ').c_str(), int(100 * step / steps_), loss);
    std::fflush(stdout);
  }

 private:
  bool on_ = isatty(STDOUT_FILENO) == 1;
  int epoch_;
  std::int64_t steps_;
};

std::int64_t count_right(const Tensor& logits, const Tensor& y) {
  return (logits.detach().argmax(1) == y).to(int64).sum().item<std::int64_t>();
}

double accuracy(Net& net, const data::TensorDataset& dataset) {
  const NoGrad no_grad;
  return double(count_right(net(dataset.x), dataset.y)) / double(dataset.size());
}

struct Sums {
  double loss = 0;  // of all rows
  std::int64_t right = 0, rows = 0;
};

/// Gradients of the batch's mean loss. In `pieces` micro-batches the gradients of one after the
/// other add up, so each loss is weighted by its share of the rows; the parameters are sent only
/// once.
Sums forward_backward(Net& net, const data::Batch& batch, std::int64_t pieces) {
  Sums sums{.rows = batch.x.size(0)};
  const std::vector<Tensor> xs = batch.x.chunk(pieces), ys = batch.y.chunk(pieces);
  for (std::size_t i = 0; i < xs.size(); ++i) {
    const double rows = double(xs[i].size(0));
    const Tensor logits = net(xs[i]);
    const Tensor loss = nn::cross_entropy(logits, ys[i]);
    (loss * (rows / double(sums.rows))).backward();
    sums.loss += rows * loss.item<double>();
    sums.right += count_right(logits, ys[i]);
  }
  return sums;
}

/// Nothing if Ctrl-C came in between.
std::optional<Sums> train_epoch(Net& net, optim::Optimizer& optimizer,
                                const data::DataLoader& loader, const Options& options, int epoch) {
  ProgressBar bar(epoch, loader.size());
  Sums total;
  std::int64_t step = 0;
  for (const data::Batch& batch : loader) {
    if (interrupted) return {};
    optimizer.zero_grad();
    const Sums sums = forward_backward(net, batch, options.accumulate);
    optimizer.step();
    total.loss += sums.loss;
    total.right += sums.right;
    total.rows += sums.rows;
    bar.show(++step, sums.loss / double(sums.rows));
  }
  return total;
}

int run(const Options& options) {
  const std::vector<Device> devices = parse_devices(options.devices);
  const DeviceScope on_first(devices.front());  // weights and data are on the first device
  const auto [train, test] = data::split_digits(data::read_digits(options.data));

  manual_seed(options.seed);
  Mlp model;
  Net net(model, {.devices = devices});
  optim::Adam optimizer(model.parameters(), {.lr = options.lr});
  const data::DataLoader loader(train, {.batch_size = options.batch, .shuffle = true});

  double test_accuracy = 0;
  parallel::StepReport step;
  for (int epoch = 1; epoch <= options.epochs; ++epoch) {
    const auto start = std::chrono::steady_clock::now();
    const std::optional<Sums> sums = train_epoch(net, optimizer, loader, options, epoch);
    if (!sums) return 128 + SIGINT;
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    step = net.last_step();
    test_accuracy = accuracy(net, test);
    std::printf("epoch %2d  loss %.4f  train accuracy %.4f  test accuracy %.4f  %.0f samples/s\n",
                epoch, sums->loss / double(sums->rows), double(sums->right) / double(sums->rows),
                test_accuracy, double(sums->rows) / seconds);
    std::fflush(stdout);
  }
  std::cout << "\nmemory at its peak, by what it is for\n" << memory::table(devices, true);
  std::cout << "\nthe last training step\n" << step;
  std::printf("\ntest accuracy %.4f\n", test_accuracy);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app{"Trains an MLP on handwritten digits, on one or more devices."};
  app.option_defaults()->always_capture_default();
  app.add_option("--devices", options.devices, "How many, or which: 2, or cpu:0,cpu:1");
  app.add_option("--batch", options.batch, "Rows of a step")->check(CLI::Range(1, 1000000));
  app.add_option("--epochs", options.epochs)->check(CLI::Range(1, 1000000));
  app.add_option("--lr", options.lr, "Learning rate of Adam");
  app.add_option("--seed", options.seed, "Seed of weights and shuffles");
  app.add_option("--accumulate", options.accumulate, "Micro-batches that a step is computed in")
      ->check(CLI::Range(1, 1000000));
  app.add_option("--data", options.data, "Digits as .csv or .csv.gz");
  CLI11_PARSE(app, argc, argv);

  std::signal(SIGINT, [](int) { interrupted = 1; });
  try {
    return run(options);
  } catch (const std::exception& e) {
    std::cerr << "train_mlp: " << e.what() << "\n";
    return 1;
  }
}
