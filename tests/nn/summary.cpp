// summary: sizes, parameters and FLOPs counted by hand; a model that is looked at stays as it was.
#include <doctest/doctest.h>

#include <sstream>

#include <tandem/core/random.h>
#include <tandem/core/thread_state.h>
#include <tandem/nn/conv.h>
#include <tandem/nn/pooling.h>
#include <tandem/nn/summary.h>

#include "tests/nn/nets.h"
#include "tests/support/check.h"

using namespace tandem;
using namespace tandem::test;

namespace {

std::string printed(const nn::Summary& s) {
  std::ostringstream out;
  out << s;
  return out.str();
}

/// No Layer: a forward and a visit, as somebody writes it who has not read on.
struct Block : nn::Module {
  nn::Linear inner{4, 4};
  nn::ReLU act;

  Tensor forward(const Tensor& x) { return x + act(inner(x)); }
  void visit(nn::Visitor& v) override { v("inner", inner), v("act", act); }
};

/// Multiplies by itself: 2 N D N operations that belong to no layer inside.
struct Gram : nn::Layer {
  nn::Linear project{3, 2};

  Tensor forward(const Tensor& x) override {
    const Tensor y = project(x);
    return matmul(y, y.t());
  }
  void visit(nn::Visitor& v) override { v("project", project); }
};

/// Writes, counts, draws and looks at its mode: everything that a look must not leave behind.
struct Restless : nn::Layer {
  Tensor seen = zeros({2}), replaced = ones({1});
  int calls = 0;
  bool was_training = false;
  bool fail = false;
  nn::Dropout drop{0.5};

  Tensor forward(const Tensor& x) override {
    was_training = training || drop.training;
    ++calls;
    seen.add_(ones({2}));
    replaced = replaced + 1;
    const Tensor noise = rand(x.shape());
    check(!fail, "as asked");
    return drop(x + noise);
  }
  void visit(nn::Visitor& v) override {
    v.buffer("seen", seen), v.buffer("replaced", replaced);
    v("calls", calls), v("drop", drop);
  }
};

}  // namespace

TEST_CASE("summary: prints a table of the calls, counted by hand") {
  Net net;  // Linear(3, 4) and Linear(4, 2), for 5 rows: 2*5*3*4 and 2*5*4*2 operations
  CHECK(printed(nn::summary(net, {5, 3})) ==
        "layer          output  parameters  FLOPs\n"
        "Net            (5, 2)           -      -\n"
        "  fc1: Linear  (5, 4)          16    120\n"
        "  fc2: Linear  (5, 2)          10     80\n"
        "parameters: 26 (26 trainable, 0 frozen), 104 bytes; buffers 12 bytes; outputs 120 bytes\n"
        "FLOPs: 200 for an input of (5, 3) (matrix products and convolutions, multiply and add "
        "counted each)\n");
}

TEST_CASE("summary: containers nest, and any module in a Sequential has its row") {
  nn::Sequential net{nn::Sequential{nn::Linear(784, 1000), nn::ReLU()},
                     nn::Sequential{nn::Linear(1000, 4, {.bias = false}), Block()}};
  CHECK(
      printed(nn::summary(net, {100, 784})) ==
      "layer                output       parameters        FLOPs\n"
      "Sequential           (100, 4)              -            -\n"
      "  0: Sequential      (100, 1000)           -            -\n"
      "    0: Linear        (100, 1000)     785,000  156,800,000\n"
      "    1: ReLU          (100, 1000)           -            -\n"
      "  1: Sequential      (100, 4)              -            -\n"
      "    0: Linear        (100, 4)          4,000      800,000\n"
      "    1: Block         (100, 4)              -            -\n"
      "      inner: Linear  (100, 4)             20        3,200\n"
      "      act: ReLU      (100, 4)              -            -\n"
      "parameters: 789,020 (789,020 trainable, 0 frozen), 3.0 MiB; buffers 0 bytes; outputs 785.9 "
      "KiB\n"
      "FLOPs: 157,603,200 for an input of (100, 784) (matrix products and convolutions, multiply "
      "and add counted each)\n");
}

