// The engine of core/autograd.h: what reaches the leaves, in which order, and what is refused.
// Derivatives of the ops themselves are checked by the op table.
#include <doctest/doctest.h>

#include <cmath>
#include <thread>

#include "tests/support/check.h"

#include <tandem/core/autograd.h>
#include <tandem/core/ops/factories.h>
#include <tandem/core/ops/linalg.h>
#include <tandem/core/ops/reduce.h>
#include <tandem/core/ops/views.h>

using namespace tandem;
using namespace tandem::test;

namespace {

using Values = std::vector<double>;
using Tensors = std::vector<Tensor>;

Tensor leaf(const Values& values, Device device = dev(0)) {
  return tensor_of(values, {std::int64_t(values.size())}, float32, device).requires_grad_();
}

// y = x, and `pulled` is called when backward gets there.
Tensor watched(const Tensor& x, std::function<void()> pulled, const char* name = "watched") {
  return record(
      name, x.array().clone(), {x},
      [pulled](const Array& dy, const Wanted&) {
        pulled();
        return dy;
      },
      Keeps::nothing);
}

}  // namespace

// ---- what reaches the leaves

TEST_CASE("backward: a chain multiplies derivatives") {
  Tensor x = leaf({2, -3});
  sum(x * x * x).backward();
  CHECK(doubles(x.grad()) == Values{12, 27});
}

TEST_CASE("backward: uses of a leaf and of an inner tensor add up") {
  Tensor x = leaf({2, 5});
  const Tensor z = x * 3;
  sum(z * z + z + x).backward();  // 18 x + 3 + 1
  CHECK(doubles(x.grad()) == Values{40, 94});
}

TEST_CASE("backward: a second pass adds to .grad, zero_grad makes it undefined again") {
  Tensor x = leaf({1, 2});
  for (int pass = 1; pass <= 3; ++pass) {
    sum(x * x).backward();
    CHECK(doubles(x.grad()) == Values{2.0 * pass, 4.0 * pass});
  }
  x.zero_grad();
  CHECK(!x.grad().defined());
}

TEST_CASE("backward: a leaf is its own output") {
  Tensor x = leaf({3});
  x.backward();
  CHECK(doubles(x.grad()) == Values{1});
  const Tensor seed = tensor_of({5}, {1});
  x.backward(seed);
  CHECK(doubles(x.grad()) == Values{6});
}

TEST_CASE("backward: several outputs in one pass, also the same one twice") {
  Tensor x = leaf({1, 2});
  const Tensor a = x * x, b = sum(x);
  const Tensor ones2 = ones({2});
  backward(Tensors{a, b, b, x}, Tensors{ones2, {}, {}, ones2});
  CHECK(doubles(x.grad()) == Values{2 + 2 + 1, 4 + 2 + 1});
}

TEST_CASE("backward: a seed weighs the elements of the output") {
  Tensor x = leaf({1, 2, 3});
  (x * x).backward(tensor_of({1, 0, -1}, {3}));
  CHECK(doubles(x.grad()) == Values{2, 0, -6});
}

TEST_CASE("backward: inner tensors and constants get no .grad") {
  Tensor x = leaf({1, 2});
  const Tensor c = ones({2}), z = x * c;
  sum(z).backward();
  CHECK(!z.grad().defined());
  CHECK(!c.grad().defined());
  CHECK(!z.is_leaf());
  CHECK(x.is_leaf());
}

TEST_CASE("backward: gradients of two leaves never share memory, with each other or a seed") {
  Tensor a = leaf({1, 2}), b = leaf({3, 4});
  const Tensor seed = ones({2});
  (a + b).backward(seed);  // add hands the same dy to both
  const auto slot = [](const Tensor& t) { return t.grad().array().storage(); };
  CHECK(slot(a) != slot(b));
  CHECK(slot(a) != seed.array().storage());
  CHECK(slot(b) != seed.array().storage());
  Tensor(a.grad()).mul_(10.0);  // as gradient clipping does
  CHECK(doubles(b.grad()) == Values{1, 1});
  CHECK(doubles(seed) == Values{1, 1});
}

