// Rows 2.7 (X2 ...): what PyTorch's tests do not cover.
#include <thread>

#include "tests/parallel/models.h"

namespace tandem::test {
namespace {

// w = 2, loss_i = (w x_i)^2, so the gradient of sample i is 4 x_i^2
struct Square : nn::Module {
  Tensor w = tensor(2.0, {.requires_grad = true});
  Tensor forward(const Tensor& x) { return (x * w) * (x * w); }
  void visit(nn::Visitor& v) override { v("w", w); }
};
struct LocalMean : Square {
  Tensor forward(const Tensor& x) { return mean(Square::forward(x)); }
};
const Tensor five = tensor({1.0, 2.0, 3.0, 4.0, 5.0});
const Tensor four = tensor({1.0, 2.0, 3.0, 4.0});

double gradient(Square& m) {
  const double g = m.w.grad().item<double>();
  m.w.zero_grad();
  return g;
}

}  // namespace

TEST_CASE("X2 loss: the mean of the gathered output has the full batch's gradient, 44") {
  Square m;
  DataParallel net(m, on(2));
  mean(net(five)).backward();
  CHECK(close(gradient(m), 44));
}

TEST_CASE("X2 loss: local means weighted by rows give 44, for uneven chunks, too") {
  LocalMean m;
  DataParallel net(m, on(2));
  const Tensor loss = net(five);
  CHECK(close(loss.item<double>(), 44));  // (4 + 16 + 36 + 64 + 100) / 5
  loss.backward();
  CHECK(close(gradient(m), 44));
}

TEST_CASE("X2 loss: a plain mean of local means is 50.3333, a sum 100.6667: both wrong") {
  LocalMean m;
  DataParallel net(m, on(2, {.scalars = parallel::ScalarRule::stack}));
  const Tensor locals = net(five);
  CHECK(locals.shape() == Shape{2});
  mean(locals).backward();
  CHECK(close(gradient(m), 151.0 / 3));
  sum(net(five)).backward();
  CHECK(close(gradient(m), 302.0 / 3));
  DataParallel added(m, on(2, {.scalars = parallel::ScalarRule::sum}));
  added(five).backward();
  CHECK(close(gradient(m), 302.0 / 3));
}

TEST_CASE("X2 loss: dividing the sum by the devices would give 22") {
  Square m;
  DataParallel net(m, on(2));
  (mean(net(five)) / 2).backward();
  CHECK(close(gradient(m), 22));
}

TEST_CASE("X2 loss: equal chunks: weighted 30, mean of local means 30, sum 60") {
  LocalMean m;
  DataParallel weighted(m, on(2)), stacked(m, on(2, {.scalars = parallel::ScalarRule::stack}));
  weighted(four).backward();
  CHECK(close(gradient(m), 30));
  mean(stacked(four)).backward();
  CHECK(close(gradient(m), 30));
  sum(stacked(four)).backward();
  CHECK(close(gradient(m), 60));
}

namespace {
struct OneUnused : nn::Layer {
  nn::Linear used{4, 4}, unused{4, 4};
  Tensor forward(const Tensor& x) override { return used(x); }
  void visit(nn::Visitor& v) override { v("used", used), v("unused", unused); }
};
}  // namespace

TEST_CASE("X3 unused: an unused parameter has no gradient and does not move") {
  OneUnused m;
  DataParallel net(m, on(2));
  optim::SGD optimizer(m.parameters(), {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.1});
  const Tensor weight = m.unused.weight.detach().clone(), used = m.used.weight.detach().clone();
  for (int i = 0; i < 3; ++i) {
    optimizer.zero_grad();
    mean(net(values({6, 4}, 1))).backward();
    optimizer.step();
  }
  CHECK(!m.unused.weight.grad().defined());
  CHECK(bits_equal(m.unused.weight, weight));
  CHECK(!bits_equal(m.used.weight, used).ok);
}

namespace {
struct Drops : nn::Layer {
  Tensor forward(const Tensor& x) override { return dropout(x, 0.5, training); }
  void visit(nn::Visitor&) override {}
};
}  // namespace

TEST_CASE("X5 dropout: masks differ between replicas, and the result does not depend on K") {
  Drops m;
  Tensor first;
  for (int k : {1, 2, 4}) {
    manual_seed(5);
    DataParallel net(m, on(k));
    const Tensor y = net(ones({8, 16}));
    if (!first.defined()) first = y;
    CHECK(bits_equal(y, first));
    CHECK(!bits_equal(y.narrow(0, 0, 2), y.narrow(0, 2, 2)).ok);
  }
  const auto v = doubles(first);
  const auto zeros = std::count(v.begin(), v.end(), 0.0);
  CHECK(zeros > 32);  // of 128, expected 64; 6 sigma is 34
  CHECK(zeros < 96);
  manual_seed(5);
  CHECK(bits_equal(m(ones({8, 16})), first));
}

TEST_CASE("X5 dropout: the caller's call counter follows the replicas") {
  Drops m;
  DataParallel net(m, on(2));
  manual_seed(5);
  const Tensor a = net(ones({4, 16})), b = net(ones({4, 16}));
  CHECK(!bits_equal(a, b).ok);
  manual_seed(5);
  const Tensor c = m(ones({4, 16})), d = m(ones({4, 16}));
  CHECK(bits_equal(a, c));
  CHECK(bits_equal(b, d));
}

TEST_CASE("X6 scalar: a loss from the replicas has no dimensions for K = 1, K = 2 and N = 1") {
  LocalMean m;
  for (int k : {1, 2}) {
    DataParallel net(m, on(k));
    CHECK(net(five).shape() == Shape{});
    CHECK(net(tensor({3.0})).shape() == Shape{});
  }
}

namespace {
struct TakesTwo : nn::Module {
  Tensor forward(const std::tuple<Tensor, Tensor>& x) { return std::get<0>(x); }
  void visit(nn::Visitor&) override {}
};
}  // namespace

TEST_CASE("X7 scatter: arguments that disagree on N are named with both sizes") {
  TakesTwo m;
  DataParallel net(m, on(4));
  CHECK(throws<UsageError>(
      [&] {
        net(std::tuple(values({8, 2}, 1), values({1, 2}, 2)));
      },
      {"argument 0.0 has 8 rows", "argument 0.1 has 1", "replicated(t)"}));
}

namespace {
struct Faulty : nn::Layer {
  Mlp body;
  bool broken = true;
  Tensor forward(const Tensor& x) override {
    const int rank = current_replica().rank;
    if (broken && rank == 1) throw std::out_of_range("first fault");
    if (broken && rank == 2) throw std::domain_error("second fault");
    if (broken && rank == 3) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return body(x);
  }
  void visit(nn::Visitor& v) override { v("body", body), v("broken", broken); }
};
}  // namespace

TEST_CASE("X8 failure: two different faults and a slow replica; both are reported, then it works") {
  Faulty m;
  DataParallel net(m, on(4));
  const Tensor x = values({8, 8}, 1);
  for (int round = 0; round < 3; ++round) {
    m.broken = true;
    try {
      net(x);
      FAIL("nothing was thrown");
    } catch (const ReplicaError& e) {
      REQUIRE(e.failures().size() == 2);
      CHECK(e.failures()[0].rank == 1);
      CHECK(e.failures()[0].device == dev(1));
      CHECK(e.failures()[0].first_row == 2);
      CHECK(e.failures()[0].rows == 2);
      CHECK(e.failures()[1].message == "second fault");
      CHECK(e.first_is<std::out_of_range>());
      CHECK(!e.first_is<std::domain_error>());
      CHECK(contains(e.what(), str("replica 1 on ", dev(1), " (rows 2 to 3): first fault")));
    }
    m.broken = false;
    CHECK(close(net(x), m.body(x)));
  }
}

TEST_CASE("X9 memory: out of memory in one replica leaves no bytes behind; a smaller step works") {
  Mlp m;
  DataParallel net(m, on(3));
  mean(net(values({6, 8}, 1))).backward();
  m.zero_grad();
  const auto before = bytes_in_use(3);
  memory::empty_cache(dev(1));
  memory::set_limit(dev(1), memory::stats(dev(1)).reserved + (128 << 10));
  try {
    net(values({3 * 4096, 8}, 2));
    FAIL("nothing was thrown");
  } catch (const ReplicaError& e) {
    CHECK(e.first_is<OutOfMemory>());
    CHECK(contains(e.what(), str("out of memory on ", dev(1))));
  }
  CHECK(bytes_in_use(3) == before);
  CHECK_NOTHROW(mean(net(values({6, 8}, 1))).backward());
  m.zero_grad();
  memory::set_limit(dev(1), 0);
  CHECK_NOTHROW(net(values({3 * 4096, 8}, 2)));
  CHECK(bytes_in_use(3) == before);
}

TEST_CASE("X10 stale: backward after the optimizer's step says what changed") {
  Mlp m;
  DataParallel net(m, on(2));
  optim::SGD optimizer(m.parameters(), {.lr = 0.1});
  const Tensor x = values({6, 8}, 1);
  const Tensor old = mean(net(x));
  mean(net(x)).backward();
  optimizer.step();
  m.zero_grad();
  CHECK(throws<ReplicaError>([&] { old.backward(); }, {"changed since forward", "replica 0"}));
  for (const Tensor& g : grads(m)) CHECK(!g.defined());
}

TEST_CASE("X12 sync: a parameter written behind the engine's back reaches all replicas") {
  nn::Linear m(2, 1);
  DataParallel net(m, on(3));
  net(values({3, 2}, 1));
  {
    const NoGrad no_grad;
    m.bias.fill_(100.0);
  }
  for (double y : doubles(net(values({6, 2}, 1)))) CHECK(y > 50);
}

TEST_CASE("X14 step: ten steps agree for K = 1, 2, 3, 4 and 13 rows") {
  Mlp reference;
  std::vector<std::vector<Tensor>> results;
  for (int k : {0, 1, 2, 3, 4}) {  // 0: no DataParallel at all
    Mlp m = nn::clone(reference);
    DataParallel net(m, on(std::max(k, 1)));
    optim::SGD optimizer(m.parameters(), {.lr = 0.1});
    for (int i = 0; i < 10; ++i) {
      optimizer.zero_grad();
      const Tensor x = values({13, 8}, std::uint64_t(i));
      nn::cross_entropy(k == 0 ? m(x) : net(x), labels(13, 4)).backward();
      optimizer.step();
    }
    results.push_back(m.parameters());
  }
  for (const auto& r : results) CHECK(all_close(r, results[0]));
}

TEST_CASE("X15 repeat: the same seed twice gives the same bits, K = 3") {
  auto train = [] {
    manual_seed(11);
    Mlp m;
    DataParallel net(m, on(3, {.bucket_bytes = 512}));
    optim::Adam optimizer(m.parameters(), {.lr = 1e-2});
    for (int i = 0; i < 10; ++i) {
      optimizer.zero_grad();
      nn::cross_entropy(net(randn({13, 8})), randint(0, 4, {13})).backward();
      optimizer.step();
    }
    return m.parameters();
  };
  const auto first = train();
  for (int i = 0; i < 3; ++i) CHECK(all_bits_equal(train(), first));
}

TEST_CASE("X17 empty: a batch of no rows gives an output of no rows and zero gradients") {
  nn::Linear m(3, 2);
  DataParallel net(m, on(4));
  const Tensor y = net(zeros({0, 3}));
  CHECK(y.shape() == Shape{0, 2});
  sum(y).backward();
  CHECK(close(m.weight.grad(), std::vector<double>(6, 0)));
}

TEST_CASE("X18 devices: a duplicate, one out of range and an empty list are three errors") {
  nn::Linear m(3, 2);
  CHECK(throws<UsageError>(
      [&] {
        DataParallel net(m, {.devices = {dev(0), dev(0)}});
      },
      {dev_name(0), "is listed twice"}));
  CHECK(throws<DeviceError>(
      [&] {
        DataParallel net(m, {.devices = {dev(0), dev(64)}});
      },
      {"64 does not exist"}));
  if (device_count(cuda) == 0) {
    CHECK(throws<DeviceError>([&] { DataParallel net(m, {.devices = {cuda(0)}}); },
                              {"cuda:0 does not exist", "tandem::cuda"}));
  }
  CHECK(throws<UsageError>([&] { DataParallel net(m, {.devices = std::vector<Device>{}}); },
                           {"empty"}));
}

TEST_CASE("X19 copies: a pattern written on any device reads back on any other") {
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 4; ++j) {
      const Tensor x = values({33, 5}, std::uint64_t(i), dev(i));
      CHECK(bits_equal(x.to(dev(j)), x));
      CHECK(bits_equal(x.transpose(0, 1).to(dev(j)).to(dev(i)), x.transpose(0, 1)));
    }
  }
}

}  // namespace tandem::test
