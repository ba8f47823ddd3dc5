// Whole training steps, beside libtorch's where it is installed.
//
//   steps [cnn|mlp|devices|dlib] [--rounds N] [--suffix TEXT, behind the names of ratios]
//   steps serve | steps blas      for peers/ddp.py and tools/bench.sh
//
// cnn: samples/quickstart_cnn's network, batch 32, one thread on one core; libtorch in both
// layouts. mlp: 784-256-256-10, batches 64 and 1024, one thread on one core. devices: the CNN with
// batch 128 on one and on two logical devices; libtorch on two threads. dlib: the CNN beside
// dlib's, batch 32, on one core.
//
// Contenders take turns on the same cores; a ratio is the median over the rounds of our time
// divided by theirs, "theirs" being the quickest of their ways. `ratio` lines are for
// tools/bench.sh, which also looks for the BLAS kernels that serve libtorch best.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tandem/tandem.h>

#include "measure.h"
#include "nets.h"
#ifdef TANDEM_BENCH_TORCH
#include "peers/steps_torch.h"
#endif
#ifdef TANDEM_BENCH_DLIB
#include "peers/steps_dlib.h"
#endif

using namespace tandem;

namespace {

using bench::cnn;

nn::Sequential mlp() {
  return nn::Sequential{nn::Linear(784, 256), nn::ReLU(), nn::Linear(256, 256), nn::ReLU(),
                        nn::Linear(256, 10)};
}

/// A model and its data, on one or more logical devices.
struct Training {
  Training(nn::Sequential network, const Shape& shape, int devices)
      : model(std::move(network)), x(randn(shape)), labels(randint(0, 10, {shape[0]})) {
    std::vector<Device> all;
    for (int i = 0; i < devices; ++i) all.push_back(cpu(i));
    if (devices > 1) net.emplace(model, parallel::DataParallelOptions{.devices = all});
  }

  void step() {
    optimizer.zero_grad();
    const Tensor loss = nn::cross_entropy(net ? (*net)(x) : model(x), labels);
    loss.backward();
    optimizer.step();
    (void)loss.item<float>();
  }