TEST_CASE("backward: a gradient that waits for more is not added to in place where it is shared") {
  Tensor a = leaf({1, 1}), b = leaf({1, 1});
  const Tensor c = tensor_of({2, 3}, {2});
  const Tensor w = a * c, v = b * c, z = a + b;  // z hands one dy to a and b, which wait for more
  sum(z + (w + v)).backward();
  CHECK(doubles(a.grad()) == Values{3, 4});
  CHECK(doubles(b.grad()) == Values{3, 4});
}

TEST_CASE("backward: an expanded or sliced gradient becomes dense memory of its own") {
  Tensor x = leaf({1, 2, 3}), y = leaf({4, 5});
  sum(cat({x, y})).backward();
  for (const Tensor& t : {x, y}) {
    const Array g = t.grad().array();
    CHECK(g.is_contiguous());
    CHECK(g.storage()->bytes() == g.nbytes());
    CHECK(g.storage()->category() == Category::gradient);
  }
  x.zero_grad();
  (cat({x, y.detach()}) * 1.0).backward(ones({5}));  // the other piece has no taker
  CHECK(x.grad().array().storage()->bytes() == 12);
}

TEST_CASE("backward: a gradient lies in memory as its leaf does") {
  Tensor x = Tensor(array_of({1, 2, 3, 4, 5, 6}, {2, 3}).transpose(0, 1)).requires_grad_();
  const Tensor weights = tensor_of({1, 2, 3, 4, 5, 6}, {3, 2});
  x.backward(weights);
  CHECK(x.grad().array().strides() == x.array().strides());
  CHECK(doubles(x.grad()) == doubles(weights));
  x.zero_grad();
  sum(matmul(ones({1, 3}), x)).backward();
  CHECK(x.grad().array().strides() == x.array().strides());
  CHECK(doubles(x.grad()) == Values(6, 1.0));
}

TEST_CASE("backward: a leaf frozen after forward still gets the gradient of that graph") {
  Tensor x = leaf({2});
  const Tensor y = x * x;
  x.requires_grad_(false);
  y.backward();
  CHECK(doubles(x.grad()) == Values{4});
}

TEST_CASE("backward: leaves live as long as a graph needs them") {
  Tensor y;
  {
    Tensor x = leaf({2});
    y = x * x;
  }
  y.backward();
  CHECK(y.requires_grad());
}

// ---- what backward needs

TEST_CASE("backward: an output without history, or an undefined one, is refused") {
  CHECK(throws<UsageError>([] { ones({1}).backward(); }, {"[backward]", "history"}));
  CHECK(throws<UsageError>([] { Tensor().backward(); }, {"[backward]"}));
}

TEST_CASE("backward: more elements than one, or none, need a seed") {
  Tensor x = leaf({1, 2});
  CHECK(throws<UsageError>([&] { (x * x).backward(); }, {"(2,)", "seed"}));
  CHECK(throws<UsageError>([&] { x.narrow(0, 0, 0).backward(); }, {"(0,)"}));
  CHECK(!x.grad().defined());
}

TEST_CASE("backward: a seed of another shape, dtype or device is refused before anything is done") {
  Tensor x = leaf({1, 2});
  const Tensor y = x * x;
  CHECK(throws<UsageError>([&] { y.backward(ones({3})); }, {"(3,)", "(2,)"}));
  CHECK(throws<UsageError>([&] { y.backward(ones({2}, {.dtype = float64})); }, {"float64"}));
  CHECK(throws<UsageError>([&] { y.backward(ones({2}, {.device = dev(1)})); }, {dev_name(1)}));
  CHECK(throws<UsageError>([&] { backward(Tensors{y, y}, Tensors{ones({2})}); }, {"2", "1"}));
  CHECK(!x.grad().defined());
  y.backward(ones({2}));  // the graph is as it was
  CHECK(doubles(x.grad()) == Values{2, 4});
}

