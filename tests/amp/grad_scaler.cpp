// The scaler's tables row by row, its scale step by step, and what a skipped step leaves alone.
// PyTorch's own scaler needs a GPU: the rule is written out again here.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include <tandem/amp/grad_scaler.h>
#include <tandem/core/autograd.h>
#include <tandem/core/ops/pointwise.h>
#include <tandem/core/ops/reduce.h>
#include <tandem/core/random.h>
#include <tandem/nn/linear.h>
#include <tandem/nn/loss.h>
#include <tandem/optim/adam.h>
#include <tandem/optim/sgd.h>

#include "tests/support/check.h"

using namespace tandem;
using namespace tandem::amp;
using namespace tandem::test;

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

Tensor parameter(const std::vector<double>& values, Device device = dev(0)) {
  return tensor_of(values, {std::int64_t(values.size())}, float32, device).requires_grad_();
}

void give_grad(Tensor& p, const std::vector<double>& values) {
  p.set_grad(tensor_of(values, p.shape(), p.dtype(), p.device()));
}

/// A parameter, its optimizer, and a scaler whose scale() was called.
struct Setting {
  Tensor p = parameter({1, 2});
  optim::SGD optimizer{{p}, {.lr = 0.5}};
  GradScaler scaler;

  explicit Setting(const GradScalerOptions& options = {.init_scale = 4}) : scaler(options) {
    scaler.scale(tensor_of({1}, {}));
    give_grad(p, {4, 8});
  }
  bool step(double grad = 4) {  // one whole iteration
    give_grad(p, {grad, 1});
    const bool skipped = scaler.step(optimizer).skipped;
    scaler.update();
    return skipped;
  }
};

template <class F>
Verdict refused(F&& f, std::initializer_list<const char*> parts) {
  return throws<UsageError>(std::forward<F>(f), parts);
}

}  // namespace

TEST_CASE("GradScaler: defaults are PyTorch's") {
  const GradScaler scaler;
  CHECK(scaler.get_scale() == 65536);
  CHECK(scaler.options().growth_factor == 2);
  CHECK(scaler.options().backoff_factor == 0.5);
  CHECK(scaler.options().growth_interval == 2000);
  CHECK(scaler.is_enabled());
  CHECK(scaler.growth_tracker() == 0);
}

TEST_CASE("GradScaler: options that make no sense are refused by name") {
  CHECK(refused([] { GradScaler({.growth_factor = 1}); }, {"growth_factor", "above 1", "1"}));
  CHECK(refused([] { GradScaler({.backoff_factor = 1}); }, {"backoff_factor", "1"}));
  CHECK(refused([] { GradScaler({.backoff_factor = 0}); }, {"backoff_factor", "0"}));
  CHECK(refused([] { GradScaler({.init_scale = 0}); }, {"init_scale", "0"}));
  CHECK(refused([] { GradScaler({.init_scale = kNan}); }, {"init_scale", "nan"}));
  CHECK(refused([] { GradScaler({.init_scale = 1e39}); }, {"init_scale", "1e+39"}));
  CHECK(refused([] { GradScaler({.growth_interval = 0}); }, {"growth_interval", "0"}));
  CHECK(refused([] { GradScaler({.min_scale = -1}); }, {"min_scale", "-1"}));
  CHECK(refused([] { GradScaler({.max_skips = -1}); }, {"max_skips", "-1"}));
}

TEST_CASE("GradScaler: scale multiplies and keeps the type, of one tensor or many") {
  GradScaler scaler({.init_scale = 8});
  CHECK(close(scaler.scale(tensor_of({1, 2.5}, {2})), {8, 20}, {0, 0}));
  const auto many = scaler.scale(std::vector{tensor_of({1}, {}, float16), tensor_of({3}, {1})});
  CHECK(many[0].dtype() == float16);
  CHECK(close(many[0], {8.0}, {0, 0}));
  CHECK(close(many[1], {24.0}, {0, 0}));
  CHECK(refused([&] { scaler.scale(Tensor()); }, {"scale()"}));
  CHECK(refused([&] { scaler.scale(tensor_of({1}, {1}, int64)); }, {"scale()"}));
}

