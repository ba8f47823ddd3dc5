// Standing proofs of chapter 7: N replicas are one, whatever happens.
#include <thread>

#include <tandem/core/array_ops.h>

#include "tests/parallel/models.h"

namespace tandem::test {

TEST_CASE("data_parallel: N replicas equal one, for every N, batch and step") {
  for (int n : {1, 2, 3, 4, 8}) {
    for (std::int64_t rows : {1, 3, 7, 10, 13}) {
      CAPTURE(n);
      CAPTURE(rows);
      Mlp one;
      Mlp many = nn::clone(one);
      DataParallel net(many, on(n, {.bucket_bytes = 1024}));
      check_equal_steps(one, net, {rows, 8}, 4, 3);
    }
  }
}

TEST_CASE("data_parallel: chunk rules and weights change who works, not the result") {
  const Tensor x = values({10, 8}, 1), y = labels(10, 4);
  Mlp one;
  nn::cross_entropy(one(x), y).backward();
  const std::vector<parallel::ChunkOptions> options{{.rule = parallel::ChunkRule::ceil},
                                                    {.weights = {1, 2, 3}},
                                                    {.weights = {0, 1, 1}},
                                                    {.weights = {1, 0, 0}},
                                                    {.sizes = {0, 0, 10}},
                                                    {.sizes = {5, 0, 5}}};
  for (const auto& chunks : options) {
    Mlp many = nn::clone(one);
    DataParallel net(many, on(3, {.chunks = chunks}));
    for (int i = 0; i < 2; ++i) {
      many.zero_grad();
      nn::cross_entropy(net(x), y).backward();
      CHECK(all_close(grads(many), grads(one)));
      for (const Tensor& g : grads(many)) CHECK(g.device() == dev(0));
    }
  }
}

TEST_CASE("data_parallel: K micro-batches equal one batch, and re-send nothing between") {
  const Tensor x = values({12, 8}, 1), y = labels(12, 4);
  Mlp one;
  nn::cross_entropy(one(x), y).backward();
  for (std::int64_t k : {2, 3, 4}) {
    Mlp many = nn::clone(one);
    DataParallel net(many, on(2));
    const std::int64_t rows = 12 / k;
    for (std::int64_t i = 0; i < k; ++i) {
      const Tensor part =
          nn::cross_entropy(net(x.narrow(0, i * rows, rows)), y.narrow(0, i * rows, rows));
      (part / double(k)).backward();
      const auto sent = net.last_step().at(parallel::Phase::replicate, 1).bytes;
      CHECK((sent == 0) == (i > 0));
    }
    CHECK(all_close(grads(many), grads(one)));
  }
}

TEST_CASE("data_parallel: two forwards and one backward accumulate as on one device") {
  Mlp one;
  Mlp many = nn::clone(one);
  DataParallel net(many, on(3));
  const Tensor x1 = values({7, 8}, 1), x2 = values({5, 8}, 2), y1 = labels(7, 4), y2 = labels(5, 4);
  (nn::cross_entropy(one(x1), y1) + nn::cross_entropy(one(x2), y2)).backward();
  (nn::cross_entropy(net(x1), y1) + nn::cross_entropy(net(x2), y2)).backward();
  CHECK(all_close(grads(many), grads(one)));
}

TEST_CASE("data_parallel: one forward and two backwards accumulate when the graph is retained") {
  Mlp one;
  Mlp many = nn::clone(one);
  DataParallel net(many, on(3));
  const Tensor x = values({7, 8}, 1), y = labels(7, 4);
  const Tensor a = nn::cross_entropy(one(x), y), b = nn::cross_entropy(net(x), y);
  a.backward(true), a.backward();
  b.backward(true), b.backward();
  CHECK(all_close(grads(many), grads(one)));
  CHECK(throws<StaleGraphError>([&] { b.backward(); }, {"freed"}));
}

TEST_CASE("data_parallel: a stale graph is an error exactly where it is one on one device") {
  Mlp one;
  Mlp m = nn::clone(one);
  DataParallel net(m, on(3));
  const Tensor x = values({7, 8}, 1), y = labels(7, 4);
  const auto touch = [](Tensor& t) {
    const NoGrad no_grad;
    t.mul_(1.0);
  };
  for (bool forward_between : {false, true}) {
    const Tensor loss = nn::cross_entropy(net(x), y);
    touch(m.b.weight);
    if (forward_between) net(x);
    CHECK(throws<ReplicaError>(
        [&] { loss.backward(); },
        {"replica 0 on", dev_name(0), "(rows 0 to 2)", "changed since forward"}));
    for (const Tensor& g : grads(m)) CHECK(!g.defined());
  }
  const Tensor single = nn::cross_entropy(one(x), y);
  touch(one.b.weight);
  CHECK(throws<StaleGraphError>([&] { single.backward(); }, {"changed since forward"}));
  // No graph saves a bias: writing one is fine, also when it is sent again.
  const Tensor loss = nn::cross_entropy(net(x), y);
  touch(m.b.bias);
  net(x);
  CHECK_NOTHROW(loss.backward());
}

TEST_CASE("data_parallel: a graph that is still alive keeps the parameters it saw") {
  Mlp one;
  Mlp m = nn::clone(one);
  DataParallel net(m, on(3));
  const Tensor x = values({9, 8}, 1), y = labels(9, 4);
  nn::cross_entropy(one(x), y).backward();
  const Tensor loss = nn::cross_entropy(net(x), y);
  for (Tensor& p : m.parameters()) p.set_array(Array::zeros(p.shape(), float32, dev(0)));
  CHECK(close(net(x), std::vector<double>(36, 0)));  // the new values are everywhere
  loss.backward();                                   // and the old ones still there
  CHECK(all_close(grads(m), grads(one)));
}

TEST_CASE("data_parallel: only what changed is sent") {
  Mlp m;
  DataParallel net(m, on(4, {.coalesce = false}));  // else gaps between parameters are sent, too
  const Tensor x = values({8, 8}, 1);
  const NoGrad no_grad;
  const auto all = [&] {
    std::int64_t bytes = 0;
    for (Tensor& p : m.parameters()) bytes += p.array().nbytes();
    return bytes;
  }();
  const auto sent = [&] {
    net(x);
    std::vector<std::int64_t> list;
    for (int r = 0; r < 4; ++r) {
      list.push_back(net.last_step().at(parallel::Phase::replicate, r).bytes);
    }
    return list;
  };
  using Bytes = std::vector<std::int64_t>;
  CHECK(sent() == Bytes{0, all, all, all});
  CHECK(sent() == Bytes{0, 0, 0, 0});
  for (Tensor& p : m.parameters()) p.mul_(1.0);
  CHECK(sent() == Bytes{0, all, all, all});
  m.c.bias.fill_(100.0);  // behind the engine's back
  CHECK(sent() == Bytes{0, 16, 16, 16});
  CHECK(doubles(net(x))[31] > 50);
  net.replica(2).b.bias.fill_(7.0);  // a replica's own copy was written: it gets the master's back
  CHECK(sent() == Bytes{0, 0, 64, 0});
  CHECK(bits_equal(net.replica(2).b.bias, m.b.bias));
  m.a.weight.set_array(values({16, 8}, 5).array());  // value replaced
  CHECK(sent() == Bytes{0, 512, 512, 512});
  CHECK(bits_equal(net.replica(3).a.weight, m.a.weight));
  CHECK(bits_equal(net.replica(0).a.weight, m.a.weight));
  CHECK(sent() == Bytes{0, 0, 0, 0});
  const Tensor other = values({16, 8}, 6);  // another array with the same version number
  REQUIRE(other.version() == m.a.weight.version());
  m.a.weight.set_array(other.array());
  CHECK(sent() == Bytes{0, 512, 512, 512});
  CHECK(bits_equal(net.replica(1).a.weight, other));
}

TEST_CASE("data_parallel: a replaced layer and a changed shape rebuild the replicas") {
  Mlp m;
  DataParallel net(m, on(2));
  const Tensor x = values({4, 8}, 1);
  net(x);
  m.b = nn::Linear(16, 16);
  CHECK(close(net(x), m(x)));
  m.c = nn::Linear(16, 9);
  CHECK(net(x).shape() == Shape{4, 9});
  CHECK(close(net(x), m(x)));
  if (!has_float64()) return;
  m.to(float64);
  CHECK(close(net(x.to(float64)), m(x.to(float64))));
}

namespace {
struct Odd : nn::Module {
  nn::Linear a{8, 8}, b{8, 8}, unused{8, 8}, head{8, 4};
  bool only_first = false;
  Odd() {
    b.weight = a.weight;  // tied
    a.bias.requires_grad_(false);
  }
  Tensor forward(const Tensor& x) {
    Tensor h = relu(a(x));
    if (!only_first || current_replica().rank <= 0) h = b(h);
    return head(h);
  }
  void visit(nn::Visitor& v) override {
    v("a", a), v("b", b), v("unused", unused), v("head", head), v("only_first", only_first);
  }
};
}  // namespace

TEST_CASE("data_parallel: unused, frozen and tied parameters stay what they are") {
  Odd one;
  Odd many = nn::clone(one);
  CHECK(many.b.weight.is_same(many.a.weight));
  DataParallel net(many, on(3, {.bucket_bytes = 256}));
  const Tensor x = values({8, 8}, 1), y = labels(8, 4);
  nn::cross_entropy(one.forward(x), y).backward();
  nn::cross_entropy(net(x), y).backward();
  CHECK(net.replica(2).b.weight.is_same(net.replica(2).a.weight));
  CHECK(!net.replica(2).a.bias.requires_grad());
  CHECK(net.replica(2).parameters().size() == many.parameters().size());
  CHECK(all_close(grads(many), grads(one)));
  CHECK(!many.a.bias.grad().defined());
  CHECK(!many.unused.weight.grad().defined());

  many.only_first = true;  // a setting named in visit() is followed
  many.a.bias.requires_grad_();
  many.zero_grad();
  nn::cross_entropy(net(x), y).backward();
  CHECK(net.replica(1).only_first);
  CHECK(many.b.bias.grad().defined());  // from rank 0 alone
  CHECK(many.a.bias.grad().defined());
}

TEST_CASE(
    "data_parallel: a parameter frozen between forward and backward still gets its gradient") {
  Mlp one;
  Mlp many = nn::clone(one);
  DataParallel net(many, on(2));
  const Tensor x = values({8, 8}, 1), y = labels(8, 4);
  const Tensor a = nn::cross_entropy(one(x), y), b = nn::cross_entropy(net(x), y);
  for (Mlp* m : {&one, &many}) m->c.weight.requires_grad_(false);
  net(x);  // replicas follow the flag; the older graph must not
  a.backward(), b.backward();
  CHECK(many.c.weight.grad().defined());
  CHECK(all_close(grads(many), grads(one)));
}

TEST_CASE("data_parallel: train() and eval() reach the replicas") {
  struct Net : nn::Layer {
    nn::Dropout drop{0.5};
    Tensor forward(const Tensor& x) override { return drop(x); }
    void visit(nn::Visitor& v) override { v("drop", drop); }
  } m;
  DataParallel net(m, on(3));
  const Tensor x = ones({6, 50});
  CHECK(!close(net(x), x).ok);
  net.eval();
  CHECK(bits_equal(net(x), x));
  CHECK(!net.replica(2).drop.training);
  net.train();
  CHECK(!close(net(x), x).ok);
}

namespace {
struct Counts : nn::Layer {
  Tensor count = zeros({4}), w = ones({4}, {.requires_grad = true});
  Tensor forward(const Tensor& x) override {
    const Tensor y = x * w + count.clone();
    if (training) {
      const NoGrad no_grad;
      count.add_(full({4}, double(x.size(0))));
    }
    return y;
  }
  void visit(nn::Visitor& v) override { v("w", w), v.buffer("count", count); }
};
}  // namespace

TEST_CASE("data_parallel: buffers follow the first device") {
  Counts m;
  DataParallel net(m, on(3));
  const Tensor x = values({8, 4}, 1);
  for (int i = 0; i < 50; ++i) mean(net(x)).backward();
  CHECK(close(m.count, {150, 150, 150, 150}));  // rank 0 has 3 of 8 rows
  m.eval();
  CHECK(close(net(x), x * m.w + m.count));
  CHECK(close(m.count, {150, 150, 150, 150}));
}

TEST_CASE("data_parallel: a buffer that forward re-assigns is an error that names it") {
  struct Bad : Counts {
    Tensor forward(const Tensor& x) override {
      count = count + 1;
      return x * w;
    }
  } m;
  DataParallel net(m, on(2));
  CHECK(throws<ReplicaError>([&] { net(values({4, 4}, 1)); }, {"re-assigned 'count'", "in place"}));
}

namespace {
struct Out {
  Tensor logits;
  std::map<std::string, Tensor> extra;
  std::optional<Tensor> none;
  int id = 0;
  Tensor undefined;
  void visit(nn::Visitor& v) {
    v("logits", logits), v("extra", extra), v("none", none), v("undefined", undefined);
  }
};
struct Batch {
  Tensor x, mask;
  void visit(nn::Visitor& v) { v("x", x), v("mask", mask); }
};
struct Everything : nn::Module {
  Mlp body;
  Out forward(const Batch& in, const Tensor& table, double factor, const std::string& name) {
    Out o;
    o.logits = body(in.x) * factor;
    o.extra["mean"] = mean(in.x * table);
    o.extra[name] = in.x.detach();
    o.id = current_replica().rank;
    return o;
  }
  void visit(nn::Visitor& v) override { v("body", body); }
};
}  // namespace

TEST_CASE("data_parallel: any signature: structs, maps, optionals, text, replicated tensors") {
  Everything m;
  DataParallel net(m, on(4, {.output_device = dev(2)}));
  Tensor table = values({1, 8}, 3);
  table.requires_grad_();
  const Tensor x = values({6, 8}, 4);
  const Out o = net(Batch{x, {}}, parallel::replicated(table), 2.0, std::string("x"));
  CHECK(o.logits.device() == dev(2));
  CHECK(o.id == 0);
  CHECK(!o.none);
  CHECK(!o.undefined.defined());
  CHECK(!o.extra.at("x").requires_grad());
  CHECK(close(o.extra.at("x"), x));
  CHECK(close(o.logits, m.body(x) * 2.0));
  CHECK(close(o.extra.at("mean").item<double>(), mean(x * table).item<double>()));
  o.extra.at("mean").backward();
  CHECK(close(table.grad(), sum(x, {0}, true) / 48.0));
  CHECK(throws<UsageError>(
      [&] {
        net(Batch{x, {}}, table, 2.0, std::string("x"));
      },
      {"argument 0.x has 6 rows", "argument 1 has 1", "replicated(t)"}));
}

TEST_CASE("data_parallel: scattered outputs stay on their devices, and a loss on each works") {
  Mlp one;
  Mlp many = nn::clone(one);
  DataParallel net(many, on(3));
  const Tensor x = values({7, 8}, 1), y = labels(7, 4);
  const auto outputs = net.scattered(x);
  REQUIRE(outputs.size() == 3);
  Tensor total;
  std::int64_t row = 0;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const std::int64_t n = outputs[i].size(0);
    CHECK(outputs[i].device() == dev(int(i)));
    const Tensor target = y.narrow(0, row, n).to(dev(int(i)));
    const Tensor loss =
        nn::cross_entropy(outputs[i], target, {.reduction = nn::Reduction::sum}).to(dev(0));
    total = total.defined() ? total + loss : loss;
    row += n;
  }
  (total / 7.0).backward();
  nn::cross_entropy(one(x), y).backward();
  CHECK(all_close(grads(many), grads(one)));
}

