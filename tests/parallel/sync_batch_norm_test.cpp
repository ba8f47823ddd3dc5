// SyncBatchNorm: N devices are one. And what happens when a replica does not come.
#include <stdexcept>

#include "tests/parallel/models.h"

#include <tandem/parallel/meeting.h>
#include <tandem/parallel/sync_batch_norm.h>

namespace tandem::test {
namespace {

using parallel::MeetingError;
using parallel::SyncBatchNorm;

// Two norms, one of them behind a branch that uses it twice.
template <class Norm>
struct Net : nn::Layer {
  nn::Linear a{6, 5};
  Norm first{5};
  nn::Sequential rest{nn::ReLU(), nn::Sequential{nn::Linear(5, 4), Norm(4)}};
  Tensor forward(const Tensor& x) override { return rest(first(a(x)) + first(relu(a(x)))); }
  void visit(nn::Visitor& v) override { v("a", a), v("first", first), v("rest", rest); }
};
using Synced = Net<SyncBatchNorm>;
using Plain = Net<nn::BatchNorm1d>;

// Sums of the chunks are added in another order than those of one batch.
constexpr Tolerance kEqual{1e-5, 1e-5};

Tensor input(const Shape& shape, std::uint64_t seed) {
  return (values(shape, seed) * 3 + 2).detach();  // not centered
}

// Three steps of both, compared after each: outputs, gradients of weights and inputs, statistics.
// Each begins with the same weights: rounding errors of one step may grow a hundredfold in the
// next.
template <class M, class P>
void check_equal(M& many, P& one, const DataParallelOptions& options, const Shape& shape) {
  DataParallel net(many, options);
  for (std::uint64_t step = 0; step < 3; ++step) {
    CAPTURE(step);
    one.load_state_dict(many.state_dict());
    Tensor x = input(shape, 10 + step), z = x.clone();
    x.requires_grad_(), z.requires_grad_();
    const Tensor y = net(x), expected = one(z);
    CHECK(close(y, expected, kEqual));
    const Tensor seed = values(y.shape(), 20 + step);
    y.backward(seed);
    expected.backward(seed);
    CHECK(close(x.grad(), z.grad(), kEqual));
    CHECK(all_close(grads(many), grads(one), kEqual));
    CHECK(all_close(many.buffers(), one.buffers(), kEqual));
    sgd(many.parameters(), 0.01);
    one.zero_grad();
  }
}

}  // namespace

TEST_CASE("SyncBatchNorm: 1, 2, 3, 4, 8 devices equal BatchNorm on one, also in uneven chunks") {
  for (int n : {1, 2, 3, 4, 8}) {
    for (std::int64_t rows : {8, 11, 24}) {
      CAPTURE(n);
      CAPTURE(rows);
      manual_seed(1);
      Synced many;
      Plain one;
      check_equal(many, one, on(n), {rows, 6});
    }
  }
}

TEST_CASE("SyncBatchNorm: chunks of any sizes, also of one row, and devices without rows") {
  const auto check_with = [](const DataParallelOptions& options, std::int64_t rows) {
    CAPTURE(rows);
    manual_seed(1);
    Synced many;
    Plain one;
    check_equal(many, one, options, {rows, 6});
  };
  for (const auto& sizes : std::vector<std::vector<std::int64_t>>{
           {1, 1, 7, 1}, {0, 3, 0, 7}, {10, 0, 0, 0}, {1, 0, 0, 1}}) {
    std::int64_t rows = 0;
    for (std::int64_t s : sizes) rows += s;
    check_with(on(4, {.chunks = {.sizes = sizes}}), rows);
  }
  check_with(on(8), 3);
}

TEST_CASE("SyncBatchNorm: images and lines, with momentum or without") {
  for (const nn::BatchNormOptions& options :
       {nn::BatchNormOptions{.eps = 1e-3, .momentum = 0.4},
        nn::BatchNormOptions{.momentum = std::nullopt, .affine = false}}) {
    SyncBatchNorm images(3, options), lines(3, options);
    nn::BatchNorm2d one_image(3, options);
    nn::BatchNorm1d one_line(3, options);
    check_equal(images, one_image, on(3), {7, 3, 4, 5});
    check_equal(lines, one_line, on(4), {6, 3, 5});
  }
}

TEST_CASE("X4 SyncBatchNorm: running statistics are those of the whole batch, on every device") {
  SyncBatchNorm m(1);
  DataParallel net(m, on(2));
  net(tensor_of({0, 2, 10, 14}, {4, 1}));
  CHECK(close(m.running_mean, {0.65}));
  CHECK(close(m.running_var, {5.266667}));
  CHECK(m.num_batches_tracked.item<int>() == 1);
  CHECK(bits_equal(net.replica(1).running_mean, m.running_mean));
  CHECK(bits_equal(net.replica(1).running_var, m.running_var));
}

TEST_CASE("SyncBatchNorm: the same bits every time") {
  Synced m;
  DataParallel net(m, on(4));
  const Tensor x = input({11, 6}, 1), seed = values({11, 4}, 2);
  const Tensor y = net(x);
  y.backward(seed);
  std::vector<Tensor> first;
  for (const Tensor& g : grads(m)) first.push_back(g.clone());
  for (int i = 0; i < 20; ++i) {
    m.zero_grad();
    const Tensor again = net(x);
    CHECK(bits_equal(again, y));
    again.backward(seed);
    CHECK(all_bits_equal(grads(m), first));
  }
}

TEST_CASE("SyncBatchNorm: its state is BatchNorm2d's, and alone it is a BatchNorm") {
  SyncBatchNorm sync(3), copy = nn::clone(sync);
  nn::BatchNorm2d plain(3);
  plain.load_state_dict(sync.state_dict());
  const Tensor x = input({4, 3, 2, 2}, 1);
  CHECK(bits_equal(sync(x), plain(x)));
  CHECK(bits_equal(sync.running_var, plain.running_var));
  CHECK(close(copy.running_var, {1, 1, 1}));
  CHECK(throws<UsageError>([&] { sync(ones({3})); }, {"[SyncBatchNorm]", "2 to 4 dimensions"}));
  CHECK(str(sync) ==
        "SyncBatchNorm(3, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True)");
}

TEST_CASE("SyncBatchNorm: evaluation meets nobody") {
  Synced m;
  Plain one;
  m(input({20, 6}, 1));
  one.load_state_dict(m.state_dict());
  m.eval(), one.eval();
  check_equal(m, one, on(4), {5, 6});
}

TEST_CASE("SyncBatchNorm: frozen, it still normalizes and passes the whole batch's gradient") {
  Synced many;
  Plain one;
  many.first.requires_grad_(false);
  one.first.requires_grad_(false);
  check_equal(many, one, on(3), {8, 6});
  CHECK(!many.first.weight.grad().defined());
}

TEST_CASE("SyncBatchNorm: a retained backward may run twice") {
  Synced many;
  Plain one;
  one.load_state_dict(many.state_dict());
  DataParallel net(many, on(3));
  const Tensor x = input({8, 6}, 1), seed = values({8, 4}, 2);
  const Tensor y = net(x), z = one(x);
  y.backward(seed, true);
  y.backward(seed);
  z.backward(seed, true);
  z.backward(seed);
  CHECK(all_close(grads(many), grads(one), kEqual));
}

TEST_CASE("SyncBatchNorm: two passes before their backwards, which come in any order") {
  Synced many;
  Plain one;
  one.load_state_dict(many.state_dict());
  DataParallel net(many, on(3));
  const Tensor a = input({8, 6}, 1), b = input({5, 6}, 2);
  const Tensor ya = net(a), yb = net(b), za = one(a), zb = one(b);
  sum(ya * ya * ya).backward();
  sum(yb * yb * yb).backward();
  sum(zb * zb * zb).backward();
  sum(za * za * za).backward();
  CHECK(all_close(grads(many), grads(one), {1e-4, 1e-4}));  // cubes: ten times larger
}

TEST_CASE("SyncBatchNorm: losses per device, added up, have one device's gradients") {
  Synced many;
  Plain one;
  one.load_state_dict(many.state_dict());
  DataParallel net(many, on(3));
  const Tensor x = input({8, 6}, 1);
  Tensor total = zeros({});
  for (const Tensor& y : net.scattered(x)) total = total + sum(y * y * y).to(dev(0));
  total.backward();
  const Tensor z = one(x);
  sum(z * z * z).backward();
  CHECK(all_close(grads(many), grads(one), {1e-4, 1e-4}));
}

TEST_CASE("SyncBatchNorm: one row in all is refused, two rows on two devices are enough") {
  SyncBatchNorm m(2);
  DataParallel net(m, on(2));
  CHECK(throws<ReplicaError>([&] { net(ones({1, 2})); }, {"more than one value per channel"}));
  CHECK(net(input({2, 2}, 1)).shape() == Shape{2, 2});
}

TEST_CASE("SyncBatchNorm: in parallel_apply every module is by itself") {
  SyncBatchNorm a(2), b(2);
  nn::BatchNorm1d one(2);
  b.to(dev(1));
  Tensor x = input({4, 2}, 1).requires_grad_(), y = input({3, 2}, 2).to(dev(1)).requires_grad_();
  const auto out = parallel::parallel_apply(std::vector<SyncBatchNorm*>{&a, &b}, std::vector{x, y});
  CHECK(close(out[0], one(x)));
  CHECK(close(out[1], one(y.to(dev(0)))));
  sum(out[1] * out[1] * out[1]).backward();
  CHECK(x.grad().defined() == false);
  CHECK(y.grad().defined());
}

// ---- when a replica does not come

namespace {

enum class Ill { nowhere, before, between, after, skips, swaps };

struct Trouble : nn::Layer {
  SyncBatchNorm a{6}, b{6};
  Ill ill = Ill::nowhere;
  int rank = 0;
  Tensor forward(const Tensor& x) override {
    const Ill mine = current_replica().rank == rank ? ill : Ill::nowhere;
    if (mine == Ill::before) throw std::runtime_error("ill before");
    if (mine == Ill::swaps) return a(b(x));
    const Tensor y = a(x);
    if (mine == Ill::between) throw std::runtime_error("ill between");
    if (mine == Ill::skips) return y;
    const Tensor z = b(y);
    if (mine == Ill::after) throw std::runtime_error("ill after");
    return z;
  }
  void visit(nn::Visitor& v) override { v("a", a), v("b", b), v("ill", ill), v("rank", rank); }
};

// What run() throws.
std::vector<ReplicaError::Failure> failures_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const ReplicaError& e) {
    return e.failures();
  }
  return {};
}