TEST_CASE("backward: create_graph is refused with the reason") {
  Tensor x = leaf({1});
  const Tensor y = x * x;
  const BackwardOptions twice{.create_graph = true};
  CHECK(throws<UsageError>([&] { backward(Tensors{y}, {}, twice); }, {"create_graph", "once"}));
  CHECK(throws<UsageError>([&] { grad(Tensors{y}, Tensors{x}, {}, twice); }, {"create_graph"}));
  CHECK(!x.grad().defined());
}

TEST_CASE("requires_grad_: floating leaves only") {
  Tensor ints = tensor({1, 2});
  CHECK(throws<UsageError>([&] { ints.requires_grad_(); }, {"int64"}));
  Tensor y = leaf({1}) * 2;
  CHECK(throws<UsageError>([&] { y.requires_grad_(false); }, {"mul", "detach"}));
  CHECK(!y.detach().requires_grad());
}

TEST_CASE("set_grad: shape, dtype and device must be the leaf's; undefined clears") {
  Tensor x = leaf({1, 2});
  CHECK(throws<UsageError>([&] { x.set_grad(ones({3})); }, {"(3,)"}));
  CHECK(throws<UsageError>([&] { x.set_grad(ones({2}, {.dtype = float64})); }));
  CHECK(throws<UsageError>([&] { x.set_grad(ones({2}, {.device = dev(1)})); }));
  CHECK(throws<UsageError>([&] { Tensor(x * x).set_grad(ones({2})); }));
  x.set_grad(ones({2}));
  CHECK(doubles(x.grad()) == Values{1, 1});
  x.set_grad({});
  CHECK(!x.grad().defined());
}

// ---- the life of a graph

TEST_CASE("graph: a second backward through saved values is an error with the op's name") {
  Tensor x = leaf({2});
  const Tensor y = exp(x);
  y.backward();
  CHECK(throws<StaleGraphError>([&] { y.backward(); }, {"exp", "freed", "retain_graph"}));
  CHECK(close(x.grad(), {std::exp(2.0)}));
}

TEST_CASE("graph: retain_graph keeps it for another pass") {
  Tensor x = leaf({2});
  const Tensor y = x * x;
  y.backward(true);
  y.backward({}, true);
  y.backward();
  CHECK(doubles(x.grad()) == Values{12});
  CHECK(throws<StaleGraphError>([&] { y.backward(true); }, {"mul"}));
}

TEST_CASE("graph: an error about a freed part leaves the other leaves alone") {
  Tensor a = leaf({2}), b = leaf({3});
  const Tensor shared = exp(a);
  sum(shared).backward();
  a.zero_grad();
  CHECK(throws<StaleGraphError>([&] { (shared + b * b).backward(); }));
  CHECK(!a.grad().defined());
  CHECK(!b.grad().defined());
}

TEST_CASE("graph: nodes that saved nothing are not consumed") {
  Tensor x = leaf({1, 2});
  const Tensor y = sum(-x.view({2, 1}) + 1.0);
  y.backward();
  y.backward();
  CHECK(doubles(x.grad()) == Values{-2, -2});
}

TEST_CASE("graph: backward frees what was saved, node by node") {
  const Device d = dev(43);
  Tensor x = random_tensor({1000}, 1, float32, d).requires_grad_();
  Tensor y = x;
  for (int i = 0; i < 10; ++i) y = tanh(y);
  const Tensor loss = sum(y);
  y = {};
  const std::int64_t before = bytes_in_use(d);
  loss.backward();
  CHECK(bytes_in_use(d) <= before - 9 * 4000);
}

TEST_CASE("graph: results that nobody needs are freed at once") {
  const Device d = dev(44);
  Tensor x = random_tensor({1000}, 1, float32, d).requires_grad_();
  const std::int64_t before = bytes_in_use(d);
  Tensor y = x;
  for (int i = 0; i < 10; ++i) y = y + 1.0;  // saves nothing
  CHECK(bytes_in_use(d) <= before + 2 * 4096);
}