TEST_CASE("data_parallel: with_loss computes the loss in the replicas; only numbers are gathered") {
  Mlp one;
  Mlp many = nn::clone(one);
  auto lossy = parallel::with_loss(
      many, [](const Tensor& out, const Tensor& target) { return nn::cross_entropy(out, target); });
  DataParallel net(lossy, on(3));
  const Tensor x = values({7, 8}, 1), y = labels(7, 4);
  const Tensor loss = net(x, y);
  CHECK(loss.shape() == Shape{});
  const Tensor expected = nn::cross_entropy(one(x), y);
  CHECK(close(loss, expected));
  loss.backward(), expected.backward();
  CHECK(all_close(grads(many), grads(one)));
  CHECK(net.last_step().at(parallel::Phase::gather, 1).bytes == 4);
  CHECK(net.state_dict().count("a.weight") == 1);
}

TEST_CASE("data_parallel: failures in backward change no gradient and lose nothing") {
  struct BadBackward : nn::Layer {
    Mlp body;
    int from = -1;
    Tensor forward(const Tensor& x) override {
      const Tensor y = body(x);
      return record("bad_backward", y.array().clone(), {y},
                    [limit = from](const Array& dy, const Wanted&) {
                      if (limit >= 0 && current_replica().rank >= limit) {
                        throw std::out_of_range("backward fault");
                      }
                      return dy;
                    });
    }
    void visit(nn::Visitor& v) override { v("body", body), v("from", from); }
  } m;
  DataParallel net(m, on(4, {.bucket_bytes = 256}));
  const Tensor x = values({10, 8}, 1), y = labels(10, 4);
  for (int i = 0; i < 20; ++i) {
    m.from = 1;
    const Tensor loss = nn::cross_entropy(net(x), y);
    CHECK(throws<ReplicaError>([&] { loss.backward(); }, {"3 of 4 replicas failed", "replica 1"}));
    for (const Tensor& g : grads(m)) CHECK(!g.defined());
    m.from = -1;
    nn::cross_entropy(net(x), y).backward();
    for (const Tensor& g : grads(m)) CHECK(g.defined());
    m.zero_grad();
  }
}