bool is_cause(const ReplicaError::Failure& f) {
  try {
    std::rethrow_exception(f.exception);
  } catch (const MeetingError&) {
    return false;
  } catch (...) {
    return true;
  }
}

}  // namespace

TEST_CASE("SyncBatchNorm: a replica that throws releases the others, and is named first") {
  for (int rank : {0, 2, 3}) {
    for (Ill ill : {Ill::before, Ill::between, Ill::after}) {
      CAPTURE(rank);
      CAPTURE(int(ill));
      Trouble m;
      nn::Sequential one{nn::BatchNorm1d(6), nn::BatchNorm1d(6)};
      DataParallel net(m, on(4));
      m.ill = ill, m.rank = rank;
      const auto failures = failures_of([&] { net(input({9, 6}, 1)); });
      REQUIRE(failures.size() == (ill == Ill::after ? 1 : 4));
      CHECK(failures[0].rank == rank);
      CHECK(contains(failures[0].message, "ill"));
      for (std::size_t i = 1; i < failures.size(); ++i) {
        CHECK(!is_cause(failures[i]));
        CHECK(contains(failures[i].message, str("[SyncBatchNorm] replica ", rank, " failed")));
      }
      m.ill = Ill::nowhere;
      CHECK(close(net(input({9, 6}, 1)), one(input({9, 6}, 1)), kEqual));
    }
  }
}