TEST_CASE("stale: a saved input that was written is noticed, with the op's name") {
  Tensor w = leaf({2}), x = ones({1});
  const Tensor y = w * x;
  x.add_(x);
  CHECK(throws<StaleGraphError>([&] { y.backward(); }, {"mul", "changed since forward"}));
  CHECK(!w.grad().defined());
}

TEST_CASE("stale: a write through a view counts, a write to another slot does not") {
  Tensor w = leaf({2, 3}), base = ones({4});
  const Tensor y = w * base.narrow(0, 0, 2);
  base.narrow(0, 2, 2).fill_(5);  // the same slot, other elements
  CHECK(throws<StaleGraphError>([&] { y.backward(ones({2})); }, {"changed"}));
  Array block = Array::full({4}, 1, float32, dev(0));
  const Tensor first(block.carve(0, {2}, float32));
  Tensor second(block.carve(8, {2}, float32));
  const Tensor z = w * first;
  second.fill_(7);
  z.backward(ones({2}));
  CHECK(doubles(w.grad()) == Values{1, 1});
}

TEST_CASE("stale: what was not saved may be written") {
  Tensor w = leaf({2}), x = ones({1});
  const Tensor y = w + x;           // saves nothing
  const Tensor z = w.detach() * w;  // saves w's value, not the result
  x.fill_(9);
  Tensor(z.detach()).fill_(4);
  (y + z).backward();
  CHECK(doubles(w.grad()) == Values{3});
}

TEST_CASE("stale: a saved output that was written is noticed") {
  Tensor x = leaf({1});
  const Tensor y = exp(x);
  Tensor(y.detach()).fill_(0);
  CHECK(throws<StaleGraphError>([&] { y.backward(); }, {"exp"}));
}

TEST_CASE("no grad: nothing is recorded, EnableGrad records inside, and both restore") {
  Tensor x = leaf({1});
  {
    const NoGrad off;
    CHECK(!(x * x).requires_grad());
    {
      const EnableGrad on;
      CHECK((x * x).requires_grad());
    }
    CHECK(!is_grad_enabled());
  }
  CHECK((x * x).requires_grad());
}

TEST_CASE("no grad: an error in between restores the mode") {
  CHECK(throws<UsageError>([] {
    const NoGrad off;
    ones({2}) + ones({3});
  }));
  CHECK(is_grad_enabled());
}

TEST_CASE("no grad: closures run without recording") {
  Tensor x = leaf({1});
  bool enabled = true;
  watched(x, [&] { enabled = is_grad_enabled(); }).backward();
  CHECK(!enabled);
  CHECK(is_grad_enabled());
}

// ---- hooks

TEST_CASE("hook: fires once a pass, when the last use has been added") {
  Tensor x = leaf({1, 2});
  std::vector<Values> seen;
  x.register_hook([&](const Tensor& g) { seen.push_back(doubles(g)); });
  sum(x * x + x).backward();
  CHECK(seen == std::vector<Values>{{3, 5}});
  sum(x).backward();  // sees the accumulated gradient
  CHECK(seen == std::vector<Values>{{3, 5}, {4, 6}});
}

TEST_CASE("hook: fires before earlier ops are pulled") {
  Tensor first = leaf({1}), last = leaf({1});
  std::string order;
  first.register_hook([&](const Tensor&) { order += "first "; });
  last.register_hook([&](const Tensor&) { order += "last "; });
  const Tensor h = watched(first, [&] { order += "inner "; });
  (h * last).backward();
  CHECK(order == "last inner first ");
}

TEST_CASE("hook: does not fire for a leaf that the pass does not reach") {
  Tensor x = leaf({1}), other = leaf({1});
  int fired = 0;
  other.register_hook([&](const Tensor&) { ++fired; });
  (x * x).backward();
  CHECK(fired == 0);
}

