// Chapter 2, and rows 2.3 (B1 ..., R1) and 2.4 (P1 ...).
#include <tandem/core/array_ops.h>

#include "tests/parallel/models.h"

namespace tandem::test {
using parallel::broadcast;

TEST_CASE("B1 broadcast: equal copies on every device; the source's own device gets the array") {
  for (Device home : {dev(7), dev(0)}) {
    const Tensor x = values({5, 5}, 1, home);
    const auto copies = broadcast(x, {dev(0), dev(1)});
    for (int i = 0; i < 2; ++i) {
      const Tensor& c = copies[std::size_t(i)];
      CHECK(c.device() == dev(i));
      CHECK(bits_equal(c, x));
      CHECK((c.array().data() == x.array().data()) == (home == dev(i)));
    }
  }
}

TEST_CASE("B3 broadcast: mixed types keep order and types; a write raises one version only") {
  const auto ints = [](std::uint64_t s) { return random_tensor({5}, s, int64, dev(0), -9, 9); };
  const std::vector<Tensor> list{
      ints(1),       values({5}, 2), ints(3), ints(4), random_tensor({10}, 5, int32, dev(0), -9, 9),
      values({5}, 6)};
  std::vector<Array> arrays;
  for (const Tensor& t : list) arrays.push_back(t.array());
  auto copies = broadcast(arrays, devs(2), 100);
  REQUIRE(copies.size() == 2);
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    CHECK(copies[0][i].same_as(arrays[i]));
    CHECK(copies[1][i].device() == dev(1));
    CHECK(bits_equal(copies[1][i], arrays[i]));
  }
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    std::vector<std::uint64_t> before;
    for (auto& a : copies[1]) before.push_back(a.version());
    fill(copies[1][i], 1);
    for (std::size_t j = 0; j < arrays.size(); ++j) {
      CHECK(copies[1][j].version() == before[j] + (i == j ? 1 : 0));
    }
  }
}

TEST_CASE("B3 broadcast: buckets of 100 bytes make one copy per bucket, a large one makes one") {
  std::vector<Array> arrays;
  for (int i = 0; i < 4; ++i) arrays.push_back(values({16}, std::uint64_t(i)).array());  // 64 bytes
  auto count = [&](std::int64_t bucket) {
    const auto before = trace::copies(dev(1));
    broadcast(arrays, devs(2), bucket);
    return (trace::copies(dev(1)) - before).in_count;
  };
  CHECK(count(1 << 20) == 1);
  CHECK(count(128) == 2);
}

TEST_CASE("B5 broadcast: an empty array is not dropped") {
  const std::vector<Array> arrays{Array::empty({0}, uint8, dev(0)), values({5}, 1).array(),
                                  random_tensor({5}, 2, float64).array()};
  const auto copies = broadcast(arrays, devs(2), 256);
  REQUIRE(copies[1].size() == 3);
  CHECK(copies[1][0].shape() == Shape{0});
  CHECK(copies[1][0].dtype() == uint8);
  for (std::size_t i = 0; i < 3; ++i) CHECK(bits_equal(copies[1][i], arrays[i]));
}

TEST_CASE("R1 reduce: the sum of two devices' arrays is on the first, in order") {
  const Tensor x = values({5, 5}, 1, dev(0)), y = values({5, 5}, 2, dev(1));
  const Tensor z = parallel::reduce({x, y}, dev(0));
  CHECK(z.device() == dev(0));
  CHECK(bits_equal(z, x + y.to(dev(0))));
}

TEST_CASE("R1 reduce and broadcast are each other's backward") {
  Tensor x = values({3}, 1);
  x.requires_grad_();
  const auto copies = broadcast(x, devs(3));
  std::vector<Tensor> scaled;
  for (std::size_t i = 0; i < 3; ++i) scaled.push_back(copies[i] * double(i + 1));
  sum(parallel::reduce(scaled, dev(0))).backward();
  CHECK(close(x.grad(), {6, 6, 6}));
}

// ---- 2.4: what replicas are

namespace {
template <class M>
void make_replicas(DataParallel<M>& net, const Shape& input) {
  const NoGrad no_grad;
  net(values(input, 1));
}
}  // namespace

TEST_CASE("P1 replicate: every replica gives the original's output on its device") {
  nn::Linear m(10, 5);
  DataParallel net(m, on(3));
  make_replicas(net, {6, 10});
  const Tensor x = values({2, 10}, 2);
  for (int r = 0; r < 3; ++r) {
    const Tensor y = net.replica(r)(x.to(dev(r)));
    CHECK(y.device() == dev(r));
    CHECK(close(y, m(x)));
  }
}

namespace {
struct Raw : nn::Module {
  nn::Linear a{2, 2}, b{2, 2};
  Tensor count = zeros({2});
  Tensor forward(const Tensor& x) { return b(relu(a(x))); }
  void visit(nn::Visitor& v) override { v("a", a), v("b", b), v.buffer("count", count); }
};
}  // namespace

