// What train_mlp and train_cnn share: options, data, and the training loop.
//
// The loop itself is train_epoch() and train() below; it is the one of data_parallel.cpp, with what
// a real program wants around it: a progress bar, micro-batches, mixed precision, clipping, a
// schedule, files, Ctrl-C, and at the end a look at where the time and the memory went. Options and
// data: training.cpp.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <tandem/io/atomic_file.h>
#include <tandem/tandem.h>

#include "command_line.h"

namespace sample {

using namespace tandem;

struct Options {
  std::string devices = "1";
  std::string data = "digits";
  std::int64_t batch = 64;
  int epochs = 20;
  double lr = 2e-3;
  std::string schedule = "none";
  std::uint64_t seed = 0;
  std::int64_t accumulate = 1;
  std::string amp = "none";
  double clip = 0;  // 0: no clipping
  std::string load{}, save{};
  bool summary = false, gradients = false;
};

/// All of them, with the values they hold as defaults.
void add_options(CommandLine& line, Options& options);

/// Images (N, C, H, W), the digits from 0 to 1, the others with mean 0 and variance 1; labels (N).
struct Data {
  data::TensorDataset train, test;
  std::int64_t classes = 10;

  std::int64_t channels() const { return train.x.size(1); }
  std::int64_t height() const { return train.x.size(2); }
  std::int64_t width() const { return train.x.size(3); }
  std::int64_t pixels() const { return channels() * height() * width(); }
};

/// "digits" (the repository's), "fashion-mnist" (Debian's dataset-fashion-mnist), a folder with the
/// files of (Fashion-)MNIST or CIFAR-10, or a .csv or .csv.gz of digits.
Data load_data(const std::string& what);

/// "none": undefined. A step is a batch.
std::unique_ptr<optim::PlannedSchedule> make_schedule(const Options& options,
                                                      optim::Optimizer& optimizer,
                                                      std::int64_t batches_per_epoch);

/// From gradients to the next batch's parameters: float16 gradients have their scale taken out,
/// all may be clipped, a step that overflowed is skipped, and the schedule moves on with the
/// others.
struct Stepper {
  optim::Optimizer& optimizer;
  std::unique_ptr<optim::PlannedSchedule> schedule;
  amp::GradScaler scaler;
  double clip = 0;
  std::int64_t skipped = 0;

  void step(const std::vector<Tensor>& parameters);
};

/// One line that is drawn over and over; nothing unless standard output is a terminal.
class ProgressBar {
 public:
  ProgressBar(int epoch, std::int64_t steps);
  ~ProgressBar();
  void show(std::int64_t step, double loss);

 private:
  bool on_;
  int epoch_;
  std::int64_t steps_;
};

inline constexpr int kInterrupted = 130;

/// Ctrl-C came. Looked at between batches.
bool interrupted();

/// From now on Ctrl-C ends the program between two batches, with status 130.
void watch_for_interrupt();
struct Sums {
  double loss = 0;  // of all rows
  std::int64_t right = 0, rows = 0;

