// Mixed precision under DataParallel: rows A2, A8, S17-19, D10, D12 in 16 bits, and N replicas are
// one, also when one of them overflows.
#include <cmath>
#include <limits>

#include "tests/parallel/models.h"

namespace tandem::test {

using amp::Autocast;
using amp::GradScaler;

namespace {

constexpr DType kFast[] = {float16, bfloat16};

/// Two roundings of results near 1: of the product, and of what it is compared with.
Tolerance half_tolerance(DType dtype) {
  const double eps = dtype == float16 ? 0x1p-10 : 0x1p-7;
  return {2 * eps, 2 * eps};
}

Tensor half_values(const Shape& shape, std::uint64_t seed, DType dtype, Device device = dev(0)) {
  return random_tensor(shape, seed, dtype, device);
}

}  // namespace

// ---- rows

TEST_CASE("A2 parallel_apply: under autocast each module gives what it gives alone") {
  for (DType fast : kFast) {
    nn::Linear a(10, 5), b(10, 5);
    b.to(dev(1));
    const std::vector<nn::Linear*> modules{&a, &b};
    const std::vector<Tensor> inputs{values({2, 10}, 1), values({2, 10}, 2, dev(1))};
    const Autocast autocast(dev(0).kind, fast);
    const auto outputs = parallel::parallel_apply(modules, inputs);
    for (std::size_t i = 0; i < 2; ++i) {
      CHECK(outputs[i].dtype() == fast);  // PyTorch: float16, whatever was asked for
      CHECK(bits_equal(outputs[i], (*modules[i])(inputs[i])));
    }
  }
}

namespace {
struct AutocastInside : nn::Layer {
  nn::Linear linear{8, 8};
  DType fast = float16;
  Tensor forward(const Tensor& x) override {
    const Autocast autocast(dev(0).kind, fast);
    return linear(x);
  }
  void visit(nn::Visitor& v) override { v("linear", linear); }
};
}  // namespace

TEST_CASE("A8 parallel_apply: a forward that declares autocast gives 16 bits from every replica") {
  for (DType fast : kFast) {
    AutocastInside m;
    m.fast = fast;
    DataParallel net(m, on(2));
    const Tensor x = values({8, 8}, 1);
    const Tensor y = net(x);
    CHECK(y.dtype() == fast);
    CHECK(bits_equal(y, m(x)));
    CHECK(m.linear(x).dtype() == float32);  // nothing is left on
  }
}

namespace {
/// Row S17: data and an empty container, as one argument.
struct Keywords {
  Tensor data;
  std::vector<Tensor> list;
  std::map<std::string, Tensor> dict;
  std::tuple<> tuple;
  void visit(nn::Visitor& v) { v("data", data), v("list", list), v("dict", dict); }
};
struct TakesKeywords : nn::Module {
  nn::Linear linear{10, 5};
  Tensor forward(const Keywords& input) { return linear(input.data); }
  void visit(nn::Visitor& v) override { v("linear", linear); }
};
}  // namespace

TEST_CASE("S17-19 scatter: empty containers beside 16-bit data give the unwrapped output") {
  for (DType dtype : kFast) {
    TakesKeywords m;
    m.to(dtype);
    DataParallel net(m, on(2));
    const Keywords input{half_values({20, 10}, 1, dtype), {}, {}, {}};
    const Tensor y = net(input);
    CHECK(y.device() == dev(0));
    CHECK(y.dtype() == dtype);
    CHECK(close(y, m.forward(input), half_tolerance(dtype)));
  }
}

TEST_CASE("D12 step: float16 and bfloat16 on all devices") {
  for (DType dtype : kFast) {
    nn::Linear m(10, 5);
    m.to(dtype);
    DataParallel net(m);
    const Tensor x = half_values({20, 10}, 1, dtype);
    const Tensor y = net(x);
    CHECK(y.dtype() == dtype);
    CHECK(y.device() == dev(0));
    CHECK(close(y, m(x), half_tolerance(dtype)));
  }
}

namespace {
/// Row D10: four 2x2 convolutions 8-16-32-16-8, the last `narrow` of them in `dtype`.
struct ConvNet : nn::Layer {
  std::vector<nn::Conv2d> layers;
  ConvNet(int narrow, DType dtype) {
    const std::int64_t channels[] = {8, 16, 32, 16, 8};
    for (std::size_t i = 0; i < 4; ++i) {
      layers.emplace_back(channels[i], channels[i + 1], 2);
      if (int(i) >= 4 - narrow) layers.back().to(dtype);
    }
  }
  Tensor forward(const Tensor& x) override {
    Tensor y = x;
    for (nn::Conv2d& layer : layers) y = layer(y.to(layer.weight.dtype()));
    return y;
  }
  void visit(nn::Visitor& v) override { v("layers", layers); }
};
}  // namespace

TEST_CASE("D10 step: convolutions in float32 and 16 bits: gradients agree with one device's") {
  for (DType dtype : kFast) {
    for (int narrow : {2, 4}) {
      CAPTURE(dtype);
      CAPTURE(narrow);
      ConvNet one(narrow, dtype);
      ConvNet many = nn::clone(one);
      DataParallel net(many, on(2));
      const Tensor x = values({16, 8, 8, 8}, 1), target = values({16, 8, 4, 4}, 2);
      for (int step = 0; step < 2; ++step) {
        nn::mse_loss(one(x), target.to(one(x).dtype())).backward();
        nn::mse_loss(net(x), target.to(net(x).dtype())).backward();
        // the row asks for 1e-3 in float16; bfloat16 has 8 times its rounding errors
        CHECK(all_close(grads(many), grads(one), {0, dtype == float16 ? 1e-3 : 8e-3}));
        for (std::size_t i = 0; i < 8; ++i) {
          CHECK(grads(many)[i].dtype() == many.parameters()[i].dtype());
        }
        sgd(one.parameters(), 0.1), sgd(many.parameters(), 0.1);
      }
    }
  }
}

// ---- whole steps with autocast and a scaler

namespace {

/// Looks, inside each replica, at what the ops compute in.
struct Watched : nn::Layer {
  nn::Linear a{8, 16}, b{16, 16}, c{16, 4};
  DType expected{};
  Tensor forward(const Tensor& x) override {
    check(Autocast::dtype(dev(0).kind) == expected, "autocast is ",
          Autocast::dtype(dev(0).kind).has_value());
    const Tensor h = relu(a(x));
    check(h.dtype() == expected, "linear gave ", h.dtype());
    check(softmax(h, 1).dtype() == float32, "softmax gave ", softmax(h, 1).dtype());
    return c(relu(b(h)));
  }
  void visit(nn::Visitor& v) override { v("a", a), v("b", b), v("c", c); }
};

/// What a run leaves behind.
struct Trace {
  std::vector<bool> skipped;
  std::vector<double> scales, losses;
  std::vector<Tensor> parameters;
};

/// Six steps of a batch of 13 rows; in step `bad` (none: -1) the last row overflows float16.
template <class Forward>
Trace run(nn::Module& model, Forward net, DType fast, int bad) {
  Trace trace;
  optim::SGD optimizer(model.parameters(), {.lr = 0.1, .momentum = 0.9});
  GradScaler scaler({.init_scale = 256, .growth_interval = 3});
  for (int step = 0; step < 6; ++step) {
    Tensor x = values({13, 8}, 10 + std::uint64_t(step));
    if (step == bad) x.narrow(0, 12, 1).fill_(std::numeric_limits<float>::infinity());
    optimizer.zero_grad();
    Tensor loss;
    {
      const Autocast autocast(dev(0).kind, fast);
      loss = nn::cross_entropy(net(x), labels(13, 4));
    }
    scaler.scale(loss).backward();
    trace.skipped.push_back(scaler.step(optimizer).skipped);
    scaler.update();
    trace.losses.push_back(loss.item<double>());
    trace.scales.push_back(scaler.get_scale());
  }
  for (const Tensor& p : model.parameters()) trace.parameters.push_back(p.detach().clone());
  return trace;
}

}  // namespace

TEST_CASE("amp: N replicas compute in the type that was asked for and equal one device") {
  for (DType fast : kFast) {
    Watched one;
    one.expected = fast;
    const Watched start = nn::clone(one);
    const Trace expected = run(
        one, [&](const Tensor& x) { return one(x); }, fast, -1);
    CHECK_FALSE(bits_equal(one.a.weight.detach(), start.a.weight.detach()));  // it was trained
    for (int n : {1, 2, 4}) {
      CAPTURE(fast);
      CAPTURE(n);
      Watched many = nn::clone(start);
      many.expected = fast;
      DataParallel net(many, on(n));
      const Trace trace = run(
          many, [&](const Tensor& x) { return net(x); }, fast, -1);
      CHECK(trace.skipped == expected.skipped);
      CHECK(trace.scales == expected.scales);
      if (n == 1) CHECK(all_bits_equal(trace.parameters, expected.parameters));
      CHECK(all_close(trace.parameters, expected.parameters, half_tolerance(fast)));
      CHECK(close(trace.losses, expected.losses, half_tolerance(fast)));
    }
  }
}

TEST_CASE("amp: an infinity in one replica skips the step everywhere, and training goes on") {
  Watched one;
  one.expected = float16;
  const Watched start = nn::clone(one);
  const Trace expected = run(
      one, [&](const Tensor& x) { return one(x); }, float16, 2);
  CHECK(expected.skipped == std::vector<bool>{false, false, true, false, false, false});
  CHECK(expected.scales == std::vector<double>{256, 256, 128, 128, 128, 256});
  for (int n : {1, 2, 4}) {
    CAPTURE(n);
    Watched many = nn::clone(start);
    many.expected = float16;
    DataParallel net(many, on(n));
    const Trace trace = run(
        many, [&](const Tensor& x) { return net(x); }, float16, 2);
    CHECK(trace.skipped == expected.skipped);
    CHECK(trace.scales == expected.scales);
    CHECK(all_close(trace.parameters, expected.parameters, half_tolerance(float16)));
  }
}

TEST_CASE("amp: a skipped step leaves the first device's parameters bitwise as they were") {
  for (int n : {1, 2, 4}) {
    Mlp m;
    DataParallel net(m, on(n));
    optim::Adam optimizer(m.parameters(), {});
    GradScaler scaler;
    std::vector<Tensor> before;
    for (const Tensor& p : m.parameters()) before.push_back(p.detach().clone());
    Tensor x = values({8, 8}, 1);
    x.narrow(0, 7, 1).fill_(1e30);  // infinite in float16, in the last replica only
    Tensor loss;
    {
      const Autocast autocast(dev(0).kind, float16);
      loss = nn::cross_entropy(net(x), labels(8, 4));
    }
    scaler.scale(loss).backward();
    const amp::ScaledStep done = scaler.step(optimizer);
    CHECK(done.skipped);
    CHECK(done.gradients.nonfinite);
    CHECK(done.gradients.worst == 0);
    CHECK(all_bits_equal(m.parameters(), before));
  }
}

namespace {
struct Partly : nn::Layer {
  nn::Linear used{8, 4}, frozen{8, 8}, unused{8, 4};
  Partly() {
    frozen.weight.requires_grad_(false);
    frozen.bias.requires_grad_(false);
  }
  Tensor forward(const Tensor& x) override { return used(relu(frozen(x))); }
  void visit(nn::Visitor& v) override { v("used", used), v("frozen", frozen), v("unused", unused); }
};
}  // namespace

TEST_CASE("amp: unused and frozen parameters get no gradient and do not move") {
  for (DType fast : kFast) {
    for (int n : {1, 2, 4}) {
      Partly m;
      const Partly start = nn::clone(m);
      DataParallel net(m, on(n));
      optim::AdamW optimizer(m.parameters(), {});
      GradScaler scaler({.init_scale = 16});
      for (int step = 0; step < 2; ++step) {
        optimizer.zero_grad();
        Tensor loss;
        {
          const Autocast autocast(dev(0).kind, fast);
          loss = nn::cross_entropy(net(values({8, 8}, 1)), labels(8, 4));
        }
        scaler.scale(loss).backward();
        CHECK(scaler.unscale_(optimizer).gradients == 2);
        CHECK(!scaler.step(optimizer).skipped);
        scaler.update();
      }
      CHECK(m.used.weight.grad().dtype() == float32);
      CHECK(!m.frozen.weight.grad().defined());
      CHECK(!m.unused.weight.grad().defined());
      CHECK(bits_equal(m.frozen.weight, start.frozen.weight));
      CHECK(bits_equal(m.unused.weight, start.unused.weight));
      CHECK(!bits_equal(m.used.weight, start.used.weight));
    }
  }
}

TEST_CASE("amp: clipping by the norm that unscale_ found, N replicas equal one device") {
  Mlp one;
  const Mlp start = nn::clone(one);
  const auto step = [&](Mlp& m, auto& net) {
    optim::SGD optimizer(m.parameters(), {.lr = 1});
    GradScaler scaler({.init_scale = 1024});
    Tensor loss;
    {
      const Autocast autocast(dev(0).kind, float16);
      loss = nn::cross_entropy(net(values({12, 8}, 1)), labels(12, 4));
    }
    scaler.scale(loss).backward();
    const optim::GradReport report = scaler.unscale_(optimizer);
    CHECK(optim::clip_grads_with_norm_(m.parameters(), report.norm / 8, report.norm));
    scaler.step(optimizer);
    return report.norm;
  };
  const double norm = step(one, one);
  for (int n : {1, 2, 4}) {
    Mlp many = nn::clone(start);
    DataParallel net(many, on(n));
    CHECK(close(step(many, net), norm, half_tolerance(float16)));
    CHECK(all_close(many.parameters(), one.parameters(), half_tolerance(float16)));
  }
}

// ---- copies of weights in replicas

namespace {
/// Counts, in each replica, the copies of weights there are before and after its ops.
struct Counting : nn::Layer {
  nn::Linear linear{4, 4};
  Tensor forward(const Tensor& x) override {
    const CastCache* cache = thread_state().autocast.casts;
    check(cache != nullptr && cache->size() == 0, "copies of an earlier forward, or none at all");
    const Tensor y = linear(linear(x));
    check(cache->size() == 2, "expected copies of weight and bias, found ", cache->size());
    return y;
  }
  void visit(nn::Visitor& v) override { v("linear", linear); }
};
}  // namespace

TEST_CASE("amp copies: each replica has its own, for one forward") {
  for (int n : {1, 2, 4}) {
    Counting m;
    DataParallel net(m, on(n));
    const Tensor x = values({8, 4}, 1);
    {
      const Autocast autocast(dev(0).kind, bfloat16);
      net(x), net(x);
      CHECK(thread_state().autocast.casts->size() == 0);  // the caller's is not the replicas'
    }
    const auto before = bytes_in_use(n);
    {
      const Autocast autocast(dev(0).kind, bfloat16);
      const NoGrad no_grad;
      net(x);
      CHECK(bytes_in_use(n) == before);  // inside the guard already
    }
  }
}

TEST_CASE("amp trap: parameters updated between two forwards of one region reach every replica") {
  for (int n : {1, 2, 4}) {
    nn::Linear m(4, 2);
    DataParallel net(m, on(n));
    const Tensor x = values({8, 4}, 1);
    const Autocast autocast(dev(0).kind, bfloat16);
    net(x);
    {
      const NoGrad no_grad;
      m.weight.fill_(2.0);
      m.bias.fill_(1.0);
    }
    CHECK(bits_equal(net(x), m(x)));
    CHECK(close(m(ones({1, 4})), {9, 9}, {0, 0}));
  }
}

TEST_CASE("amp trap: weights first used under NoGrad have their gradients later") {
  for (int n : {1, 2, 4}) {
    nn::Linear m(4, 2);
    DataParallel net(m, on(n));
    const Tensor x = values({8, 4}, 1);
    const Autocast autocast(dev(0).kind, bfloat16);
    {
      const NoGrad no_grad;
      net(x);
    }
    sum(net(x)).backward();
    REQUIRE(m.bias.grad().defined());
    CHECK(close(m.bias.grad(), {8, 8}, {0, 0}));
  }
}

TEST_CASE("amp: backward inside the region gives the gradients of backward outside") {
  for (int n : {1, 2, 4}) {
    Mlp inside, outside = nn::clone(inside);
    DataParallel net_in(inside, on(n)), net_out(outside, on(n));
    const Tensor x = values({8, 8}, 1);
    Tensor loss;
    {
      const Autocast autocast(dev(0).kind, bfloat16);
      nn::cross_entropy(net_in(x), labels(8, 4)).backward();
      loss = nn::cross_entropy(net_out(x), labels(8, 4));
    }
    loss.backward();
    CHECK(all_bits_equal(grads(inside), grads(outside)));
  }
}

TEST_CASE("amp: without a guard nothing in the replicas is cast, also after a guarded forward") {
  nn::Linear m(4, 2);
  DataParallel net(m, on(2));
  const Tensor x = values({8, 4}, 1);
  {
    const Autocast autocast(dev(0).kind, float16);
    CHECK(net(x).dtype() == float16);
  }
  CHECK(net(x).dtype() == float32);
  CHECK(bits_equal(net(x), m(x)));
}

}  // namespace tandem::test
