// Sums of gradients beside backward: what waits for them, what they wait for, and for nothing else.
// Every case runs on each topology of CMakeLists.txt.
#include <doctest/doctest.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "streams.h"
#include "tests/cuda/steps.h"

#include <tandem/core/autograd.h>
#include <tandem/core/backend.h>
#include <tandem/core/stream.h>
#include <tandem/parallel/reduce.h>

using namespace tandem;
using namespace tandem::test;

namespace {

constexpr std::int64_t kSize = 3000;  // of a parameter: no multiple of a slot's 16 elements

cudaStream_t main_stream(int index) {
  return static_cast<cudaStream_t>(backend(cuda(index)).current_stream().handle);
}
cudaStream_t side_stream(int index) {
  return static_cast<cudaStream_t>(backend(cuda(index)).side_stream().handle);
}
void finish(cudaStream_t stream) {
  REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
}

// Work on a stream that lasts until it is let through: what depends on it has to wait. Gives up in
// the end, so that a test that waits for it fails instead of hanging.
class Gate {
 public:
  explicit Gate(cudaStream_t stream) : stream_(stream) {
    REQUIRE(cudaLaunchHostFunc(
                stream, [](void* gate) { static_cast<Gate*>(gate)->hold(); }, this) == cudaSuccess);
  }
  ~Gate() {
    open();
    (void)cudaStreamSynchronize(stream_);
  }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  /// Did somebody wait for it in vain?
  bool gave_up() {
    const std::lock_guard lock(mutex_);
    return gave_up_;
  }

 private:
  void hold() {
    std::unique_lock lock(mutex_);
    gave_up_ = !changed_.wait_for(lock, std::chrono::seconds(5), [this] { return open_; });
  }

  cudaStream_t stream_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false, gave_up_ = false;
};

// The reduction of some parameters, each in a bucket of its own, on as many devices as the largest
// of `ranks` asks for.
class Sums {
 public:
  explicit Sums(std::vector<int> ranks = {0, 1}, int parameters = 2)
      : ranks_(std::move(ranks)),
        layout_(
            std::vector<Array>(std::size_t(parameters), Array::empty({kSize}, float32, cpu(0)))),
        buckets_(parallel::make_buckets(layout_, 4)) {
    const std::vector<Device> devices = gpus(ranks_.back() + 1);
    reduction.emplace(layout_, buckets_, devices, ranks_,
                      std::vector<bool>(std::size_t(parameters), true));
  }

  int parameters() const { return layout_.size(); }
  int members() const { return int(ranks_.size()); }
  void open() {
    for (int m = 0; m < members(); ++m) reduction->open(m);
  }
  void final(int member, int parameter) {
    const int rank = ranks_[std::size_t(member)];
    reduction->final(member, parameter, on(cuda(rank), gradient(rank, parameter)));
  }
  void final_everywhere(int parameter) {
    for (int m = 0; m < members(); ++m) final(m, parameter);
  }
  // Small integers: sums are exact.
  std::vector<float> expected(int parameter) const {
    std::vector<float> sum(std::size_t(kSize), 0);
    for (const int rank : ranks_) {
      const std::vector<float> one = gradient(rank, parameter);
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += one[i];
    }
    return sum;
  }
  bool right() const {
    bool all = true;
    for (int p = 0; p < parameters(); ++p) {
      all = all && reduction->take(p).to_vector<float>() == expected(p);
    }
    return all;
  }

 private:
  static std::vector<float> gradient(int rank, int parameter) {
    return numbers(kSize, float(1000 * rank + 10 * parameter));
  }

  std::vector<int> ranks_;
  parallel::FlatLayout layout_;
  std::vector<parallel::Bucket> buckets_;

 public:
  std::optional<parallel::Reduction> reduction;
};

// What only a first time does: peers are tried, memory and events are made.
void warm_up() {
  Sums sums;
  sums.open();
  sums.final_everywhere(1);
  sums.final_everywhere(0);
  sums.reduction->join();
  CHECK(sums.right());
}

}  // namespace

