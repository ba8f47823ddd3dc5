// What DataParallel itself costs, apart from computing and from waking threads.
//
//   engine_cost [LIMIT]      LIMIT in ms: the status is 1 if two devices cost more
//
// The module has 62 parameters of 16 floats, so computing is next to nothing. For 2 and 4 devices:
//   cost = median step under DataParallel - median step on one device - 2 median wake-and-join
// where a step is a forward and a backward, and each of them wakes the ranks' threads once. All
// variants take turns within one run, so a slow moment of the machine hits all of them.
//
// "at once" is for orientation: the threads each step a model of their own, with no engine between
// them. What that takes beyond one device is the machine's doing (cores that share a cache, a clock
// or each other; more threads than cores), and it is part of the cost above.
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include <tandem/tandem.h>

#include "measure.h"

using namespace tandem;

namespace {

/// x scale + shift
struct Affine : nn::Layer {
  Tensor scale = ones({16}, {.requires_grad = true});
  Tensor shift = zeros({16}, {.requires_grad = true});

  Tensor forward(const Tensor& x) override { return x * scale + shift; }
  void visit(nn::Visitor& v) override { v("scale", scale), v("shift", shift); }
};

nn::Sequential many_small_parameters() {
  nn::Sequential model;
  for (int i = 0; i < 31; ++i) model.push_back(Affine());
  return model;
}

template <class Net>
void step(nn::Sequential& model, Net& net, const Tensor& x) {
  model.zero_grad();
  net(x).sum().backward();
}

std::vector<Device> cpus(int count) {
  std::vector<Device> devices;
  for (int i = 0; i < count; ++i) devices.push_back(cpu(i));
  return devices;
}

/// DataParallel on some devices, and the bare hand-over of as many threads.
struct Engine {
  explicit Engine(int count, const Tensor& x)
      : devices(count), net(model, {.devices = cpus(count)}), workers(cpus(count)) {
    for (int rank = 0; rank < count; ++rank) {
      ranks.push_back(rank);
      own.push_back(many_small_parameters());
      own.back().to(cpu(rank));
      part.push_back(x.chunk(count)[std::size_t(rank)].to(cpu(rank)));
    }
  }

  void step_at_once() {
    workers.run(ranks, [this](int rank) {
      const auto r = std::size_t(rank);
      step(own[r], own[r], part[r]);
    });
  }
  void step_together(const Tensor& x) { step(model, net, x); }
  void wake_and_join() { workers.run(ranks, nothing); }

  int devices;
  nn::Sequential model = many_small_parameters();
  parallel::DataParallel<nn::Sequential> net;
  parallel::WorkerGroup workers;
  std::vector<int> ranks{};
  const parallel::WorkerGroup::Job nothing = [](int) {};
  std::vector<nn::Sequential> own{};  // for "at once"
  std::vector<Tensor> part{};
};

}  // namespace

int main(int argc, char** argv) {
  const Tensor x = randn({32, 16});
  nn::Sequential alone = many_small_parameters();
  Engine two(2, x), four(4, x);
  std::vector<bench::Contender> all{{"one", [&] { step(alone, alone, x); }}};
  for (Engine* e : {&two, &four}) {
    all.push_back({"step", [&, e] { e->step_together(x); }});
    all.push_back({"wake", [e] { e->wake_and_join(); }});
    all.push_back({"at once", [e] { e->step_at_once(); }});
  }
  bench::take_turns(all, 100, 5, 20);

  std::printf("62 parameters of 16 floats, %u hardware threads; medians in ms\n",
              std::thread::hardware_concurrency());
  std::printf("devices      step   one device   wake-and-join   engine cost    at once\n");
  const double base = all[0].median_ms();
  const auto report = [&](int devices, std::size_t at) {
    const double total = all[at].median_ms(), wake = all[at + 1].median_ms();
    const double cost = total - base - 2 * wake;
    std::printf("%7d  %8.4f     %8.4f    2 x %8.4f      %8.4f    %8.4f\n", devices, total, base,
                wake, cost, all[at + 2].median_ms());
    return cost;
  };
  const double cost = report(2, 1);
  report(4, 4);
  bench::print_ratio("dp_overhead_ms", cost);
  return argc > 1 && cost > std::atof(argv[1]) ? 1 : 0;
}