TEST_CASE("GradScaler: the gradient of a scaled loss is the scale times the gradient") {
  Tensor p = parameter({3, -2});
  GradScaler scaler({.init_scale = 1024});
  scaler.scale(sum(p * p)).backward();
  CHECK(close(p.grad(), {6 * 1024, -4 * 1024}, {0, 0}));
}

// ---- the table of transitions: rows unscale_, step, update; columns READY, UNSCALED, STEPPED

TEST_CASE("GradScaler table: unscale_ when ready takes the scale out and tells the norm") {
  Setting s;
  give_grad(s.p, {12, 16});
  const optim::GradReport report = s.scaler.unscale_(s.optimizer);
  CHECK(close(s.p.grad(), {3, 4}, {0, 0}));
  CHECK(report.norm == 5);
  CHECK(!report.nonfinite);
  CHECK(report.worst == 0);
}

TEST_CASE("GradScaler table: unscale_ when unscaled is an error, and divides no second time") {
  Setting s;
  s.scaler.unscale_(s.optimizer);
  CHECK(refused([&] { s.scaler.unscale_(s.optimizer); }, {"unscale_", "already", "update()"}));
  CHECK(close(s.p.grad(), {1, 2}, {0, 0}));
}

TEST_CASE("GradScaler table: unscale_ when stepped is an error") {
  Setting s;
  s.scaler.step(s.optimizer);
  CHECK(refused([&] { s.scaler.unscale_(s.optimizer); }, {"unscale_", "step()"}));
}

TEST_CASE("GradScaler table: step when ready unscales, then steps") {
  Setting s;
  const ScaledStep done = s.scaler.step(s.optimizer);
  CHECK(!done.skipped);
  CHECK(close(done.gradients.norm, std::sqrt(5.0), {1e-7, 0}));  // float32 sum of squares
  CHECK(close(s.p, {0.5, 1}, {0, 0}));                           // 1 - 0.5 * 4/4, 2 - 0.5 * 8/4
}

TEST_CASE("GradScaler table: step when unscaled steps with the gradients as they are now") {
  Setting s;
  s.scaler.unscale_(s.optimizer);
  give_grad(s.p, {2, 2});  // say, clipped
  CHECK(!s.scaler.step(s.optimizer).skipped);
  CHECK(close(s.p, {0, 1}, {0, 0}));
}

TEST_CASE("GradScaler table: step when stepped is an error, and steps no second time") {
  Setting s;
  s.scaler.step(s.optimizer);
  CHECK(refused([&] { s.scaler.step(s.optimizer); }, {"step()", "already", "update()"}));
  CHECK(close(s.p, {0.5, 1}, {0, 0}));
}

TEST_CASE("GradScaler table: update when ready is an error if nobody's gradients were checked") {
  Setting s;
  CHECK(refused([&] { s.scaler.update(); }, {"update()", "no gradients were checked"}));
  s.scaler.step(s.optimizer);
  s.scaler.update();
  CHECK(refused([&] { s.scaler.update(); }, {"update()", "no gradients were checked"}));
}

TEST_CASE("GradScaler table: update when ready is fine if another optimizer was checked") {
  Setting s;
  Tensor q = parameter({1});
  optim::SGD other({q}, {.lr = 1});
  give_grad(q, {4});
  s.scaler.step(other);
  CHECK_NOTHROW(s.scaler.update());
}

TEST_CASE("GradScaler table: update when unscaled or stepped makes the optimizer ready") {
  Setting s;
  s.scaler.unscale_(s.optimizer);
  s.scaler.update();  // stepped by hand, or skipped by hand
  CHECK_NOTHROW(s.scaler.unscale_(s.optimizer));
  s.scaler.step(s.optimizer);
  s.scaler.update();
  CHECK_NOTHROW(s.scaler.step(s.optimizer));
}

TEST_CASE("GradScaler: the stages of two optimizers are independent") {
  Setting s;
  Tensor q = parameter({1});
  optim::SGD other({q}, {.lr = 1});
  give_grad(q, {4});
  s.scaler.unscale_(s.optimizer);
  CHECK_NOTHROW(s.scaler.unscale_(other));
  s.scaler.step(s.optimizer);
  CHECK_NOTHROW(s.scaler.step(other));
  CHECK(close(q, {0}, {0, 0}));
}

