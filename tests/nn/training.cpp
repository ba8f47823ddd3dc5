// The quickstart run against PyTorch: same seed, same losses, for three optimizers.
#include <doctest/doctest.h>

#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include <tandem/core/autograd.h>
#include <tandem/core/ops/factories.h>
#include <tandem/core/ops/pointwise.h>
#include <tandem/core/ops/reduce.h>
#include <tandem/core/random.h>
#include <tandem/nn/activations.h>
#include <tandem/nn/linear.h>
#include <tandem/nn/loss.h>
#include <tandem/nn/sequential.h>
#include <tandem/optim/adam.h>
#include <tandem/optim/sgd.h>

#include "tests/nn/golden_nn.h"
#include "tests/support/check.h"

using namespace tandem;
using namespace tandem::test;

namespace {

struct Run {
  nn::Sequential model;
  std::vector<std::pair<Tensor, Tensor>> batches;
  std::vector<double> losses;
  std::vector<int> right;
};

/// Seed, then model, then data: the order in which PyTorch's script draws.
Run start() {
  manual_seed(0);
  Run run{nn::Sequential{nn::Linear(128, 256), nn::ReLU(), nn::Linear(256, 256), nn::ReLU(),
                         nn::Linear(256, 10)},
          {},
          {},
          {}};
  for (int i = 0; i < 10; ++i) {
    Tensor x = randn({32, 128});
    run.batches.emplace_back(x, randint(0, 10, {32}));
  }
  return run;
}

void train(Run& run, optim::Optimizer& optimizer) {
  for (int epoch = 0; epoch < 3; ++epoch) {
    for (const auto& [x, y] : run.batches) {
      optimizer.zero_grad();
      const Tensor out = run.model(x);
      const Tensor loss = nn::cross_entropy(out, y);
      loss.backward();
      optimizer.step();
      run.losses.push_back(loss.item<double>());
      run.right.push_back(int(sum(out.argmax(1) == y).item<std::int64_t>()));
    }
  }
}

/// Losses within 1e-4: sums of float32 products are added in another order than in PyTorch's GEMM,
/// and Adam turns last bits of small gradients into steps of the size of lr.
void compare(const Run& run, std::span<const double> losses, std::span<const int> right) {
  for (std::size_t i = 0; i < losses.size(); ++i) {
    CAPTURE(i);
    CHECK(close(run.losses[i], losses[i], {0, 1e-4}));
    CHECK(std::abs(run.right[i] - right[i]) <= 1);
  }
}

}  // namespace

TEST_CASE("quickstart: inputs and targets are PyTorch's") {
  const Run run = start();
  const std::vector<double> x = doubles(run.batches[0].first);
  const std::vector<double> y = doubles(run.batches[0].second);
  for (std::size_t i = 0; i < 3; ++i) CHECK(close(x[i], kFirstInputs[i], {0, 1e-6}));
  for (std::size_t i = 0; i < 8; ++i) CHECK(y[i] == kFirstTargets[i]);
}

TEST_CASE("quickstart: Adam gives PyTorch's losses and epoch means") {
  Run run = start();
  optim::Adam optimizer(run.model.parameters(), {.lr = 1e-3});
  train(run, optimizer);
  compare(run, kLossesAdam, kRightAdam);
  const double means[] = {2.309227, 2.120518, 1.949934};
  const double accuracies[] = {.11875, .440625, .575};
  for (std::size_t epoch = 0; epoch < 3; ++epoch) {
    double loss = 0, right = 0;
    for (std::size_t i = 0; i < 10; ++i) {
      loss += run.losses[epoch * 10 + i] / 10;
      right += run.right[epoch * 10 + i] / 320.0;
    }
    CHECK(close(loss, means[epoch], {0, 1e-4}));
    CHECK(close(right, accuracies[epoch], {0, 1e-4}));
  }
}

TEST_CASE("quickstart: SGD with momentum gives PyTorch's losses") {
  Run run = start();
  optim::SGD optimizer(run.model.parameters(), {.lr = 0.05, .momentum = 0.9});
  train(run, optimizer);
  compare(run, kLossesSgd, kRightSgd);
}

TEST_CASE("quickstart: AdamW gives PyTorch's losses") {
  Run run = start();
  optim::AdamW optimizer(run.model.parameters(), {.lr = 1e-3});
  train(run, optimizer);
  compare(run, kLossesAdamW, kRightAdamW);
}

TEST_CASE("quickstart: the same seed twice gives the same bits") {
  Run a = start(), b = start();
  optim::Adam for_a(a.model.parameters()), for_b(b.model.parameters());
  train(a, for_a);
  train(b, for_b);
  CHECK(a.losses == b.losses);
  CHECK(bits_equal(a.model.parameters()[0], b.model.parameters()[0]));
}
