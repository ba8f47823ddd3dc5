// Chapter 5, and rows 2.2 (G1 ...).
#include "tests/parallel/models.h"

namespace tandem::test {
using parallel::gather;

TEST_CASE("G1 G2 gather: two pieces on any target, and the seed comes back in two pieces") {
  for (Device target : {dev(0), dev(7)}) {  // the first device, and a further one
    Tensor a = values({2, 4}, 1, dev(0)), b = values({2, 4}, 2, dev(1));
    a.requires_grad_(), b.requires_grad_();
    const Tensor y = gather({a, b}, target);
    CHECK(y.shape() == Shape{4, 4});
    CHECK(y.device() == target);
    CHECK(bits_equal(y.narrow(0, 0, 2), a));
    CHECK(bits_equal(y.narrow(0, 2, 2), b));
    const Tensor seed = values({4, 4}, 3, target);
    y.backward(seed);
    CHECK(a.grad().device() == dev(0));
    CHECK(b.grad().device() == dev(1));
    CHECK(bits_equal(a.grad(), seed.narrow(0, 0, 2)));
    CHECK(bits_equal(b.grad(), seed.narrow(0, 2, 2)));
  }
}

TEST_CASE("G3 gather: two numbers become a vector of two, and each gets its element back") {
  for (Device target : {dev(0), dev(7)}) {
    Tensor a = tensor(1.5, {.device = dev(0), .requires_grad = true});
    Tensor b = tensor(2.5, {.device = dev(1), .requires_grad = true});
    const Tensor y = gather({a, b}, target);
    CHECK(y.shape() == Shape{2});
    CHECK(close(y, {1.5, 2.5}));
    y.backward(tensor({3.0, 4.0}, {.device = target}));
    CHECK(a.grad().shape() == Shape{});
    CHECK(a.grad().item<double>() == 3);
    CHECK(b.grad().item<double>() == 4);
    CHECK(b.grad().device() == dev(1));
  }
}

TEST_CASE("G4 gather: dimensions 0, 1 and -1 on several targets") {
  const Tensor x = values({2, 5}, 1, dev(0)), y = values({2, 5}, 2, dev(1));
  for (int dim : {0, 1, -1}) {
    for (Device target : {dev(0), dev(1), dev(2), dev(7)}) {
      const Tensor z = gather({x, y}, target, dim);
      const int d = dim < 0 ? 1 : dim;
      CHECK(z.device() == target);
      CHECK(z.size(d) == 2 * x.size(d));
      CHECK(bits_equal(z.narrow(d, 0, x.size(d)), x));
      CHECK(bits_equal(z.narrow(d, x.size(d), x.size(d)), y));
    }
  }
}

TEST_CASE("G5 gather: nothing, another number of dimensions, another size: three errors") {
  const Tensor x = values({2, 5}, 1, dev(0));
  CHECK(throws<UsageError>([] { gather(std::vector<Tensor>{}, dev(0)); }, {"nothing to gather"}));
  CHECK(throws<UsageError>(
      [&] {
        gather({x, values({2, 5, 1}, 2, dev(1))}, dev(0));
      },
      {"part 1 has 3 dimensions", "part 0 has 2"}));
  CHECK(throws<UsageError>(
      [&] {
        gather({x, values({2, 4}, 2, dev(1))}, dev(0));
      },
      {"part 1", "(2, 4)", "(2, 5)", "dimension 1 differs"}));
}

namespace {
struct Fields : nn::Module {
  int extra_on_rank = 1;
  std::map<std::string, Tensor> forward(const Tensor& x) {
    std::map<std::string, Tensor> out{{"a", x}};
    if (current_replica().rank == extra_on_rank) out["b"] = x;
    return out;
  }
  void visit(nn::Visitor& v) override { v("extra_on_rank", extra_on_rank); }
};
}  // namespace

TEST_CASE("G6 gather: replicas that return other keys are an error") {
  Fields m;
  DataParallel net(m, on(2));
  CHECK(throws<UsageError>(
      [&] {
        net(values({2, 2}, 1));
      },
      {"replica 1 returned 2 tensors", "replica 0 returned 1"}));
  m.extra_on_rank = -1;
  CHECK(net(values({2, 2}, 1)).size() == 1);
}

namespace {
struct Swapped {
  Tensor a, b;
  void visit(nn::Visitor& v) { v("a", a), v("b", b); }
};
struct MakesSwapped : nn::Module {
  Swapped forward(const Tensor& x) { return {x + 1, x * 2}; }
  void visit(nn::Visitor&) override {}
};
}  // namespace

TEST_CASE("G7 gather: a struct is gathered field by field on any target") {
  for (Device target : {dev(7), dev(0)}) {
    MakesSwapped m;
    DataParallel net(m, on(2, {.output_device = target}));
    const Tensor x = values({6}, 1);
    const Swapped out = net(x);
    CHECK(out.a.device() == target);
    CHECK(close(out.a.to(dev(0)), x + 1));
    CHECK(close(out.b.to(dev(0)), x * 2));
  }
}

TEST_CASE("G8 gather: five ones from each of two devices to the second") {
  Tensor a = ones({5}, {.device = dev(0), .requires_grad = true});
  Tensor b = ones({5}, {.device = dev(1), .requires_grad = true});
  const Tensor y = gather({a, b}, dev(1));
  CHECK(y.shape() == Shape{10});
  CHECK(y.device() == dev(1));
  CHECK(bits_equal(y.narrow(0, 0, 5), a));
  CHECK(bits_equal(y.narrow(0, 5, 5), b));
  y.backward(ones({10}, {.device = dev(1)}));
  CHECK(a.grad().device() == dev(0));
  CHECK(sum(a.grad()).item<double>() == 5);
  CHECK(b.grad().device() == dev(1));
  CHECK(sum(b.grad()).item<double>() == 5);
}

TEST_CASE("gather: output_device is honoured for one device and for many") {
  for (int n : {1, 2, 3}) {
    nn::Linear m(3, 2);
    DataParallel net(m, on(n, {.output_device = dev(5)}));
    const Tensor x = values({4, 3}, 1);
    CHECK(net(x).device() == dev(5));
    CHECK(close(net(x), m(x)));
    CHECK(net.output_device() == dev(5));
  }
}

namespace {
struct Ragged : nn::Module {
  Tensor forward(const Tensor& x) { return x.size(0) == 3 ? zeros({3, 5}) : x; }
  void visit(nn::Visitor&) override {}
};
struct OnRankDim : nn::Module {
  Tensor forward(const Tensor& x) { return x * 2; }
  void visit(nn::Visitor&) override {}
};
}  // namespace

TEST_CASE("gather: sizes that do not fit name the replica and the dimension") {
  Ragged m;
  DataParallel net(m, on(3));
  CHECK(throws<UsageError>(
      [&] {
        net(values({8, 4}, 1));
      },
      {"replica 2 returned (2, 4)", "replica 0 (3, 5)", "dimension 1"}));
}

TEST_CASE("gather: inputs split along one dimension, outputs joined along another") {
  struct Flip : nn::Module {
    Tensor forward(const Tensor& x) { return x.transpose(0, 1); }
    void visit(nn::Visitor&) override {}
  } m;
  DataParallel net(m, on(3, {.dim = 1, .output_dim = 0}));
  Tensor x = values({4, 7}, 1);
  x.requires_grad_();
  const Tensor y = net(x);
  CHECK(bits_equal(y, x.transpose(0, 1)));
  const Tensor seed = values({7, 4}, 2);
  y.backward(seed);
  CHECK(bits_equal(x.grad(), seed.transpose(0, 1)));
}

}  // namespace tandem::test