TEST_CASE("P3 replicate: replica 0 shares storage with the original, replica 1 nothing") {
  Raw m;
  DataParallel net(m, on(2));
  make_replicas(net, {2, 2});
  auto storages = [](Raw& r) {
    std::vector<const std::byte*> list;
    for (Tensor& t : r.parameters()) list.push_back(t.array().data());
    for (Tensor& t : r.buffers()) list.push_back(t.array().data());
    return list;
  };
  const auto master = storages(m), first = storages(net.replica(0)),
             second = storages(net.replica(1));
  REQUIRE(master.size() == 5);
  CHECK(first == master);
  for (std::size_t i = 0; i < master.size(); ++i) CHECK(second[i] != master[i]);
}

TEST_CASE("P4 replicate: a raw step shows in replica 0 at once, in replica 1 not before the next") {
  Raw m;
  DataParallel net(m, on(2));
  make_replicas(net, {2, 2});
  const Tensor x = ones({2, 2});
  const Tensor before = m.forward(x).detach().clone();
  mean(m.forward(x)).backward();
  sgd(m.parameters(), 1.0);
  const Tensor after = m.forward(x);
  CHECK(!close(before, after).ok);
  CHECK(close(net.replica(0).forward(x), after));
  CHECK(close(net.replica(1).forward(x.to(dev(1))), before));
  net(x);
  CHECK(close(net.replica(1).forward(x.to(dev(1))), after));
}

namespace {
struct Wrapper : nn::Module {
  nn::Linear inner{4, 4};
  Tensor forward(const Tensor& x) { return inner(x); }
  void visit(nn::Visitor& v) override { v("inner", inner); }
};
struct Shares : nn::Module {
  Wrapper m1;
  nn::Linear m2 = m1.inner;  // a copy shares its weights
  Tensor forward(const Tensor& x) { return m2(m1.forward(x)); }
  void visit(nn::Visitor& v) override { v("m1", m1), v("m2", m2); }
};
}  // namespace

TEST_CASE("P5 replicate: a shared sub-module stays shared in every replica") {
  Shares m;
  CHECK(m.parameters().size() == 2);
  DataParallel net(m, on(2));
  make_replicas(net, {2, 4});
  const Tensor x = values({3, 4}, 2);
  for (int r = 0; r < 2; ++r) {
    Shares& replica = net.replica(r);
    CHECK(replica.m1.inner.weight.is_same(replica.m2.weight));
    CHECK(replica.parameters().size() == 2);
    for (Tensor& t : replica.parameters()) CHECK(t.device() == dev(r));
    CHECK(close(replica.forward(x.to(dev(r))), m.forward(x)));
  }
}

namespace {
struct TwoBuffers : nn::Module {
  Tensor with_grad = random_tensor({100}, 3, has_float64() ? float64 : float32);
  Tensor without = with_grad.detach().clone();
  TwoBuffers() { with_grad.requires_grad_(); }
  Tensor forward(const Tensor& x) { return x * with_grad + without; }
  void visit(nn::Visitor& v) override {
    v.buffer("with_grad", with_grad), v.buffer("without", without);
  }
};
}  // namespace

TEST_CASE("P7 replicate: a buffer that requires a gradient gets the sum over the replicas") {
  TwoBuffers m;
  DataParallel net(m, on(2));
  const Tensor x = random_tensor({2, 100}, 4, m.with_grad.dtype());
  sum(net(x) * net(x)).backward();
  // d/dt sum (x t + u)^2 = 2 sum_rows x (x t + u)
  const auto xs = doubles(x), t = doubles(m.with_grad), u = doubles(m.without);
  std::vector<double> expected(100, 0);
  for (std::size_t i = 0; i < 200; ++i) {
    const std::size_t j = i % 100;
    expected[j] += 2 * xs[i] * (xs[i] * t[j] + u[j]);
  }
  CHECK(close(m.with_grad.grad(), expected,
              has_float64() ? Tolerance{1e-12, 1e-12} : Tolerance{1e-5, 1e-5}));
  CHECK(!m.without.grad().defined());
}

TEST_CASE("P10 replicate: copies are equal, elsewhere, and not the original's memory") {
  nn::Linear m(3, 4);
  m.to(dev(7));
  DataParallel net(m, {.devices = {dev(7), dev(0), dev(1)}});
  const NoGrad no_grad;
  net(values({3, 3}, 1, dev(7)));
  for (int r : {1, 2}) {
    CHECK(net.replica(r).weight.device() == dev(r - 1));
    CHECK(bits_equal(net.replica(r).weight, m.weight));
    CHECK(net.replica(r).weight.array().data() != m.weight.array().data());
  }
}

TEST_CASE("P11 replicate: bytes on every device return to the level before") {
  const auto before = bytes_in_use(3);
  {
    nn::Linear m(1, 1);
    DataParallel net(m, on(3));
    mean(net(ones({3, 1}))).backward();
    CHECK(bytes_in_use(3) != before);
  }
  CHECK(bytes_in_use(3) == before);
}

}  // namespace tandem::test