TEST_CASE("hook: gets an undefined tensor where an op returned no gradient") {
  Tensor x = leaf({1});
  int undefined = 0;
  x.register_hook([&](const Tensor& g) { undefined += !g.defined(); });
  record("deaf", x.array().clone(), {x}, [](const Array&, const Wanted&) {
    return Array();
  }).backward();
  CHECK(undefined == 1);
}

TEST_CASE("hook: needs a leaf that requires a gradient") {
  Tensor x = leaf({1});
  CHECK(throws<UsageError>([&] { Tensor(x * x).register_hook([](const Tensor&) {}); }));
  CHECK(throws<UsageError>([&] { ones({1}).register_hook([](const Tensor&) {}); }));
}

TEST_CASE("hook: may run a backward of its own over other leaves") {
  Tensor x = leaf({1}), other = leaf({5});
  x.register_hook([&](const Tensor&) {
    const EnableGrad on;  // backward itself records nothing
    (other * other).backward();
  });
  (x * x).backward();
  CHECK(doubles(x.grad()) == Values{2});
  CHECK(doubles(other.grad()) == Values{10});
}

TEST_CASE("hook: a backward over leaves of the pass that is running is refused") {
  Tensor x = leaf({1}), y = leaf({1}), z = leaf({1});
  x.register_hook([&](const Tensor&) {
    const EnableGrad on;
    (z * y).backward();
  });
  const Tensor inner = watched(y, [] {});
  CHECK(throws<UsageError>([&] { (watched(inner, [] {}) * x + z).backward(); },
                           {"another backward"}));
}

// ---- nodes with several outputs, closures that misbehave

TEST_CASE("record_many: unused outputs arrive undefined, marked ones alone carry history") {
  Tensor x = leaf({1, 2});
  std::vector<bool> defined;
  Tensors out = record_many("triple", {x.array().clone(), x.array().clone(), x.array().clone()},
                            {gradient_edge(x)}, {true, false, true},
                            [&](std::span<const Array> dy, const Wanted&, std::span<Array> grads) {
                              for (const Array& a : dy) defined.push_back(a.defined());
                              grads[0] = dy[2];
                            });
  CHECK(out[0].requires_grad());
  CHECK(!out[1].requires_grad());
  sum(out[2] * 3).backward();
  CHECK(defined == std::vector<bool>{false, false, true});
  CHECK(doubles(x.grad()) == Values{3, 3});
}

TEST_CASE("closure: is told which gradients are wanted and whether the graph is kept") {
  Tensor x = leaf({1});
  const Tensor c = ones({1});
  std::vector<bool> told;
  const Tensor y =
      record("asks", x.array().clone(), {x, c}, [&](const Array& dy, const Wanted& wanted) {
        told = {wanted[0], wanted[1], wanted.retain_graph};
        return std::array<Array, 2>{dy, Array()};
      });
  y.backward(true);
  CHECK(told == std::vector<bool>{true, false, true});
  y.backward();
  CHECK(told == std::vector<bool>{true, false, false});
}

TEST_CASE("closure: a gradient of a wrong shape or dtype does not reach a leaf") {
  Tensor x = leaf({1, 2});
  const auto returns = [&](const Array& wrong) {
    return record("wrong", x.array().clone(), {x},
                  [wrong](const Array&, const Wanted&) { return wrong; });
  };
  CHECK(throws<UsageError>([&] { returns(array_of({1}, {1})).backward(ones({2})); }, {"(1,)"}));
  CHECK(throws<UsageError>(
      [&] {
        returns(array_of({1, 1}, {2}, float64)).backward(ones({2}));
      },
      {"float64"}));
  CHECK(!x.grad().defined());
}

TEST_CASE("closure: what it throws leaves backward as it is, and the next pass works") {
  Tensor x = leaf({1});
  const Tensor bad = watched(x, [] { throw std::out_of_range("boom"); });
  CHECK(throws<std::out_of_range>([&] { bad.backward(); }, {"boom"}));
  CHECK(!x.grad().defined());
  (x * x).backward();
  CHECK(doubles(x.grad()) == Values{2});
}