TEST_CASE("data_parallel: a tensor that visit() does not name is refused in backward") {
  static Mlp stray;
  struct Net : nn::Layer {
    Mlp own;
    Tensor forward(const Tensor& x) override {
      return current_replica().rank == 0 ? stray(x) : own(x);
    }
    void visit(nn::Visitor& v) override { v("own", own); }
  } m;
  DataParallel net(m, on(2));
  const Tensor loss = mean(net(values({4, 8}, 1)));
  CHECK(throws<ReplicaError>([&] { loss.backward(); },
                             {"backward of linear", "neither a parameter", "visit()"}));
  CHECK(!stray.a.weight.grad().defined());
}

TEST_CASE("data_parallel: a tensor of the first device met in another replica is named") {
  struct Net : nn::Layer {
    Tensor table = ones({8});
    Tensor forward(const Tensor& x) override { return x * table; }
    void visit(nn::Visitor&) override {}  // forgot the table
  } m;
  DataParallel net(m, on(2));
  CHECK(throws<ReplicaError>(
      [&] {
        net(values({4, 8}, 1));
      },
      {"two devices", dev_name(1), dev_name(0)}));
}

TEST_CASE("data_parallel: two engines in two threads, and one engine in two") {
  const auto work = [](std::uint64_t seed) {
    const DeviceScope scope(dev(0));
    Mlp one;
    Mlp m = nn::clone(one);
    DataParallel net(m, on(3, {.bucket_bytes = 512}));
    bool good = true;
    for (std::uint64_t i = 0; i < 20; ++i) {
      const Tensor x = values({7, 8}, seed + i), y = labels(7, 4);
      nn::cross_entropy(one(x), y).backward();
      nn::cross_entropy(net(x), y).backward();
      good &= all_close(grads(m), grads(one)).ok;
      sgd(one.parameters(), 0.05), sgd(m.parameters(), 0.05);
    }
    CHECK(good);
  };
  std::thread a(work, 1), b(work, 100);
  a.join(), b.join();
  Mlp m;
  DataParallel net(m, on(3));
  const Tensor x = values({7, 8}, 3), expected = m(x).detach();
  const auto infer = [&] {
    const DeviceScope scope(dev(0));
    const NoGrad no_grad;
    bool good = true;
    for (int i = 0; i < 50; ++i) good &= close(net(x), expected).ok;
    CHECK(good);
  };
  std::thread c(infer), d(infer);
  c.join(), d.join();
}