TEST_CASE("summary: two convolutions, counted by hand") {
  nn::Sequential net{nn::Conv2d(3, 64, 3, {.padding = 1}),  // 64*32*32 outputs of 2*3*9
                     nn::ReLU(),
                     nn::MaxPool2d(2),
                     nn::Conv2d(64, 128, 3, {.padding = 1}),  // 128*16*16 outputs of 2*64*9
                     nn::ReLU(),
                     nn::AdaptiveAvgPool2d(1),
                     nn::Flatten(),
                     nn::Linear(128, 10)};
  const nn::Summary s = nn::summary(net, {1, 3, 32, 32});
  const std::vector<Shape> outputs{{1, 10},         {1, 64, 32, 32},  {1, 64, 32, 32},
                                   {1, 64, 16, 16}, {1, 128, 16, 16}, {1, 128, 16, 16},
                                   {1, 128, 1, 1},  {1, 128},         {1, 10}};
  REQUIRE(s.rows.size() == outputs.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) CHECK(s.rows[i].output == outputs[i]);
  CHECK(s.rows[1].type == "Conv2d");
  CHECK(s.rows[1].parameters == 1792);
  CHECK(s.rows[1].flops == 3538944);
  CHECK(s.rows[4].parameters == 73856);
  CHECK(s.rows[4].flops == 37748736);
  CHECK(s.rows[8].flops == 2560);
  CHECK(s.flops == 3538944 + 37748736 + 2560);
  CHECK(s.trainable == 1792 + 73856 + 1290);
}

TEST_CASE("summary: what a forward computes itself counts to its own row") {
  Gram gram;
  const nn::Summary s = nn::summary(gram, {6, 3});
  REQUIRE(s.rows.size() == 2);
  CHECK(s.rows[0].type == "Gram");
  CHECK(s.rows[0].flops == 2 * 6 * 2 * 6);
  CHECK(s.rows[0].output == Shape{6, 6});
  CHECK(s.rows[1].name == "project");
  CHECK(s.rows[1].depth == 1);
  CHECK(s.rows[1].flops == 2 * 6 * 3 * 2);
  CHECK(s.flops == s.rows[0].flops + s.rows[1].flops);
}

TEST_CASE("summary: tied and frozen parameters are counted once, where they occur first") {
  Tied tied;
  tied.in.weight.requires_grad_(false);
  const nn::Summary s = nn::summary(tied, {1, 3});
  CHECK(s.trainable == 0);
  CHECK(s.frozen == 9);
  CHECK(s.parameter_bytes == 36);
  REQUIRE(s.rows.size() == 3);
  CHECK(s.rows[1].parameters == 9);
  CHECK(s.rows[2].parameters == 0);
  CHECK(s.rows[2].counted_before);
  CHECK(printed(s).find("  out: Linear  (1, 3)       above     18\n") != std::string::npos);
}

TEST_CASE(
    "summary: a layer called twice has two rows; one that is not called counts all the same") {
  struct Twice : nn::Layer {
    nn::Linear used{2, 2}, spare{10, 10};
    Tensor forward(const Tensor& x) override { return used(used(x)); }
    void visit(nn::Visitor& v) override { v("used", used), v("spare", spare); }
  } twice;
  const nn::Summary s = nn::summary(twice, {1, 2});
  REQUIRE(s.rows.size() == 3);
  CHECK(s.rows[1].name == "used");
  CHECK(s.rows[2].name == "used");
  CHECK(s.rows[1].parameters == 6);
  CHECK(s.rows[2].parameters == 0);
  CHECK(s.rows[2].flops == 8);
  CHECK(s.trainable == 6 + 110);
}

TEST_CASE("summary: a layer that visit() names twice has its first name, as its parameters have") {
  struct Named : nn::Layer {
    nn::Linear fc{2, 2};
    Tensor forward(const Tensor& x) override { return fc(x); }
    void visit(nn::Visitor& v) override { v("fc", fc), v("again", fc); }
  } named;
  const nn::Summary s = nn::summary(named, {1, 2});
  REQUIRE(s.rows.size() == 2);
  CHECK(s.rows[1].name == "fc");
  CHECK(s.rows[1].parameters == 6);
}

