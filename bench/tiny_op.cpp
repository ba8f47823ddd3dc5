// The smallest op there is, add of 8 floats: what a call costs when there is nothing to compute.
//
//   tiny_op [options of Google Benchmark]
//
// Measured without and with autograd (forward and backward), next to libtorch (peers/) if it was
// found when this was built; then the ratios.
#include <unistd.h>

#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include <tandem/tandem.h>

#include "measure.h"

using namespace tandem;

namespace {

void add(benchmark::State& state) {
  const Tensor a = randn({8}), b = randn({8});
  for (auto _ : state) benchmark::DoNotOptimize(a + b);
}
BENCHMARK(add)->Name("tandem/add");

void add_and_backward(benchmark::State& state) {
  Tensor a = randn({8}, {.requires_grad = true}), b = randn({8}, {.requires_grad = true});
  const Tensor seed = ones({8});
  for (auto _ : state) {
    (a + b).backward(seed);
    a.zero_grad();
    b.zero_grad();
  }
}
BENCHMARK(add_and_backward)->Name("tandem/add_backward");

/// Prints as usual, and at the end how long Tandem took in relation to each peer.
/// In processor time, which a busy machine disturbs less.
class Ratios : public benchmark::ConsoleReporter {
 public:
  Ratios() : ConsoleReporter(isatty(STDOUT_FILENO) ? OO_ColorTabular : OO_Tabular) {}
  void ReportRuns(const std::vector<Run>& runs) override {
    ConsoleReporter::ReportRuns(runs);
    for (const Run& run : runs) {
      if (run.repetitions == 1 || run.aggregate_name == "median") {
        ns_[run.run_name.function_name] = run.GetAdjustedCPUTime();
      }
    }
  }
  void Finalize() override {
    for (const auto& [name, ns] : ns_) {
      const std::string op = name.substr(name.find('/') + 1);
      if (name == "tandem/" + op) continue;
      std::printf("%s: tandem takes %.2f times as long as %s\n", op.c_str(),
                  ns_["tandem/" + op] / ns, name.substr(0, name.find('/')).c_str());
      bench::print_ratio(op == "add" ? "tiny_nograd" : "tiny_grad", ns_["tandem/" + op] / ns);
    }
  }

 private:
  std::map<std::string, double> ns_;
};

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  Ratios reporter;
  benchmark::RunSpecifiedBenchmarks(&reporter);
}
