#include "training.h"

#include <unistd.h>

#include <csignal>
#include <filesystem>

namespace sample {
namespace {

volatile std::sig_atomic_t interrupt = 0;

Data from_split(const data::TensorDataset& digits) {
  auto [train, test] = data::split_digits(digits);
  const auto images = [](const data::TensorDataset& d) {
    return data::TensorDataset(d.x.view({d.size(), 1, 8, 8}), d.y);
  };
  return {images(train), images(test)};
}

/// Where data::cifar10() would find it.
bool has_cifar10(const std::string& root) {
  if (root.empty()) return false;
  const std::filesystem::path folder(root);
  return std::filesystem::exists(folder / "test_batch.bin") ||
         std::filesystem::exists(folder / "cifar-10-batches-bin" / "test_batch.bin");
}

}  // namespace

void add_options(CommandLine& line, Options& options) {
  line.add("--devices", options.devices, "How many, or which: 2, cpu:0,cpu:1, or cuda");
  line.add("--data", options.data,
           "digits, fashion-mnist, a folder of MNIST's or CIFAR-10's files, or digits as .csv");
  line.add("--batch", options.batch, "Rows of a step");
  line.add("--epochs", options.epochs);
  line.add("--lr", options.lr, "Learning rate of Adam");
  line.add("--schedule", options.schedule, "Of the learning rate",
           {"none", "step", "cosine", "warmup", "onecycle"});
  line.add("--seed", options.seed, "Seed of weights and shuffles");
  line.add("--accumulate", options.accumulate, "Micro-batches that a step is computed in");
  line.add("--amp", options.amp, "Compute products in 16 bits", {"none", "bf16", "fp16"});
  line.add("--clip", options.clip, "Largest norm of all gradients; 0: any");
  line.add("--load", options.load, "Start with the weights of this .safetensors file");
  line.add("--save", options.save, "Write the weights to this .safetensors file");
  line.add_flag("--summary", options.summary, "At the start, show layers, shapes and costs");
  line.add_flag("--gradients", options.gradients, "At the end, show each parameter's gradient");
}

Data load_data(const std::string& what) {
  const CategoryScope scope(Category::input);  // in tables of memory
  namespace fs = std::filesystem;
  if (what == "digits") return from_split(data::read_digits(TANDEM_DIGITS));
  if (what != "fashion-mnist" && !fs::is_directory(what)) {
    return from_split(data::read_digits(what));
  }
  const std::string root = what == "fashion-mnist" ? "" : what;
  if (has_cifar10(root)) {
    data::Cifar10Options options{
        .root = root, .mean = {0.4914f, 0.4822f, 0.4465f}, .std = {0.2470f, 0.2435f, 0.2616f}};
    const data::TensorDataset train = data::cifar10(options);
    options.train = false;
    return {train, data::cifar10(options)};
  }
  data::FashionMnistOptions options{.root = root, .mean = 0.2860f, .std = 0.3530f};
  const data::TensorDataset train = data::fashion_mnist(options);
  options.train = false;
  return {train, data::fashion_mnist(options)};
}

std::unique_ptr<optim::PlannedSchedule> make_schedule(const Options& options,
                                                      optim::Optimizer& optimizer,
                                                      std::int64_t batches_per_epoch) {
  using namespace optim;
  const std::int64_t total = options.epochs * batches_per_epoch;
  if (options.schedule == "step") {  // a tenth after each third
    return std::make_unique<StepLR>(optimizer, StepLROptions{.step_size = (total + 2) / 3});
  }
  if (options.schedule == "cosine") {
    return std::make_unique<CosineAnnealingLR>(optimizer, CosineAnnealingLROptions{.T_max = total});
  }
  if (options.schedule == "warmup") {  // a tenth of the way up, then a cosine
    const std::int64_t warm = std::max<std::int64_t>(1, total / 10);
    return std::make_unique<SequentialLR>(
        optimizer,
        SequentialLROptions{.schedules = {LinearLROptions{.start_factor = 0.1, .total_iters = warm},
                                          CosineAnnealingLROptions{
                                              .T_max = std::max<std::int64_t>(1, total - warm)}},
                            .milestones = {warm}});
  }
  if (options.schedule == "onecycle") {
    return std::make_unique<OneCycleLR>(
        optimizer, OneCycleLROptions{.max_lr = options.lr, .total_steps = total});
  }
  return nullptr;
}

void Stepper::step(const std::vector<Tensor>& parameters) {
  if (clip > 0) {
    const optim::GradReport gradients = scaler.unscale_(optimizer);
    optim::clip_grads_with_norm_(parameters, clip, gradients.norm);
  }
  const bool skip = scaler.step(optimizer).skipped;
  scaler.update();
  skipped += skip;
  if (schedule && !skip) schedule->step();
}

ProgressBar::ProgressBar(int epoch, std::int64_t steps)
    : on_(isatty(STDOUT_FILENO) == 1), epoch_(epoch), steps_(steps) {}

ProgressBar::~ProgressBar() {
  if (on_) std::fputs("\r\033[K", stdout);
}

void ProgressBar::show(std::int64_t step, double loss) {
  if (!on_) return;
  constexpr int kWidth = 30;
  const int done = int(kWidth * step / steps_);
  std::printf("\repoch %2d [%s%s] %3d%%  loss %.4f", epoch_, std::string(done, '=').c_str(),
              std::string(kWidth - done, ' ').c_str(), int(100 * step / steps_), loss);
  std::fflush(stdout);
}

bool interrupted() {
  return interrupt != 0;
}

void watch_for_interrupt() {
  std::signal(SIGINT, [](int) { interrupt = 1; });
}

}  // namespace sample