// ---- the other errors

TEST_CASE("GradScaler: unscale_, step and update before any scale() are errors") {
  Tensor p = parameter({1});
  give_grad(p, {1});
  optim::SGD optimizer({p}, {.lr = 1});
  GradScaler scaler;
  CHECK(refused([&] { scaler.unscale_(optimizer); }, {"unscale_()", "before any scale()"}));
  CHECK(refused([&] { scaler.step(optimizer); }, {"step()", "before any scale()"}));
  CHECK(refused([&] { scaler.update(); }, {"update()", "before any scale()"}));
  CHECK(refused([&] { scaler.update(2.0); }, {"update()", "before any scale()"}));
  CHECK(close(p, {1}, {0, 0}));
  CHECK(close(p.grad(), {1}, {0, 0}));
}

TEST_CASE("GradScaler: step without any gradient is an error; with one of two it is not") {
  Tensor p = parameter({1}), q = parameter({1});
  optim::SGD optimizer({p, q}, {.lr = 1});
  GradScaler scaler({.init_scale = 2});
  scaler.scale(tensor_of({1}, {}));
  CHECK(refused([&] { scaler.step(optimizer); }, {"step()", "no parameter", "gradient"}));
  scaler.unscale_(optimizer);  // is allowed, as in PyTorch, and checks nothing
  CHECK(refused([&] { scaler.step(optimizer); }, {"step()", "no parameter"}));
  CHECK(refused([&] { scaler.update(); }, {"no gradients were checked"}));
  GradScaler another({.init_scale = 2});
  another.scale(tensor_of({1}, {}));
  give_grad(q, {2});
  CHECK(!another.step(optimizer).skipped);
  CHECK(close(q, {0}, {0, 0}));
}

TEST_CASE("GradScaler: float16 gradients are refused before anything changes") {
  Tensor p = parameter({1}), q = tensor_of({1}, {1}, float16).requires_grad_();
  give_grad(p, {8});
  give_grad(q, {8});
  optim::SGD optimizer({p, q}, {.lr = 1});
  GradScaler scaler({.init_scale = 4});
  scaler.scale(tensor_of({1}, {}));
  CHECK(refused([&] { scaler.unscale_(optimizer); }, {"parameter 1", "float16", "float32"}));
  CHECK(refused([&] { scaler.step(optimizer); }, {"parameter 1", "float16"}));
  CHECK(close(p.grad(), {8}, {0, 0}));
}

TEST_CASE("GradScaler: state between step and update is an error") {
  Setting s;
  s.scaler.step(s.optimizer);
  const optim::NamedNumbers good = GradScaler().state();
  CHECK(refused([&] { (void)s.scaler.state(); }, {"state()", "update()"}));
  CHECK(refused([&] { s.scaler.load_state(good); }, {"load_state()", "update()"}));
}

TEST_CASE("GradScaler: a new scale must be a positive float32") {
  Setting s;
  for (double bad : {0.0, -1.0, kInf, kNan, 1e39}) {
    CHECK(refused([&] { s.scaler.update(bad); }, {"update()", "finite"}));
  }
  CHECK(s.scaler.get_scale() == 4);
}

// ---- the scale

TEST_CASE("GradScaler: interval 3: three good steps double the scale, an infinity halves it") {
  Setting s({.init_scale = 8, .growth_interval = 3});
  struct Step {
    double grad;
    bool skipped;
    double scale;
    std::int64_t tracker;
  };
  const Step steps[] = {{1, false, 8, 1},  {1, false, 8, 2},   {1, false, 16, 0},
                        {1, false, 16, 1}, {kInf, true, 8, 0}, {1, false, 8, 1},
                        {1, false, 8, 2},  {kNan, true, 4, 0}, {-kInf, true, 2, 0},
                        {1, false, 2, 1},  {1, false, 2, 2},   {1, false, 4, 0}};
  for (const Step& step : steps) {
    CHECK(s.step(step.grad) == step.skipped);
    CHECK(s.scaler.get_scale() == step.scale);
    CHECK(s.scaler.growth_tracker() == step.tracker);
  }
}