TEST_CASE("summary: a single layer is a model, also a temporary; large numbers are readable") {
  const nn::Summary s = nn::summary(nn::Linear(1000, 2000), {64, 1000});
  CHECK(s.rows.size() == 1);
  CHECK(s.flops == 256000000);
  CHECK(s.parameter_bytes == 8008000);
  CHECK(printed(s).find("2,002,000 (2,002,000 trainable, 0 frozen), 7.6 MiB; buffers 0 bytes; "
                        "outputs 500.0 KiB\nFLOPs: 256,000,000 for") != std::string::npos);
}

TEST_CASE("summary: the input is where and what the first parameter is, or of the dtype asked for" *
          doctest::skip(!has_float64())) {
  nn::Linear layer(3, 2);
  layer.to(float64);
  layer.to(dev(1));
  CHECK(nn::summary(layer, {1, 3}).parameter_bytes == 64);
  CHECK_THROWS_WITH_AS(nn::summary(layer, {1, 3}, {.dtype = float32}),
                       doctest::Contains("x is float32, weight is float64"), UsageError);
}

TEST_CASE("summary: leaves modes, buffers, settings, gradients and random numbers as they were") {
  for (const bool fails : {false, true}) {
    CAPTURE(fails);
    Restless model;
    model.drop.training = false;
    model.fail = fails;
    manual_seed(3);
    const float expected = rand({1}).item<float>();
    manual_seed(3);
    const Tensor handle = model.replaced;
    if (fails) {
      CHECK_THROWS_WITH(nn::summary(model, {2, 2}), "as asked");
    } else {
      CHECK(nn::summary(model, {2, 2}).rows.size() == 2);
    }
    CHECK(!model.was_training);
    CHECK(model.training);
    CHECK(!model.drop.training);
    CHECK(model.calls == 0);
    CHECK(model.seen.to_vector<float>() == std::vector<float>{0, 0});
    CHECK(model.replaced.is_same(handle));
    CHECK(model.replaced.item<float>() == 1);
    CHECK(rand({1}).item<float>() == expected);
    CHECK(is_grad_enabled());
    CHECK(nn::LayerObserver::current() == nullptr);
  }
  Net net;
  net(zeros({1, 3})).sum().backward();
  const Tensor gradient = net.fc1.weight.grad();
  const std::uint64_t version = net.mean.version();
  nn::summary(net, {1, 3});
  CHECK(net.fc1.weight.grad().array().same_as(gradient.array()));
  CHECK(net.mean.version() == version);  // nothing was written, so nothing has to be sent again
}

TEST_CASE("summary: a shape that does not fit is the layer's error") {
  Net net;
  nn::Sequential model{nn::Linear(3, 4), nn::Linear(5, 2)};
  CHECK_THROWS_WITH_AS(nn::summary(model, {1, 3}),
                       doctest::Contains("[linear] x (1, 4) does not end in the weight's input"),
                       UsageError);
  CHECK(model.training);
  CHECK(nn::summary(net, {1, 3}).rows.size() == 3);
}

TEST_CASE("observer: sees calls of its thread while it lives, the innermost one only") {
  struct Count : nn::LayerObserver {
    int calls = 0, returns = 0;
    void on_call(nn::Module&, const Tensor&) override { ++calls; }
    void on_return(nn::Module&, const Tensor&) override { ++returns; }
  };
  Net net;
  Count outer;
  net(zeros({1, 3}));
  CHECK(outer.calls == 3);
  {
    Count inner;
    net(zeros({1, 3}));
    CHECK(inner.calls == 3);
    CHECK_THROWS(net(zeros({1, 7})));
    CHECK(inner.calls == 4);
    CHECK(inner.returns == 3);
  }
  CHECK(outer.calls == 3);
  net.fc2(zeros({1, 4}));
  CHECK(outer.calls == 4);
}