TEST_CASE("data_parallel: backward works after net and module are gone") {
  Tensor loss, w;
  Mlp twin;
  const Tensor x = values({7, 8}, 1), y = labels(7, 4);
  {
    Mlp m = nn::clone(twin);
    w = m.a.weight;
    DataParallel net(m, on(3));
    loss = nn::cross_entropy(net(x), y);
  }
  loss.backward();
  nn::cross_entropy(twin(x), y).backward();
  CHECK(close(w.grad(), twin.a.weight.grad()));
  Tensor dropped;
  {
    Mlp m;
    DataParallel net(m, on(3));
    dropped = net(x);
  }
  dropped = {};  // never walked
}

TEST_CASE("data_parallel: a thousand steps keep the bytes of every device flat") {
  Mlp m;
  DataParallel net(m, on(3));
  optim::Adam optimizer(m.parameters(), {.lr = 1e-3});
  std::vector<std::int64_t> level;
  for (int i = 0; i < 1000; ++i) {
    optimizer.zero_grad();
    nn::cross_entropy(net(values({7, 8}, std::uint64_t(i))), labels(7, 4)).backward();
    optimizer.step();
    if (i == 2) level = bytes_in_use(3);
  }
  CHECK(bytes_in_use(3) == level);
}

TEST_CASE("data_parallel: inference sends parameters once and makes no graph") {
  Mlp m;
  DataParallel net(m, on(2));
  const NoGrad no_grad;
  const Tensor x = values({4, 8}, 1);
  CHECK(!net(x).requires_grad());
  net(x);
  CHECK(net.last_step().at(parallel::Phase::replicate, 1).bytes == 0);
  for (Tensor& p : m.parameters()) CHECK(p.requires_grad());
}