  nn::Sequential model;
  Tensor x, labels;
  optim::Adam optimizer{model.parameters()};
  std::optional<parallel::DataParallel<nn::Sequential>> net{};
};

bench::Contender ours(const std::string& name, nn::Sequential network, const Shape& shape,
                      int devices = 1) {
  const auto training = std::make_shared<Training>(std::move(network), shape, devices);
  return {name, [training] { training->step(); }};
}

int rounds = 9;
std::string suffix;

void print_ratio(const std::string& name, double value) {
  bench::print_ratio(name + suffix, value);
}

void print(const std::vector<bench::Contender>& contenders) {
  for (const bench::Contender& c : contenders) {
    std::printf("%-44s %9.3f ms\n", c.name.c_str(), c.median_ms());
  }
}

/// The first against the quickest of the others.
void report(const std::string& name, const std::vector<bench::Contender>& contenders) {
  print(contenders);
  if (contenders.size() < 2) return;
  const auto best =
      std::min_element(contenders.begin() + 1, contenders.end(),
                       [](const auto& a, const auto& b) { return a.median_ms() < b.median_ms(); });
  print_ratio(name, bench::ratio(contenders.front(), *best));
}

void run_cnn() {
  std::vector<bench::Contender> all{
      ours("cnn, batch 32, 1 thread: tandem", cnn(), {32, 3, 32, 32})};
#ifdef TANDEM_BENCH_TORCH
  peers::torch_threads(1);
  all.push_back({"  libtorch, row-major", peers::torch_cnn(32, false)});
  all.push_back({"  libtorch, channels-last", peers::torch_cnn(32, true)});
#endif
  bench::take_turns(all, rounds, 1, 5);
  report("cnn_step_1t", all);
}

void run_mlp(std::int64_t batch, int calls) {
  const std::string name = "mlp" + std::to_string(batch);
  std::vector<bench::Contender> all{ours(name + ", 1 thread: tandem", mlp(), {batch, 784})};
#ifdef TANDEM_BENCH_TORCH
  peers::torch_threads(1);
  all.push_back({"  libtorch", peers::torch_mlp(batch)});
#endif
  bench::take_turns(all, rounds, 2, calls);
  report(name + "_step", all);
}

/// Two threads that each train a model of their own on half of the rows: no engine is between them,
/// so more than that the machine does not give.
bench::Contender at_once(const std::string& name, const Shape& half) {
  struct Two {
    explicit Two(const Shape& shape) {
      for (int i = 0; i < 2; ++i) {
        const DeviceScope scope(cpu(i));
        models.push_back(std::make_unique<Training>(cnn(), shape, 1));
      }
    }
    std::vector<std::unique_ptr<Training>> models{};
    parallel::WorkerGroup workers{{cpu(0), cpu(1)}};
    const std::vector<int> ranks{0, 1};
    const parallel::WorkerGroup::Job job = [this](int rank) { models[std::size_t(rank)]->step(); };
  };
  const auto two = std::make_shared<Two>(half);
  return {name, [two] { two->workers.run(two->ranks, two->job); }};
}

void run_devices() {
  const Shape shape{128, 3, 32, 32};
  std::vector<bench::Contender> both{ours("cnn, batch 128, 2 devices: tandem", cnn(), shape, 2),
                                     ours("  1 device", cnn(), shape),
                                     at_once("  2 models of batch 64 at once", {64, 3, 32, 32})};
  bench::take_turns(both, rounds, 1, 3);
  print(both);
  print_ratio("dp2_speedup", bench::ratio(both[1], both[0]));
  print_ratio("dp2_speedup_of_limit", bench::ratio(both[2], both[0]));
#ifdef TANDEM_BENCH_TORCH
  peers::torch_threads(2);
  std::vector<bench::Contender> all{both.front()};
  all.front().ms.clear();
  all.push_back({"  libtorch, 2 threads, row-major", peers::torch_cnn(128, false)});
  all.push_back({"  libtorch, 2 threads, channels-last", peers::torch_cnn(128, true)});
  bench::take_turns(all, rounds, 1, 3);
  report("cnn_step_2dev_of_threads", all);
#endif
}

void run_dlib() {
#ifdef TANDEM_BENCH_DLIB
  std::vector<bench::Contender> all{ours("cnn, batch 32, 1 thread: tandem", cnn(), {32, 3, 32, 32}),
                                    {"  dlib", peers::dlib_cnn(32)}};
  bench::take_turns(all, rounds, 1, 2);
  report("cnn_step_of_dlib", all);
#endif
}

/// A round of steps for every line that comes in; its median in milliseconds goes out.
void serve() {
  std::vector<bench::Contender> one{ours("", cnn(), {128, 3, 32, 32}, 2)};
  for (int c; (c = std::getchar()) != EOF;) {
    if (c != '\n') continue;
    bench::take_turns(one, 1, 1, 3);
    std::printf("%.4f\n", one[0].ms.back());
    std::fflush(stdout);
  }
}

/// How quick libtorch is with the BLAS kernels it has been given.
void run_blas() {
#ifdef TANDEM_BENCH_TORCH
  peers::torch_threads(1);
  std::vector<bench::Contender> one{{"", peers::torch_mlp(1024)}};
  bench::take_turns(one, 3, 2, 5);
  std::printf("%.3f\n", one[0].median_ms());
#endif
}

}  // namespace

int main(int argc, char** argv) {
  std::string wanted;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--rounds") == 0 && i + 1 < argc) {
      rounds = std::max(1, std::atoi(argv[++i]));
    } else if (std::strcmp(argv[i], "--suffix") == 0 && i + 1 < argc) {
      suffix = argv[++i];
    } else {
      wanted = argv[i];
    }
  }
  const auto asked = [&](const char* name) { return wanted.empty() || wanted == name; };
  const std::vector<int> processors = bench::processors();
  bench::pin(processors, 1);
  if (asked("cnn")) run_cnn();
  if (asked("mlp")) run_mlp(64, 40), run_mlp(1024, 7);
  if (asked("dlib")) run_dlib();
  if (wanted == "blas") run_blas();
  bench::pin(processors, 2);
  if (asked("devices")) run_devices();
  if (wanted == "serve") serve();
}