TEST_CASE("GradScaler: the scale is a float32, rounded at each update") {
  Setting s({.init_scale = 10, .growth_factor = 1.1, .backoff_factor = 0.3, .growth_interval = 1});
  float expected = 10;
  for (int i = 0; i < 5; ++i) {
    s.step();
    expected = float(double(expected) * 1.1);
    CHECK(s.scaler.get_scale() == double(expected));
  }
  s.step(kInf);
  CHECK(s.scaler.get_scale() == double(float(double(expected) * 0.3)));
}

TEST_CASE(
    "GradScaler: a scale does not grow to infinity, and the count starts again all the same") {
  Setting s({.init_scale = 0x1p127, .growth_interval = 2});
  s.step();
  s.step();
  CHECK(s.scaler.get_scale() == 0x1p127);
  CHECK(s.scaler.growth_tracker() == 0);
}

TEST_CASE("GradScaler: the scale stops at min_scale; with 0 it is PyTorch's") {
  Setting floor({.init_scale = 1, .min_scale = 0.25}),
      none({.init_scale = 0x1p-149, .min_scale = 0});
  for (double scale : {0.5, 0.25, 0.25}) {
    floor.step(kInf);
    CHECK(floor.scaler.get_scale() == scale);
  }
  none.step(kInf);
  CHECK(none.scaler.get_scale() == 0);
}

TEST_CASE("GradScaler: update(new_scale) sets the scale and leaves the count") {
  Setting s({.init_scale = 8, .growth_interval = 3});
  s.step();
  s.step();
  s.scaler.update(2.0);
  CHECK(s.scaler.get_scale() == 2);
  CHECK(s.scaler.growth_tracker() == 2);
  s.step();
  CHECK(s.scaler.get_scale() == 4);
}

TEST_CASE("GradScaler: an infinity of one optimizer lowers the scale but skips only that one") {
  Setting s;
  Tensor q = parameter({1});
  optim::SGD other({q}, {.lr = 1});
  give_grad(q, {4});
  give_grad(s.p, {kInf, 1});
  CHECK(s.scaler.step(s.optimizer).skipped);
  CHECK(!s.scaler.step(other).skipped);
  s.scaler.update();
  CHECK(s.scaler.get_scale() == 2);
  CHECK(close(q, {0}, {0, 0}));
}

TEST_CASE("GradScaler: gradients that were repaired after unscale_ are skipped all the same") {
  Setting s;
  give_grad(s.p, {kInf, 1});
  CHECK(s.scaler.unscale_(s.optimizer).nonfinite);
  give_grad(s.p, {1, 1});
  CHECK(s.scaler.step(s.optimizer).skipped);
}

TEST_CASE("GradScaler: after max_skips in a row update stops and names the first bad gradient") {
  Tensor fine = parameter({1}), bad = parameter({1, 2, 3});
  optim::Adam optimizer({fine, bad}, {});
  GradScaler scaler({.init_scale = 2, .max_skips = 3});
  scaler.scale(tensor_of({1}, {}));
  const auto skip = [&] {
    give_grad(fine, {1});
    give_grad(bad, {1, kNan, 1});
    CHECK(scaler.step(optimizer).skipped);
    scaler.update();
  };
  CHECK_NOTHROW(skip());
  CHECK_NOTHROW(skip());
  CHECK(scaler.skips_in_a_row() == 2);
  CHECK(throws<Error>(skip, {"3 steps in a row", "parameter 1 of Adam", "(3,)"}));
}

TEST_CASE("GradScaler: a good step starts the count of skips again; max_skips 0 never stops") {
  Setting s({.max_skips = 2});
  s.step(kInf);
  s.step();
  CHECK(s.scaler.skips_in_a_row() == 0);
  CHECK_NOTHROW(s.step(kInf));
  Setting never({.max_skips = 0});
  for (int i = 0; i < 200; ++i) never.step(kInf);
  CHECK(never.scaler.skips_in_a_row() == 200);
}

// ---- what steps do