  double mean_loss() const { return loss / double(rows); }
  double accuracy() const { return double(right) / double(rows); }
  Sums& operator+=(const Sums& more) {
    loss += more.loss, right += more.right, rows += more.rows;
    return *this;
  }
};

inline std::int64_t count_right(const Tensor& logits, const Tensor& y) {
  return (logits.detach().argmax(1) == y).to(int64).sum().item<std::int64_t>();
}

/// Gradients of the batch's mean loss. In `pieces` micro-batches the gradients of one after the
/// other add up, so each loss is weighted by its share of the rows; the parameters are sent only
/// once.
template <class Net>
Sums forward_backward(Net& net, const data::Batch& batch, const Options& options,
                      amp::GradScaler& scaler) {
  Sums sums{.rows = batch.x.size(0)};
  const std::vector<Tensor> xs = batch.x.chunk(options.accumulate);
  const std::vector<Tensor> ys = batch.y.chunk(options.accumulate);
  for (std::size_t i = 0; i < xs.size(); ++i) {
    const double rows = double(xs[i].size(0));
    Tensor logits, loss;
    {
      const amp::Autocast autocast(xs[i].device().kind, options.amp == "fp16" ? float16 : bfloat16,
                                   {.enabled = options.amp != "none"});
      logits = net(xs[i]);
      loss = nn::cross_entropy(logits, ys[i]);
    }
    scaler.scale(loss * (rows / double(sums.rows))).backward();
    sums.loss += rows * loss.item<double>();
    sums.right += count_right(logits, ys[i]);
  }
  return sums;
}

/// Nothing if Ctrl-C came in between.
template <class Net>
std::optional<Sums> train_epoch(Net& net, Stepper& stepper, const data::DataLoader& loader,
                                const Options& options, int epoch) {
  ProgressBar bar(epoch, loader.size());
  Sums total;
  std::int64_t step = 0;
  net.train();
  for (const data::Batch& batch : loader) {
    if (interrupted()) return {};
    stepper.optimizer.zero_grad();
    const Sums sums = forward_backward(net, batch, options, stepper.scaler);
    stepper.step(net.parameters());
    total += sums;
    bar.show(++step, sums.mean_loss());
  }
  return total;
}

/// In batches, so that the activations of a large test set need not fit into memory at once.
template <class Net>
std::optional<double> accuracy(Net& net, const data::TensorDataset& dataset) {
  const NoGrad no_grad;
  net.eval();
  Sums sums;
  for (const data::Batch& batch : data::DataLoader(dataset, {.batch_size = 500})) {
    if (interrupted()) return {};
    sums += {0, count_right(net(batch.x), batch.y), batch.x.size(0)};
  }
  return sums.accuracy();
}

/// Trains `model` on options.devices, a line per epoch, then the report. Returns the status.
template <class Model>
int train(Model& model, const Data& data, const Options& options) {
  watch_for_interrupt();
  if (!options.load.empty()) io::load(model, options.load);
  if (!options.save.empty()) {  // a path that cannot be written is refused now, not at the end
    const io::AtomicFile attempt(options.save);
  }
  if (options.summary) {
    std::cout << nn::summary(model, {1, data.channels(), data.height(), data.width()}) << "\n";
  }
  parallel::DataParallel net(model, {.devices = devices_named(options.devices)});
  optim::Adam optimizer(model.parameters(), {.lr = options.lr});
  const data::DataLoader loader(data.train, {.batch_size = options.batch, .shuffle = true});
  Stepper stepper{optimizer, make_schedule(options, optimizer, loader.size()),
                  amp::GradScaler({.enabled = options.amp == "fp16"}), options.clip};

  double test_accuracy = 0;
  parallel::StepReport step;
  for (int epoch = 1; epoch <= options.epochs; ++epoch) {
    const auto start = std::chrono::steady_clock::now();
    const auto sums = train_epoch(net, stepper, loader, options, epoch);
    if (!sums) return kInterrupted;
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    step = net.last_step();
    const auto right = accuracy(net, data.test);
    if (!right) return kInterrupted;
    test_accuracy = *right;
    std::printf(
        "epoch %2d  loss %.4f  train accuracy %.4f  test accuracy %.4f  %.0f samples/s  %s\n",
        epoch, sums->mean_loss(), sums->accuracy(), test_accuracy, double(sums->rows) / seconds,
        memory::line(net.devices()).c_str());
    std::fflush(stdout);
  }
  if (options.gradients)
    std::cout << "\nthe last gradients\n", nn::print_gradients(model, std::cout);
  if (!options.save.empty()) io::save(model, options.save);
  if (stepper.scaler.is_enabled()) {
    std::printf("\nscale %g, steps skipped: %lld\n", stepper.scaler.get_scale(),
                static_cast<long long>(stepper.skipped));
  }
  std::cout << "\nmemory at its peak, by what it is for\n" << memory::table(net.devices(), true);
  std::cout << "\nthe last training step\n" << step;
  std::printf("\ntest accuracy %.4f\n", test_accuracy);
  return 0;
}

}  // namespace sample