TEST_CASE("overlap: a sum does not wait for what its ranks are given after they arrived") {
  warm_up();
  Sums sums;
  sums.open();
  sums.final(0, 1);
  Gate first(main_stream(0));  // rank 0 goes on with its backward
  sums.final(1, 1);
  Gate second(main_stream(1));
  {
    const SideStreams aside(gpus(2));  // where the host, too, waits for these streams alone
    CHECK(sums.reduction->take(1).to_vector<float>() == sums.expected(1));
  }
  finish(side_stream(1));
  CHECK(!first.gave_up());
  CHECK(!second.gave_up());
  first.open(), second.open();
  sums.final_everywhere(0);
  sums.reduction->join();
  CHECK(sums.right());
}

TEST_CASE("overlap: what ranks are given after they arrived does not wait for the sum") {
  warm_up();
  Sums sums;
  sums.open();
  Gate gate(side_stream(0));  // the sum is behind it
  sums.final_everywhere(1);
  const Array on_first = on(cuda(0), numbers(100, 1)), on_second = on(cuda(1), numbers(100, 2));
  CHECK(on_first.to_vector<float>() == numbers(100, 1));
  CHECK(on_second.to_vector<float>() == numbers(100, 2));
  finish(main_stream(0));
  finish(main_stream(1));
  CHECK(!gate.gave_up());
  gate.open();
  sums.final_everywhere(0);
  sums.reduction->join();
  CHECK(sums.right());
}

TEST_CASE("overlap: sums take and free no memory on GPUs") {
  warm_up();
  Sums sums;
  sums.open();
  sums.final(0, 1);
  sums.final(0, 0);
  const Array last = on(cuda(1), numbers(kSize, 7));
  const auto allocations = [] { return backend(cuda(0)).pool().stats().allocation_count; };
  const std::int64_t before = allocations();
  sums.reduction->final(1, 1, last);  // packs on cuda:1, sums on cuda:0
  sums.reduction->final(1, 0, last);
  CHECK(allocations() == before);
}

TEST_CASE("overlap: memory of a reduction that was given up is not used before its sums are done") {
  warm_up();
  std::optional<Sums> sums(std::in_place);
  sums->open();
  Gate gate(side_stream(0));
  sums->final_everywhere(1);
  sums.reset();  // as after a rank failed: it never arrives at the other bucket
  const Array total = on(cuda(0), numbers(2 * kSize, 50)), room = on(cuda(0), numbers(kSize, 60)),
              part = on(cuda(1), numbers(2 * kSize, 70));
  gate.open();
  for (int i = 0; i < 2; ++i) {
    CHECK(total.to_vector<float>() == numbers(2 * kSize, 50));  // waits for the main streams alone
    CHECK(room.to_vector<float>() == numbers(kSize, 60));
    CHECK(part.to_vector<float>() == numbers(2 * kSize, 70));
    for (const Device d : gpus(2)) backend(d).synchronize();
  }
}

TEST_CASE("overlap: a rank's memory is not used again before its gradients have been added") {
  warm_up();
  std::optional<Sums> sums(std::in_place);
  const std::vector<float> expected = sums->expected(1);
  sums->open();
  Gate gate(side_stream(0));
  sums->final_everywhere(1);
  sums->final_everywhere(0);
  sums->reduction->join();
  const Array sum = sums->reduction->take(1);
  sums.reset();
  const Array part = on(cuda(1), numbers(2 * kSize, 70));
  gate.open();
  CHECK(part.to_vector<float>() == numbers(2 * kSize, 70));
  CHECK(sum.to_vector<float>() == expected);
}

TEST_CASE("overlap: memory that is freed on a side stream is not used before its work is done") {
  const auto each = [](auto f) {
    for (const Device d : gpus(2)) f(backend(d));
  };
  for (int i = 0; i < 3; ++i) {
    Array b;
    each([](Backend& device) { device.fork_side_stream(); });
    {
      const SideStreams aside(gpus(2));
      const Array a = on(cuda(0), numbers(9000, float(i)));
      b = a.to(cuda(1));
    }  // a's block is in the cache; its copy may not have begun
    const Array c = on(cuda(0), numbers(9000, 50));
    CHECK(c.to_vector<float>() == numbers(9000, 50));
    each([](Backend& device) { device.join_side_stream(); });
    CHECK(b.to_vector<float>() == numbers(9000, float(i)));
    CHECK(c.to_vector<float>() == numbers(9000, 50));
  }
}