TEST_CASE("closure: newest nodes are pulled first, whatever the order of inputs") {
  Tensor x = leaf({1});
  std::string order;
  const Tensor a = watched(x, [&] { order += "a"; });
  const Tensor b = watched(x, [&] { order += "b"; });
  const Tensor c = watched(a, [&] { order += "c"; });
  (b + c + a).backward();
  CHECK(order == "cba");
}

TEST_CASE("closure: nodes that no gradient reaches are skipped") {
  Tensor x = leaf({1});
  int pulled = 0;
  const Tensor inner = watched(x, [&] { ++pulled; });
  record("deaf", inner.array().clone(), {inner}, [](const Array&, const Wanted&) {
    return Array();
  }).backward();
  CHECK(pulled == 0);
  CHECK(!x.grad().defined());
}

// ---- grad() and sweep()

TEST_CASE("grad: of leaves and inner tensors, and no .grad is touched") {
  Tensor x = leaf({2, 3});
  const Tensor h = x * x, y = sum(h * h), alone = leaf({1});
  int hooks = 0;
  x.register_hook([&](const Tensor&) { ++hooks; });
  const Tensors g = grad(Tensors{y}, Tensors{x, h, y, alone, x});
  CHECK(doubles(g[0]) == Values{32, 108});
  CHECK(doubles(g[1]) == Values{8, 18});
  CHECK(doubles(g[2]) == Values{1});
  CHECK(!g[3].defined());
  CHECK(doubles(g[4]) == Values{32, 108});
  CHECK(!x.grad().defined());
  CHECK(hooks == 0);
}

TEST_CASE("grad: takes seeds, and keeps or frees the graph") {
  Tensor x = leaf({2, 3});
  const Tensor y = x * x;
  const Tensors seeds{tensor_of({1, 10}, {2})};
  CHECK(doubles(grad(Tensors{y}, Tensors{x}, seeds, {.retain_graph = true})[0]) == Values{4, 60});
  CHECK(doubles(grad(Tensors{y}, Tensors{x}, seeds)[0]) == Values{4, 60});
  CHECK(throws<StaleGraphError>([&] { grad(Tensors{y}, Tensors{x}, seeds); }));
}

TEST_CASE("grad: an input that requires no gradient is refused") {
  Tensor x = leaf({2});
  const Tensor y = x * x;
  CHECK(throws<UsageError>([&] { grad(Tensors{y}, Tensors{x, ones({1})}); }, {"input 1"}));
  CHECK(throws<UsageError>([&] { grad(Tensors{y}, Tensors{Tensor()}); }, {"input 0"}));
}

TEST_CASE("sweep: hands each leaf over once and early; the unreached come first, undefined") {
  Tensor first = leaf({1}), last = leaf({2}), unused = leaf({1});
  std::string order;
  const Tensor h = watched(first, [&] { order += "inner "; });
  const Tensor y = h * last;
  int hooks = 0;
  first.register_hook([&](const Tensor&) { ++hooks; });
  const std::vector<Edge> outputs{gradient_edge(y), Edge{}};
  const std::vector<Edge> leaves{gradient_edge(first), gradient_edge(unused), Edge{},
                                 gradient_edge(last)};
  sweep(outputs, {array_of({10}, {1}), Array()}, leaves, false, true, [&](std::size_t i, Array g) {
    order += str(i, g.defined() ? str("=", doubles(g)[0]) : std::string(), " ");
  });
  CHECK(order == "1 2 3=10 inner 0=20 ");
  CHECK(hooks == 0);
  CHECK(!first.grad().defined());
}

TEST_CASE("sweep: a stray leaf is refused with the op that used it, or dropped if allowed") {
  Tensor listed = leaf({1}), stray = leaf({2});
  const Tensor y = listed * stray;
  const std::vector<Edge> outputs{gradient_edge(y)}, leaves{gradient_edge(listed)};
  const auto run = [&](bool refuse, const GradientSink& sink) {
    sweep(outputs, {array_of({1}, {1})}, leaves, true, refuse, sink);
  };
  CHECK(
      throws<UsageError>([&] { run(true, [](std::size_t, Array) {}); }, {"mul", "(1,)", "visit"}));
  std::vector<std::size_t> seen;
  run(false, [&](std::size_t i, Array) { seen.push_back(i); });
  CHECK(seen == std::vector<std::size_t>{0});
  CHECK(!stray.grad().defined());
}

