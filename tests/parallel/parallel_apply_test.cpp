// Chapters 3 and 4, and rows 2.5 (A1 ...).
#include <stdexcept>
#include <thread>

#include "tests/parallel/models.h"

namespace tandem::test {
using parallel::parallel_apply;

TEST_CASE("A1 parallel_apply: tuples of arguments and bare arguments give each module's output") {
  nn::Linear a(10, 5), b(10, 5);
  b.to(dev(1));
  const std::vector<nn::Linear*> modules{&a, &b};
  const Tensor x = values({2, 10}, 1), y = values({2, 10}, 2, dev(1));
  const auto bare = parallel_apply(modules, std::vector<Tensor>{x, y});
  const auto tuples = parallel_apply(
      modules, std::vector<std::tuple<Tensor>>{std::tuple(x), std::tuple(y)}, devs(2));
  for (const auto& outputs : {bare, tuples}) {
    CHECK(bits_equal(outputs[0], a(x)));
    CHECK(bits_equal(outputs[1], b(y)));
    CHECK(outputs[1].device() == dev(1));
  }
}

namespace {
struct Wonderful : nn::Module {
  int forward(int) { throw std::out_of_range("wonderful"); }
  void visit(nn::Visitor&) override {}
};
}  // namespace

TEST_CASE("A3 parallel_apply: the error's type reaches the caller, with replica and device") {
  Wonderful m;
  const std::vector<Wonderful*> modules{&m, &m};
  try {
    parallel_apply(modules, std::vector<int>{1, 2}, {dev(0), dev(0)});
    FAIL("nothing was thrown");
  } catch (const ReplicaError& e) {
    CHECK(e.first_is<std::out_of_range>());
    CHECK(contains(e.what(), str("replica 0 on ", dev(0))));
    CHECK(contains(e.what(), "wonderful"));
    CHECK_THROWS_AS(std::rethrow_if_nested(e), std::out_of_range);
  }
}

namespace {
struct WantsNoGrad : nn::Module {
  Tensor forward(const Tensor& x) {
    if (is_grad_enabled()) throw std::logic_error("grad mode is on");
    return x;
  }
  void visit(nn::Visitor&) override {}
};
}  // namespace

TEST_CASE("A4 parallel_apply: grad mode is carried into every replica") {
  WantsNoGrad m;
  DataParallel net(m, on(2));
  {
    const NoGrad no_grad;
    CHECK_NOTHROW(net(values({20, 10}, 1)));
  }
  CHECK(throws<ReplicaError>([&] { net(values({20, 10}, 1)); }, {"2 of 2", "grad mode is on"}));
}

TEST_CASE("A5 parallel_apply: without a device list each module runs where its input is") {
  nn::Linear a(3, 4);
  nn::Linear b = nn::clone(a), c = nn::clone(a);
  a.to(dev(7)), c.to(dev(1));
  const std::vector<nn::Linear*> modules{&a, &b, &c};
  std::vector<Tensor> inputs;
  for (Device d : {dev(7), dev(0), dev(1)}) inputs.push_back(ones({2, 3}, {.device = d}));
  const auto outputs = parallel_apply(modules, inputs);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(outputs[i].device() == inputs[i].device());
    CHECK(bits_equal(outputs[i], outputs[0]));
  }
}

namespace {
struct MakesOnes : nn::Module {
  Tensor forward(int) { return ones({5}, {.dtype = int32}); }
  void visit(nn::Visitor&) override {}
};
}  // namespace

TEST_CASE("A6 parallel_apply: what a replica makes is on its device, in the order given") {
  MakesOnes m;
  const std::vector<MakesOnes*> modules{&m, &m, &m};
  const auto outputs = parallel_apply(modules, std::vector<int>{0, 0, 0}, {dev(1), dev(0), dev(7)});
  CHECK(outputs[0].device() == dev(1));
  CHECK(outputs[1].device() == dev(0));
  CHECK(outputs[2].device() == dev(7));
  CHECK(outputs[2].dtype() == int32);
}

namespace {
struct Bad : nn::Module {
  Tensor forward(const Tensor&) { throw std::runtime_error("Badness!"); }
  void visit(nn::Visitor&) override {}
};
}  // namespace

TEST_CASE("A7 parallel_apply: an error in data_parallel keeps its type and text") {
  Bad m;
  try {
    parallel::data_parallel(m, values({10, 3}, 1), {dev(0), dev(1)});
    FAIL("nothing was thrown");
  } catch (const ReplicaError& e) {
    CHECK(e.failures().size() == 2);
    CHECK(e.failures()[0].message == "Badness!");
    CHECK(e.first_is<std::runtime_error>());
  }
}

TEST_CASE("parallel_apply: counts must agree") {
  nn::Linear a(3, 4);
  const std::vector<nn::Linear*> one{&a};
  const Tensor x = ones({2, 3});
  CHECK(throws<UsageError>(
      [&] {
        parallel_apply(one, std::vector<Tensor>{x, x});
      },
      {"1 modules and 2 inputs"}));
  CHECK(throws<UsageError>([&] { parallel_apply(one, std::vector<Tensor>{x}, devs(2)); },
                           {"2 devices for 1 modules"}));
}

TEST_CASE("worker_group: every rank runs with its rank, device and rows, rank 0 on the caller") {
  parallel::WorkerGroup group(devs(3));
  std::vector<int> seen(3, -1);
  std::vector<std::thread::id> ids(3);
  const std::vector<int> ranks{0, 2};
  const std::vector<parallel::WorkerGroup::Rows> rows{{0, 4}, {4, 3}};
  group.run(
      ranks,
      [&](int r) {
        const ReplicaContext& me = current_replica();
        CHECK(me.rank == r);
        CHECK(me.rows == (r == 0 ? 4 : 3));
        CHECK(thread_state().default_device == dev(r));
        seen[std::size_t(r)] = r;
        ids[std::size_t(r)] = std::this_thread::get_id();
      },
      rows);
  CHECK(seen == std::vector<int>{0, -1, 2});
  CHECK(ids[0] == std::this_thread::get_id());
  CHECK(ids[2] != ids[0]);
  CHECK(!current_replica().active());
}

TEST_CASE("worker_group: ten thousand empty runs neither hang nor lose a rank") {
  parallel::WorkerGroup group(devs(4));
  std::atomic<int> count{0};
  const std::vector<int> ranks{0, 1, 2, 3};
  for (int i = 0; i < 10000; ++i) group.run(ranks, [&](int) { ++count; });
  CHECK(count == 40000);
}

TEST_CASE("worker_group: a run from inside a replica is refused") {
  parallel::WorkerGroup group(devs(2)), other(devs(2));
  const std::vector<int> ranks{0, 1};
  CHECK(throws<ReplicaError>([&] { group.run(ranks, [&](int) { other.run(ranks, [](int) {}); }); },
                             {"from inside a replica"}));
}

}  // namespace tandem::test