TEST_CASE("SyncBatchNorm: a replica that skips the layer is an error of those who waited") {
  Trouble m;
  DataParallel net(m, on(3));
  m.ill = Ill::skips, m.rank = 1;
  const auto failures = failures_of([&] { net(input({9, 6}, 1)); });
  REQUIRE(failures.size() == 2);
  CHECK(failures[0].rank == 0);
  CHECK(failures[1].rank == 2);
  CHECK(contains(failures[0].message, "replica 1 finished without coming here"));
  m.ill = Ill::nowhere;
  CHECK(net(input({9, 6}, 1)).shape() == Shape{9, 6});
}

TEST_CASE("SyncBatchNorm: replicas at different layers are an error of all of them") {
  Trouble m;
  DataParallel net(m, on(2));
  m.ill = Ill::swaps, m.rank = 1;
  const auto failures = failures_of([&] { net(input({9, 6}, 1)); });
  REQUIRE(failures.size() == 2);
  for (const auto& f : failures) CHECK(contains(f.message, "came to different layers"));
  m.ill = Ill::nowhere;
  CHECK(net(input({9, 6}, 1)).shape() == Shape{9, 6});
}

TEST_CASE("SyncBatchNorm: a loss that leaves a replica out is an error of backward, no hang") {
  Trouble m;
  DataParallel net(m, on(2));
  Tensor x = input({9, 6}, 1).requires_grad_();
  auto parts = net.scattered(x);
  CHECK(throws<ReplicaError>([&] { sum(parts[0]).backward(); },
                             {"replica 1 finished without coming here", "part of the loss"}));
  CHECK(!m.a.weight.grad().defined());
  sum(net(x)).backward();
  CHECK(m.a.weight.grad().defined());
}