TEST_CASE("data_parallel: names have no prefix, and prefixed names load") {
  Mlp m;
  DataParallel net(m, on(2));
  nn::StateDict plain = net.state_dict(), prefixed;
  for (auto& [key, value] : plain) {
    CHECK(!key.starts_with("module."));
    prefixed["module." + key] = value * 0.0;
  }
  net.load_state_dict(prefixed);
  CHECK(close(m.a.weight, std::vector<double>(128, 0)));
}

TEST_CASE("data_parallel: hooks on the module's parameters see the sum, once") {
  Mlp m;
  DataParallel net(m, on(2));
  int calls = 0;
  m.a.weight.register_hook([&](const Tensor& g) { calls += g.defined() ? 1 : 100; });
  const Tensor x = values({4, 8}, 1), y = labels(4, 4);
  (nn::cross_entropy(net(x), y) + nn::cross_entropy(net(x), y)).backward();
  CHECK(calls == 1);
}

TEST_CASE("data_parallel: factories inside a replica make tensors on its device") {
  struct Net : nn::Layer {
    Tensor forward(const Tensor& x) override {
      check(zeros({2}).device() == x.device(), "zeros is elsewhere");
      return x + randn({1, 3}) * 0.0 + ones({3});
    }
    void visit(nn::Visitor&) override {}
  } m;
  DataParallel net(m, on(3));
  const Tensor x = values({6, 3}, 1);
  CHECK(close(net(x), x + 1.0));
}

static_assert(!std::is_copy_constructible_v<DataParallel<Mlp>>);
static_assert(std::is_move_constructible_v<DataParallel<Mlp>>);
static_assert(!std::is_constructible_v<DataParallel<Mlp>, Mlp&&>, "it would dangle");

}  // namespace tandem::test