TEST_CASE("overlap: a first device without rows gives its memory when its work is done with it") {
  const std::vector<int> ranks =
      device_count(cuda) > 2 ? std::vector<int>{1, 2} : std::vector<int>{1};
  for (int i = 0; i < 3; ++i) {
    { const Array before = on(cuda(0), numbers(2 * kSize, 80)); }  // its block is the sum's
    Sums sums(ranks);
    sums.open();
    sums.final_everywhere(1);
    sums.final_everywhere(0);
    finish(side_stream(0));
    sums.reduction->join();
    CHECK(sums.right());
  }
}

TEST_CASE("overlap: ranks that are last at different buckets at a time do not meet in the room") {
  const int members = std::min(3, device_count(cuda));
  std::vector<int> ranks;
  for (int r = 0; r < members; ++r) ranks.push_back(r);
  for (int i = 0; i < 20; ++i) {
    Sums sums(ranks, 6);
    std::vector<std::thread> threads;
    for (int m = 0; m < members; ++m) {
      threads.emplace_back([&sums, m] {
        sums.reduction->open(m);
        for (int k = 0; k < 6; ++k) sums.final(m, (k + 2 * m) % 6);
      });
    }
    for (std::thread& t : threads) t.join();
    sums.reduction->join();
    CHECK(sums.right());
  }
}

TEST_CASE("overlap: a training on streams of the program's own ends with the same bits") {
  const auto expected = train<Mlp>(gpus(2), {7, 6}, 3);
  const UserStream first(cuda(0)), second(cuda(1));
  const StreamGuard on_first(cuda(0), first.handle);
  CHECK(train<Mlp>(gpus(2), {7, 6}, 3) == expected);
  const StreamGuard on_second(cuda(1), second.handle);
  CHECK(train<Mlp>(gpus(2), {7, 6}, 3) == expected);
}

namespace {

// The second rank fails when it has arrived at the buckets of `b`.
struct Fragile : nn::Layer {
  nn::Linear a{6, 8}, b{8, 4};
  bool broken = false;
  Tensor forward(const Tensor& x) override {
    const Tensor y = a(x);
    return b(
        record("fragile", y.array().clone(), {y}, [fails = broken](const Array& dy, const Wanted&) {
          if (fails && current_replica().rank == 1) throw std::domain_error("fault");
          return dy;
        }));
  }
  void visit(nn::Visitor& v) override { v("a", a), v("b", b), v("broken", broken); }
};

void fail_and_go_on() {
  manual_seed(3);
  Fragile model;
  model.to(cuda(0));
  parallel::DataParallel net(model, {.devices = gpus(2), .bucket_bytes = 64});
  const Tensor x = random_tensor({6, 6}, 4, float32, cuda(0));
  const auto gradients = [&](bool broken) {
    model.zero_grad();
    model.broken = broken;
    const Tensor y = net(x);
    mean(y * y).backward();
    std::vector<std::vector<double>> all;
    for (const Tensor& p : model.parameters()) all.push_back(doubles(p.grad()));
    return all;
  };
  const auto expected = gradients(false);
  const std::int64_t before = bytes_in_use(cuda(0)) + bytes_in_use(cuda(1));
  for (int i = 0; i < 3; ++i) {
    CHECK(throws<parallel::ReplicaError>([&] { gradients(true); }, {"1 of 2 replicas", "fault"}));
    CHECK(gradients(false) == expected);
    CHECK(bytes_in_use(cuda(0)) + bytes_in_use(cuda(1)) == before);
  }
}

}  // namespace

TEST_CASE("overlap: after a rank failed in backward the next step is right, and nothing is lost") {
  fail_and_go_on();
  const UserStream first(cuda(0)), second(cuda(1));
  const StreamGuard on_first(cuda(0), first.handle), on_second(cuda(1), second.handle);
  fail_and_go_on();
}