TEST_CASE("GradScaler: a skipped step leaves parameters and optimizer state bitwise unchanged") {
  Tensor p = parameter({1, -2, 3}), q = parameter({0.5});
  optim::Adam optimizer({p, q}, {.lr = 0.1, .amsgrad = true});
  GradScaler scaler({.init_scale = 4});
  const auto iterate = [&](double odd) {
    scaler.scale(tensor_of({1}, {}));
    give_grad(p, {1, 2, 3});
    give_grad(q, {odd});
    const bool skipped = scaler.step(optimizer).skipped;
    scaler.update();
    return skipped;
  };
  CHECK(!iterate(1));  // now there is state
  const auto everything = [&] {
    std::vector<Array> all{p.array().clone(), q.array().clone()};
    for (std::size_t i = 0; i < 2; ++i) {
      for (const Array& t : optimizer.state(i).tensors) all.push_back(t.clone());
    }
    return all;
  };
  const std::vector<Array> before = everything();
  const std::uint64_t version = p.array().version();
  CHECK(iterate(kInf));
  CHECK(iterate(kNan));
  const std::vector<Array> after = everything();
  REQUIRE(before.size() == 8);
  for (std::size_t i = 0; i < before.size(); ++i) CHECK(bits_equal(before[i], after[i]));
  CHECK(p.array().version() == version);
  CHECK(optimizer.state(0).step == 1);
  CHECK(!iterate(1));
  CHECK(optimizer.state(0).step == 2);
}

TEST_CASE("GradScaler: gradients on several devices: one infinity on any of them skips all") {
  for (int bad : {-1, 0, 1, 2}) {
    std::vector<Tensor> params;
    for (int d = 0; d < 3; ++d) params.push_back(parameter({1, 1}, dev(d)));
    optim::SGD optimizer(params, {.lr = 1});
    GradScaler scaler({.init_scale = 2});
    scaler.scale(tensor_of({1}, {}));
    for (int d = 0; d < 3; ++d) give_grad(params[std::size_t(d)], {2, d == bad ? kInf : 0});
    const ScaledStep done = scaler.step(optimizer);
    CHECK(done.skipped == (bad >= 0));
    CHECK(done.gradients.worst == std::max(bad, 0));
    for (const Tensor& p : params) CHECK(close(p, {bad >= 0 ? 1.0 : 0.0, 1}, {0, 0}));
  }
}

TEST_CASE("GradScaler: a scale that is a power of two changes no bit of a training run") {
  const auto train = [](GradScaler* scaler) {
    manual_seed(5);
    nn::Linear net(6, 3);
    optim::Adam optimizer(net.parameters(), {.lr = 0.01});
    for (std::uint64_t i = 0; i < 20; ++i) {
      optimizer.zero_grad();
      const Tensor loss =
          nn::mse_loss(net(random_tensor({4, 6}, i)), random_tensor({4, 3}, 100 + i));
      if (scaler == nullptr) {
        loss.backward();
        optimizer.step();
        continue;
      }
      scaler->scale(loss).backward();
      scaler->step(optimizer);
      scaler->update();
    }
    return net;
  };
  GradScaler scaler({.growth_interval = 3});  // also while it grows
  const nn::Linear plain = train(nullptr), scaled = train(&scaler);
  CHECK(scaler.get_scale() == 65536 * 64);
  CHECK(bits_equal(plain.weight, scaled.weight));
  CHECK(bits_equal(plain.bias, scaled.bias));
}

TEST_CASE("GradScaler: several backwards, then one unscale_, clip, step and update") {
  Setting s;
  s.p.zero_grad();
  for (int i = 0; i < 4; ++i) s.scaler.scale(sum(s.p * s.p)).backward();
  CHECK(close(s.p.grad(), {4 * 2 * 4, 4 * 4 * 4}, {0, 0}));
  const optim::GradReport report = s.scaler.unscale_(s.optimizer);
  CHECK(close(s.p.grad(), {8, 16}, {0, 0}));
  CHECK(optim::clip_grads_with_norm_({s.p}, 1, report.norm));
  CHECK(!s.scaler.step(s.optimizer).skipped);
  const double norm = std::sqrt(320.0);  // 1e-6: the clipping factor is a float32
  CHECK(close(s.p, {1 - 0.5 * 8 / norm, 2 - 0.5 * 16 / norm}, {1e-6, 0}));
  CHECK_NOTHROW(s.scaler.update());
}