namespace {

struct Refuse : Function<Refuse> {
  static Tensor forward(FunctionContext*, const Tensor& x) { return x.clone(); }
  static std::vector<Tensor> backward(FunctionContext*, const std::vector<Tensor>& dy) {
    if (current_replica().rank == 1) throw std::runtime_error("ill on the way back");
    return dy;
  }
};

struct IllOnTheWayBack : nn::Layer {
  SyncBatchNorm a{6}, b{6};
  bool ill = true;
  Tensor forward(const Tensor& x) override {
    const Tensor y = a(x);
    return b(ill ? Refuse::apply(y) : y);
  }
  void visit(nn::Visitor& v) override { v("a", a), v("b", b), v("ill", ill); }
};

}  // namespace

TEST_CASE("SyncBatchNorm: a replica that throws in backward releases the others") {
  IllOnTheWayBack m;
  DataParallel net(m, on(3));
  Tensor x = input({9, 6}, 1).requires_grad_();
  const Tensor y = net(x);
  const auto failures = failures_of([&] { sum(y * y).backward(); });
  REQUIRE(failures.size() == 3);
  CHECK(failures[0].rank == 1);
  CHECK(contains(failures[0].message, "ill on the way back"));
  CHECK(!m.a.weight.grad().defined());
  CHECK(!x.grad().defined());
  m.ill = false;
  const Tensor z = net(x);
  sum(z * z).backward();
  CHECK(m.a.weight.grad().defined());
}

namespace {
Tensor leaked;  // what a forward should not keep
struct Leaks : nn::Layer {
  SyncBatchNorm norm{6};
  Tensor forward(const Tensor& x) override {
    const Tensor y = norm(x);
    if (current_replica().rank == 0) leaked = y;
    return y;
  }
  void visit(nn::Visitor& v) override { v("norm", norm); }
};
}  // namespace

TEST_CASE("SyncBatchNorm: a backward outside of the replicas is refused") {
  Leaks m;
  DataParallel net(m, on(2));
  net(input({9, 6}, 1).requires_grad_());
  CHECK(throws<UsageError>([] { sum(leaked).backward(); }, {"[SyncBatchNorm]", "DataParallel"}));
  leaked = {};
}

TEST_CASE("SyncBatchNorm: many steps, some of which fail, never hang") {
  Trouble m;
  DataParallel net(m, on(8));
  const Ill ways[] = {Ill::nowhere, Ill::before, Ill::between, Ill::after, Ill::skips, Ill::swaps};
  int failed = 0;
  for (int i = 0; i < 120; ++i) {
    m.ill = ways[i % 6], m.rank = i % 8;
    Tensor x = input({8 + i % 9, 6}, std::uint64_t(i)).requires_grad_();
    try {
      const Tensor y = net(x);
      sum(y * y * y).backward();
    } catch (const ReplicaError&) {
      ++failed;
    }
  }
  CHECK(failed == 100);
}

}  // namespace tandem::test
