// Batch norm under DataParallel: by default every device for itself, as PyTorch's.
#include "tests/parallel/models.h"

namespace tandem::test {
namespace {

struct Images : nn::Layer {
  nn::BatchNorm2d norm{10};
  Tensor forward(const Tensor& x) override { return norm(x); }
  void visit(nn::Visitor& v) override { v("norm", norm); }
};

nn::Sequential rows_net() {
  return {nn::Linear(2, 2), nn::BatchNorm1d(2), nn::ReLU(), nn::Linear(2, 2)};
}

struct One : nn::Layer {
  nn::BatchNorm1d norm{1};
  Tensor forward(const Tensor& x) override { return norm(x); }
  void visit(nn::Visitor& v) override { v("norm", norm); }
};

}  // namespace

TEST_CASE("P2 replicate: running mean, variance and counter are on the replica's device") {
  Images m;
  DataParallel net(m, on(3));
  net(values({6, 10, 2, 2}, 1));
  for (int r = 0; r < 3; ++r) {
    const nn::BatchNorm2d& norm = net.replica(r).norm;
    CHECK(norm.running_mean.device() == dev(r));
    CHECK(norm.running_var.device() == dev(r));
    CHECK(norm.num_batches_tracked.device() == dev(r));
    CHECK(norm.num_batches_tracked.dtype() == int64);
  }
}

TEST_CASE("P3 replicate, batch norm: replica 0 shares every storage, replica 1 none") {
  nn::Sequential m = rows_net();
  DataParallel net(m, on(2));
  net(values({4, 2}, 1));
  const auto storages = [](nn::Sequential& s) {
    std::vector<const std::byte*> list;
    for (const Tensor& t : s.parameters()) list.push_back(t.array().data());
    for (const Tensor& t : s.buffers()) list.push_back(t.array().data());
    return list;
  };
  const auto master = storages(m), first = storages(net.replica(0)),
             second = storages(net.replica(1));
  REQUIRE(master.size() == 9);
  CHECK(first == master);
  for (std::size_t i = 0; i < master.size(); ++i) CHECK(second[i] != master[i]);
}

TEST_CASE("X4 batch norm: running statistics are the first device's, counted once a step") {
  // Device 0 has 0 and 2: mean 1, unbiased variance 2. All of them: mean 6.5, variance 131 / 3.
  One m, one;
  DataParallel net(m, on(2));
  const Tensor x = tensor_of({0, 2, 10, 14}, {4, 1});
  const Tensor y = net(x);
  CHECK(close(y, {-1, 1, -1, 1}, {1e-5, 0}));  // eps is 1e-5 of the first variance, 1
  CHECK(close(m.norm.running_mean, {0.1}));
  CHECK(close(m.norm.running_var, {1.1}));
  CHECK(m.norm.num_batches_tracked.item<int>() == 1);
  one(x);
  CHECK(close(one.norm.running_mean, {0.65}));
  CHECK(close(one.norm.running_var, {5.266667}));
  // What the others wrote into their copies is gone by the next step.
  net(x);
  CHECK(close(net.replica(1).norm.running_mean, {0.9 * 0.1 + 0.1 * 12}));
  CHECK(close(m.norm.running_mean, {0.9 * 0.1 + 0.1}));
  CHECK(m.norm.num_batches_tracked.item<int>() == 2);
}

TEST_CASE("batch norm: evaluating gives the same on any number of devices, and writes nothing") {
  nn::Sequential m = rows_net();
  m(values({9, 2}, 1));
  m.eval();
  const std::uint64_t version = m.buffers()[0].version();
  const Tensor x = values({7, 2}, 2);
  const Tensor expected = m(x);
  for (int n : {1, 2, 4, 7}) {
    DataParallel net(m, on(n));
    CHECK(close(net(x), expected));
  }
  CHECK(m.buffers()[0].version() == version);
}

TEST_CASE("batch norm: gradients are those of every chunk by itself, added up") {
  nn::Sequential m = rows_net(), alone = nn::clone(m);
  DataParallel net(m, on(2));
  const Tensor x = values({7, 2}, 3), seed = values({7, 2}, 4);
  net(x).backward(seed);
  alone(x.narrow(0, 0, 4)).backward(seed.narrow(0, 0, 4));
  alone(x.narrow(0, 4, 3)).backward(seed.narrow(0, 4, 3));
  CHECK(all_close(grads(m), grads(alone)));
}

TEST_CASE("batch norm: if the first device has no rows, those of the next one's chunk are kept") {
  One m;
  DataParallel net(m, on(3, {.chunks = {.sizes = {0, 2, 2}}}));
  for (int step = 1; step <= 2; ++step) {
    net(tensor_of({0, 2, 10, 14}, {4, 1}));
    CHECK(close(m.norm.running_mean, {1 - (step == 1 ? 0.9 : 0.81)}));
    CHECK(m.norm.num_batches_tracked.item<int>() == step);
  }
}

TEST_CASE("batch norm: settings that change after the replicas were made are followed") {
  One m;
  DataParallel net(m, on(2));
  net(tensor_of({0, 2, 10, 14}, {4, 1}));
  m.norm.momentum = 1;
  net(tensor_of({4, 6, 10, 14}, {4, 1}));
  CHECK(close(m.norm.running_mean, {5}));
}

TEST_CASE("batch norm: a chunk of one row is refused with its rows; nothing hangs") {
  One m;
  DataParallel net(m, on(2));
  const Tensor x = tensor_of({0, 2, 10}, {3, 1});
  CHECK(throws<ReplicaError>([&] { net(x); },
                             {"1 of 2", "replica 1", "rows 2 to 2", "one value per channel"}));
  CHECK(net(tensor_of({0, 2, 10, 14}, {4, 1})).shape() == Shape{4, 1});
}

}  // namespace tandem::test