TEST_CASE("GradScaler: gradients times float32(1 / scale), one rounding each") {
  Setting s({.init_scale = 3});
  give_grad(s.p, {1, 7e-3});
  s.scaler.unscale_(s.optimizer);
  const float inverse = float(1.0 / 3.0);
  CHECK(close(s.p.grad(), {double(1 * inverse), double(float(7e-3) * inverse)}, {0, 0}));
  if (!has_float64()) return;
  Tensor q = tensor_of({1}, {1}, float64).requires_grad_();
  give_grad(q, {1});
  optim::SGD other({q}, {.lr = 1});
  s.scaler.unscale_(other);
  CHECK(close(q.grad(), {double(inverse)}, {0, 0}));  // also for float64
}

TEST_CASE(
    "GradScaler: a gradient that overflows only when a scale below 1 is taken out is finite") {
  Setting s({.init_scale = 0x1p-10});
  give_grad(s.p, {0x1p120, 0});
  CHECK(!s.scaler.unscale_(s.optimizer).nonfinite);  // PyTorch looks before it multiplies
  CHECK(close(s.p.grad(), {kInf, 0}));
}

TEST_CASE("GradScaler: disabled, everything passes through") {
  Setting s({.enabled = false});
  CHECK(s.scaler.get_scale() == 1);
  CHECK(!s.scaler.is_enabled());
  const Tensor x = tensor_of({3}, {1});
  CHECK(s.scaler.scale(x).is_same(x));
  CHECK(s.scaler.unscale_(s.optimizer).norm == doctest::Approx(std::sqrt(80.0)));
  CHECK(!s.scaler.step(s.optimizer).skipped);
  CHECK(close(s.p, {-1, -2}, {0, 0}));
  CHECK_NOTHROW(s.scaler.update());
  CHECK_NOTHROW(s.scaler.update());
  CHECK(s.scaler.state().empty());
  CHECK_NOTHROW(s.scaler.load_state({}));
}

// ---- state

TEST_CASE("GradScaler: state has PyTorch's names, and a scaler that loads it goes on alike") {
  Setting a({.init_scale = 8, .growth_factor = 4, .backoff_factor = 0.25, .growth_interval = 3});
  a.step();
  a.step(kInf);
  a.step();
  a.step();
  const optim::NamedNumbers expected{{"scale", 2},
                                     {"growth_factor", 4},
                                     {"backoff_factor", 0.25},
                                     {"growth_interval", 3},
                                     {"_growth_tracker", 2}};
  CHECK(a.scaler.state() == expected);
  Setting b;
  b.scaler.load_state(expected);
  CHECK(b.scaler.get_scale() == 2);
  for (double grad : {1.0, 1.0, kInf, 1.0}) {
    a.step(grad);
    b.step(grad);
    CHECK(a.scaler.state() == b.scaler.state());
  }
}

TEST_CASE("GradScaler: a state before the first scale() has the initial scale, and may be loaded") {
  GradScaler fresh({.init_scale = 32}), other;
  other.load_state(fresh.state());
  CHECK(other.get_scale() == 32);
}

TEST_CASE("GradScaler: states that make no sense are refused, and change nothing") {
  GradScaler scaler({.init_scale = 32});
  const optim::NamedNumbers good = scaler.state();
  CHECK(refused([&] { scaler.load_state({}); }, {"empty", "disabled"}));
  optim::NamedNumbers bad = good;
  bad.erase("scale");
  CHECK(refused([&] { scaler.load_state(bad); }, {"scale"}));
  for (const auto& [name, value] : optim::NamedNumbers{{"scale", 0},
                                                       {"growth_factor", 1},
                                                       {"backoff_factor", 2},
                                                       {"growth_interval", 0.5},
                                                       {"_growth_tracker", -1},
                                                       {"lr", 1}}) {
    bad = good;
    bad["scale"] = 64;
    bad[name] = value;
    CHECK(refused([&] { scaler.load_state(bad); }, {name.c_str()}));
    CHECK(scaler.state() == good);
  }
}
