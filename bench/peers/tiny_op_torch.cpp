// tiny_op.cpp's jobs in libtorch, on one thread.
#include <benchmark/benchmark.h>
#include <torch/torch.h>

namespace {

void add(benchmark::State& state) {
  torch::set_num_threads(1);
  const torch::Tensor a = torch::randn({8}), b = torch::randn({8});
  for (auto _ : state) benchmark::DoNotOptimize(a + b);
}
BENCHMARK(add)->Name("torch/add");

void add_and_backward(benchmark::State& state) {
  torch::set_num_threads(1);
  torch::Tensor a = torch::randn({8}).requires_grad_(), b = torch::randn({8}).requires_grad_();
  const torch::Tensor seed = torch::ones({8});
  for (auto _ : state) {
    (a + b).backward(seed);
    a.mutable_grad() = torch::Tensor();
    b.mutable_grad() = torch::Tensor();
  }
}
BENCHMARK(add_and_backward)->Name("torch/add_backward");

}  // namespace
