// How things travel: packed or in pieces, by whose thread, into whose memory.
#include <tandem/core/trace.h>

#include "tests/parallel/models.h"

namespace tandem::test {
namespace {

struct Counting : Mlp {
  Tensor seen = zeros({3});  // a buffer, so that both kinds of slots travel
  Tensor forward(const Tensor& x) override { return Mlp::forward(x) + seen.sum(); }
  void visit(nn::Visitor& v) override {
    Mlp::visit(v);
    v.buffer("seen", seen);
  }
};

std::int64_t gradient_bytes(Device d) {
  return memory::stats(d).of(Category::gradient);
}

}  // namespace

TEST_CASE("replicate: packed, what changed travels in one copy per bucket, buffers included") {
  Counting m;
  const Tensor x = values({6, 8}, 1);
  DataParallel net(m, on(3, {.bucket_bytes = 1 << 20, .coalesce = true}));
  const NoGrad no_grad;
  const auto copies_in = [&](int rank) {
    const auto before = trace::copies(dev(rank));
    const Tensor y = net(x);
    CHECK(close(y, m(x)));
    return (trace::copies(dev(rank)) - before).in_count - 1;  // one is the chunk of x
  };
  CHECK(copies_in(1) == 1);
  CHECK(copies_in(1) == 0);
  m.c.weight.mul_(2.0), m.seen.fill_(5), m.a.bias.fill_(0.5);
  CHECK(copies_in(2) == 1);
  CHECK(copies_in(2) == 0);
  net.replica(2).b.weight.fill_(0);  // only this one lacks something now
  CHECK(copies_in(1) == 0);
  CHECK(close(net.replica(2).b.weight, m.b.weight));
}

TEST_CASE("replicate: packed and in pieces train to the same bits") {
  const Tensor x = values({7, 8}, 1), y = labels(7, 4);
  Mlp pieces;
  Mlp packed = nn::clone(pieces);
  DataParallel a(pieces, on(3, {.coalesce = false}));
  DataParallel b(packed, on(3, {.bucket_bytes = 200, .coalesce = true}));
  for (int step = 0; step < 4; ++step) {
    nn::cross_entropy(a(x), y).backward(), nn::cross_entropy(b(x), y).backward();
    sgd(pieces.parameters(), 0.1), sgd(packed.parameters(), 0.1);
  }
  CHECK(all_bits_equal(packed.parameters(), pieces.parameters()));
}

TEST_CASE("gather: large outputs and input gradients are copied by every rank's own thread") {
  struct Scale : nn::Layer {
    Tensor w = full({1}, 3.0).requires_grad_();
    Tensor forward(const Tensor& t) override { return t * w; }
    void visit(nn::Visitor& v) override { v("w", w); }
  } m;
  DataParallel net(m, on(3));
  const Tensor x = values({7, 40000}, 1).requires_grad_();  // 1 MiB
  const Tensor y = net(x);
  const auto step = net.last_step();
  for (int r = 0; r < 3; ++r) CHECK(step.at(parallel::Phase::gather, r).seconds > 0);
  CHECK(step.at(parallel::Phase::gather, 1).bytes == 2 * 40000 * 4);
  CHECK(bits_equal(y.detach(), x.detach() * 3.0));
  y.backward(ones({7, 40000}));
  CHECK(bits_equal(x.grad(), full({7, 40000}, 3.0)));
}

TEST_CASE("reduce: summed gradients lie in one block, each with a version of its own") {
  Mlp m;
  DataParallel net(m, on(2));
  const std::int64_t before = gradient_bytes(dev(0)), elsewhere = gradient_bytes(dev(1));
  nn::cross_entropy(net(values({6, 8}, 1)), labels(6, 4)).backward();
  std::int64_t block = 0;  // slots start at multiples of 64 bytes
  for (const Tensor& g : grads(m)) block += (g.array().nbytes() + 63) / 64 * 64;
  CHECK(gradient_bytes(dev(0)) - before >= block);
  CHECK(gradient_bytes(dev(0)) - before <= block * 5 / 4);  // the pool's rounding, no second copy
  CHECK(gradient_bytes(dev(1)) == elsewhere);
  const std::uint64_t other = m.a.bias.grad().version();
  const NoGrad no_grad;
  Tensor(m.a.weight.grad()).zero_();
  CHECK(m.a.bias.grad().version() == other);
  m.zero_grad();
  CHECK(gradient_bytes(dev(0)) == before);
}

TEST_CASE(
    "reduce: no memory for a replica's gradients is that replica's failure, and is survived") {
  struct Wide : nn::Layer {
    nn::Linear big{512, 512};
    Tensor forward(const Tensor& t) override { return big(t); }
    void visit(nn::Visitor& v) override { v("big", big); }
  } m;
  DataParallel net(m, on(3));
  const Tensor x = values({3, 512}, 1);
  const Tensor loss = net(x).sum();
  memory::empty_cache(dev(2));
  memory::set_limit(dev(2), memory::stats(dev(2)).reserved + 100000);  // gradients: 1 MiB
  try {
    loss.backward();
    FAIL("no error");
  } catch (const ReplicaError& e) {
    REQUIRE(e.failures().size() == 1);
    CHECK(e.failures()[0].rank == 2);
    CHECK(e.first_is<OutOfMemory>());
  }
  memory::set_limit(dev(2), 0);
  for (const Tensor& g : grads(m)) CHECK(!g.defined());
  net(x).sum().backward();
  for (const Tensor& g : grads(m)) CHECK(g.defined());
}

}  // namespace tandem::test