TEST_CASE("sweep: an undefined seed reaches every leaf as undefined") {
  Tensor x = leaf({1});
  const Tensor y = x * x;
  const std::vector<Edge> outputs{gradient_edge(y)}, leaves{gradient_edge(x)};
  int calls = 0;
  sweep(outputs, {Array()}, leaves, false, true, [&](std::size_t, Array g) {
    ++calls;
    CHECK(!g.defined());
  });
  CHECK(calls == 1);
}

// ---- size and threads

TEST_CASE("graph: a million nodes are built, walked and dropped without recursion") {
  Tensor x = leaf({1});
  Tensor y = x;
  const int nodes = on_gpu() ? 40'000 : 1'000'000;
  for (int i = 0; i < nodes; ++i) y = -y;
  y.backward(true);
  CHECK(doubles(x.grad()) == Values{1});
  y = {};
}

TEST_CASE("graph: a million nodes that nobody walks are dropped, also where branches meet") {
  Tensor x = leaf({1});
  const int branches = on_gpu() ? 20'000 : 500'000;
  for (int i = 0; i < branches; ++i) x = x + x;
  x = {};
}

TEST_CASE("graph: a diamond of 64 levels has 2^64 paths and is walked once") {
  Tensor x = leaf({1});
  Tensor y = x;
  for (int i = 0; i < 64; ++i) y = (y + y) * 0.5;
  y.backward();
  CHECK(doubles(x.grad()) == Values{1});
}

TEST_CASE("graph: may be walked and dropped on another thread than the one that built it") {
  const Device d = dev(45);
  Tensor x = random_tensor({100}, 3, float32, d).requires_grad_();
  const std::int64_t before = bytes_in_use(d);
  Tensor y = sum(tanh(x) * x), unused = exp(x);
  std::thread([&] {
    y.backward();
    y = {};
    unused = {};
  }).join();
  CHECK(x.grad().defined());
  x.zero_grad();
  CHECK(bytes_in_use(d) == before);
}

TEST_CASE("graph: two threads with graphs of their own do not meet") {
  const auto work = [](std::uint64_t seed, bool& right) {
    right = true;
    for (int i = 0; i < 200; ++i) {
      Tensor x =
          random_tensor({50}, seed + std::uint64_t(i), float32, dev(int(seed))).requires_grad_();
      sum(x * x).backward();
      Values expected = doubles(x);
      for (double& v : expected) v *= 2;
      right = right && close(x.grad(), expected).ok;
    }
  };
  bool a = false, b = false;
  std::thread one(work, 46, std::ref(a)), two(work, 47, std::ref(b));
  one.join();
  two.join();
  CHECK(a);
  CHECK(b);
}

TEST_CASE("memory: a thousand steps of training keep the bytes of a device flat") {
  const Device d = dev(48);
  Tensor w = random_tensor({16, 16}, 1, float32, d).requires_grad_();
  Tensor b = random_tensor({16}, 2, float32, d).requires_grad_();
  const Tensor x = random_tensor({8, 16}, 3, float32, d);
  MemoryStats first;
  for (int step = 0; step < 1000; ++step) {
    w.zero_grad(), b.zero_grad();
    mean(tanh(linear(x, w, b)) * x).backward();
    {
      const NoGrad off;
      w.sub_(w.grad(), 0.1), b.sub_(b.grad(), 0.1);
    }
    if (step == 1) first = memory::stats(d);
  }
  const MemoryStats last = memory::stats(d);
  CHECK(last.allocated == first.allocated);
  CHECK(last.peak_allocated == first.peak_allocated);
  CHECK(last.reserved == first.reserved);
  CHECK(last.by_category == first.by_category);
}
