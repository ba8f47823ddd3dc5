// Schedules against PyTorch 1.13, step by step; what they refuse; what a checkpoint keeps of them.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>

#include <tandem/core/error.h>
#include <tandem/core/ops/factories.h>
#include <tandem/optim/adam.h>
#include <tandem/optim/plateau.h>
#include <tandem/optim/schedule.h>
#include <tandem/optim/sgd.h>

#include "tests/optim/golden_schedules.h"

using namespace tandem;
using namespace tandem::optim;
using namespace tandem::test;

namespace {

std::vector<ParamGroup> groups(std::initializer_list<double> lrs) {
  std::vector<ParamGroup> list;
  for (const double lr : lrs) {
    list.push_back({.params = {zeros({1}).requires_grad_()}, .options = {{"lr", lr}}});
  }
  return list;
}

std::unique_ptr<Optimizer> sgd(std::initializer_list<double> lrs) {
  return std::make_unique<SGD>(groups(lrs), SGDOptions{.lr = 1, .momentum = 0.9});
}

std::unique_ptr<Optimizer> adam(std::initializer_list<double> lrs) {
  return std::make_unique<Adam>(groups(lrs));
}

/// An update with a gradient of zero: parameters stay, the optimizer has stepped.
void update(Optimizer& optimizer) {
  for (const ParamGroup& group : optimizer.param_groups()) {
    for (Tensor p : group.params) p.set_grad(zeros({1}));
  }
  optimizer.step();
}

double momentum(const Options& group) {
  return group[group.contains("momentum") ? "momentum" : "beta1"];
}

std::vector<double> lr_of(const Optimizer& optimizer) {
  std::vector<double> lr;
  for (std::size_t i = 0; i < optimizer.group_count(); ++i) lr.push_back(optimizer.group(i)["lr"]);
  return lr;
}

/// PyTorch multiplies from step to step, here every step has its closed form: they drift apart by
/// a few units in the last place per step, which stays below 1e-14.
constexpr double kTolerance = 1e-13;

void compare(const std::string& name, std::unique_ptr<Optimizer> optimizer,
             const std::function<std::unique_ptr<Schedule>(Optimizer&)>& make) {
  std::span<const double> expected;
  for (const ScheduleGolden& g : kScheduleGolden) {
    if (g.name == name) expected = g.values;
  }
  REQUIRE_MESSAGE(!expected.empty(), "no golden numbers for " << name);
  const std::size_t groups = optimizer->group_count(), steps = expected.size() / (2 * groups);
  const std::unique_ptr<Schedule> schedule = make(*optimizer);
  for (std::size_t t = 0; t < steps; ++t) {
    CAPTURE(t);
    CHECK(schedule->step_count() == std::int64_t(t));
    CHECK(schedule->last_lr() == lr_of(*optimizer));
    for (std::size_t i = 0; i < groups; ++i) {
      const double lr = expected[t * 2 * groups + i];
      CHECK(std::abs(optimizer->group(i)["lr"] - lr) <= kTolerance);
      CHECK(std::abs(momentum(optimizer->group(i)) - expected[(t * 2 + 1) * groups + i]) <=
            kTolerance);
    }
    if (t + 1 == steps) break;
    update(*optimizer);
    if (auto* planned = dynamic_cast<PlannedSchedule*>(schedule.get())) planned->step();
    if (auto* plateau = dynamic_cast<ReduceLROnPlateau*>(schedule.get())) {
      plateau->step(kMetrics[t]);
    }
  }
}

template <class S, class O>
std::function<std::unique_ptr<Schedule>(Optimizer&)> make(O options) {
  return [options](Optimizer& optimizer) { return std::make_unique<S>(optimizer, options); };
}
auto step(StepLROptions o) {
  return make<StepLR>(o);
}
auto cosine(CosineAnnealingLROptions o) {
  return make<CosineAnnealingLR>(o);
}
auto linear(LinearLROptions o = {}) {
  return make<LinearLR>(o);
}
auto one_cycle(OneCycleLROptions o) {
  return make<OneCycleLR>(o);
}
auto sequential(SequentialLROptions o) {
  return make<SequentialLR>(o);
}
auto plateau(ReduceLROnPlateauOptions o) {
  return make<ReduceLROnPlateau>(o);
}

const SequentialLROptions kWarmUpThenCosine{
    .schedules = {LinearLROptions{.start_factor = 0.1, .total_iters = 3},
                  CosineAnnealingLROptions{.T_max = 4}},
    .milestones = {3}};

/// The message that constructing this schedule is refused with.
std::string refusal(const std::function<std::unique_ptr<Schedule>(Optimizer&)>& make,
                    std::unique_ptr<Optimizer> optimizer = sgd({0.1, 0.2})) {
  try {
    make(*optimizer);
  } catch (const UsageError& e) {
    CHECK(lr_of(*optimizer) == std::vector<double>{0.1, 0.2});
    return e.what();
  }
  return "accepted";
}

/// Warnings go to a list while it lives.
struct Heard {
  std::vector<std::string> warnings;
  WarningHandler before;

  Heard() : before(set_warning_handler([this](const std::string& m) { warnings.push_back(m); })) {}
  ~Heard() { set_warning_handler(before); }
};

}  // namespace

TEST_CASE("StepLR: has PyTorch's lr, for groups too") {
  compare("step", sgd({0.1}), step({.step_size = 2}));
  compare("step groups", sgd({0.1, 0.02}), step({.step_size = 3, .gamma = 0.5}));
}

TEST_CASE("CosineAnnealingLR: has PyTorch's lr, and rises again after T_max") {
  compare("cosine", sgd({0.1}), cosine({.T_max = 5, .eta_min = 0.01}));
  compare("cosine groups", sgd({0.1, 0.3}), cosine({.T_max = 4, .eta_min = 0.001}));
}

TEST_CASE("LinearLR: has PyTorch's lr, up and down") {
  compare("linear", sgd({0.1}), linear());
  compare("linear down", sgd({0.1, 0.4}),
          linear({.start_factor = 1, .end_factor = 0.2, .total_iters = 4}));
}

TEST_CASE("SequentialLR: the next schedule starts anew at each milestone, as in PyTorch") {
  compare("sequential", sgd({0.1}), sequential(kWarmUpThenCosine));
  compare("sequential groups", sgd({0.1, 0.2}),
          sequential({.schedules = {LinearLROptions{.start_factor = 0.25, .total_iters = 2},
                                    StepLROptions{.step_size = 2},
                                    CosineAnnealingLROptions{.T_max = 3, .eta_min = 0.01}},
                      .milestones = {2, 7}}));
}

TEST_CASE("OneCycleLR: lr and momentum have PyTorch's values and move against each other") {
  compare("one_cycle sgd", sgd({0.1}), one_cycle({.max_lr = 0.1, .total_steps = 10}));
  compare("one_cycle half a phase", sgd({0.1}),
          one_cycle({.max_lr = 0.2, .total_steps = 7, .pct_start = 0.5}));
}

TEST_CASE("OneCycleLR: with Adam it cycles beta1, each group between its own values") {
  compare("one_cycle adam", adam({1e-3, 2e-3}),
          one_cycle({.max_lr = {0.01, 0.05},
                     .epochs = 4,
                     .steps_per_epoch = 5,
                     .base_momentum = {0.8, 0.7},
                     .max_momentum = {0.9, 0.95}}));
}

TEST_CASE("OneCycleLR: straight lines leave momentum alone if asked to") {
  compare("one_cycle linear", sgd({0.1}),
          one_cycle({.max_lr = 0.5,
                     .total_steps = 12,
                     .pct_start = 0.25,
                     .anneal_strategy = Anneal::linear,
                     .cycle_momentum = false,
                     .div_factor = 10,
                     .final_div_factor = 100}));
}

TEST_CASE("OneCycleLR: three phases have PyTorch's values") {
  compare("one_cycle three_phase", sgd({0.1}),
          one_cycle({.max_lr = 0.2, .total_steps = 20, .pct_start = 0.4, .three_phase = true}));
}

TEST_CASE("OneCycleLR: keeps its last lr after the cycle, and refuses to go on") {
  for (const Anneal strategy : {Anneal::cos, Anneal::linear}) {
    const auto optimizer = sgd({0.1});
    OneCycleLR schedule(*optimizer,
                        {.max_lr = 0.1, .total_steps = 10, .anneal_strategy = strategy});
    update(*optimizer);
    for (int i = 0; i < 10; ++i) schedule.step();
    CHECK(schedule.last_lr()[0] == doctest::Approx(4e-7).epsilon(1e-9));
    CHECK(optimizer->group(0)["momentum"] == doctest::Approx(0.95));
    CHECK_THROWS_WITH_AS(schedule.step(),
                         doctest::Contains("step 11 is past the end: the cycle has 10 steps"),
                         UsageError);
    CHECK(schedule.step_count() == 10);
    CHECK(schedule.last_lr()[0] == doctest::Approx(4e-7).epsilon(1e-9));
  }
}

TEST_CASE("OneCycleLR: a first phase of no length starts at max_lr") {
  const auto optimizer = sgd({0.1});
  OneCycleLR schedule(*optimizer, {.max_lr = 0.1, .total_steps = 10, .pct_start = 0.1});
  CHECK(schedule.last_lr()[0] == 0.1);
  CHECK(optimizer->group(0)["momentum"] == 0.85);
}

TEST_CASE("ReduceLROnPlateau: has PyTorch's lr in all modes") {
  compare("plateau", sgd({0.1}), plateau({.patience = 2}));
  compare("plateau groups", sgd({0.1, 0.02}),
          plateau({.factor = 0.5, .patience = 1, .cooldown = 2, .min_lr = {0.02, 0.004}}));
  compare(
      "plateau abs", sgd({0.1}),
      plateau(
          {.factor = 0.3, .patience = 2, .threshold = 0.05, .threshold_mode = ThresholdMode::abs}));
  compare("plateau max", sgd({0.1}),
          plateau({.mode = PlateauMode::max,
                   .factor = 0.1,
                   .patience = 0,
                   .threshold = 0.02,
                   .eps = 1e-3}));
  compare("plateau max abs", sgd({0.1}),
          plateau({.mode = PlateauMode::max,
                   .factor = 0.1,
                   .patience = 4,
                   .threshold = 0.01,
                   .threshold_mode = ThresholdMode::abs}));
}

TEST_CASE("schedules: options that make no sense are refused by name, and no lr changes") {
  CHECK(refusal(step({})).find("step_size must be positive: 0") != std::string::npos);
  CHECK(refusal(step({.step_size = 1, .gamma = -1})).find("gamma") != std::string::npos);
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK(refusal(step({.step_size = 1, .gamma = infinity})).find("gamma") != std::string::npos);
  CHECK(refusal(cosine({.T_max = 1, .eta_min = infinity})).find("eta_min") != std::string::npos);
  CHECK(refusal(cosine({})).find("T_max must be positive: 0") != std::string::npos);
  CHECK(refusal(cosine({.T_max = 1, .eta_min = -1})).find("eta_min") != std::string::npos);
  CHECK(refusal(linear({.start_factor = 2})).find("start_factor") != std::string::npos);
  CHECK(refusal(linear({.end_factor = -1})).find("end_factor") != std::string::npos);
  CHECK(refusal(linear({.total_iters = 0})).find("total_iters") != std::string::npos);
  CHECK(refusal(plateau({.factor = 1})).find("factor must be in [0, 1): 1") != std::string::npos);
  CHECK(refusal(plateau({.patience = -1})).find("patience") != std::string::npos);
  CHECK(refusal(plateau({.min_lr = {0.1, 0.2, 0.3}}))
            .find("min_lr has 3 values, the optimizer 2 groups") != std::string::npos);
}

TEST_CASE("OneCycleLR: options that make no sense are refused by name") {
  CHECK(refusal(one_cycle({.max_lr = 0.1})).find("how long") != std::string::npos);
  CHECK(refusal(one_cycle({.total_steps = 5})).find("max_lr is required") != std::string::npos);
  CHECK(refusal(one_cycle({.max_lr = 0.1, .epochs = 3})).find("both") != std::string::npos);
  CHECK(refusal(one_cycle({.max_lr = 0.1, .total_steps = -1})).find("total_steps") !=
        std::string::npos);
  CHECK(refusal(one_cycle({.max_lr = 0.1, .total_steps = 5, .pct_start = 1.5})).find("pct_start") !=
        std::string::npos);
  CHECK(refusal(one_cycle({.max_lr = 0.1, .total_steps = 5, .div_factor = 0})).find("div_factor") !=
        std::string::npos);
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK(refusal(one_cycle({.max_lr = infinity, .total_steps = 5})).find("max_lr") !=
        std::string::npos);
  CHECK(refusal(one_cycle({.max_lr = 0.1, .total_steps = 5, .final_div_factor = infinity}))
            .find("final_div_factor") != std::string::npos);
  CHECK(refusal(one_cycle({.max_lr = 0.1, .total_steps = 5, .max_momentum = 1}))
            .find("must be in [0, 1): 1") != std::string::npos);
  CHECK(refusal(one_cycle({.max_lr = {0.1, 0.2, 0.3}, .total_steps = 5}))
            .find("max_lr has 3 values") != std::string::npos);
}

TEST_CASE("SequentialLR: milestones are checked against the schedules") {
  const ScheduleRule rule = StepLROptions{.step_size = 1};
  CHECK(refusal(sequential({})).find("no schedules") != std::string::npos);
  CHECK(refusal(sequential({.schedules = {rule, rule}}))
            .find("2 schedules need 1 milestones, got 0") != std::string::npos);
  CHECK(refusal(sequential({.schedules = {rule, rule, rule}, .milestones = {4, 4}}))
            .find("4 comes after 4") != std::string::npos);
  CHECK(
      refusal(sequential({.schedules = {rule, rule}, .milestones = {0}})).find("0 is the first") !=
      std::string::npos);
  CHECK(refusal(sequential({.schedules = {rule, StepLROptions{}}, .milestones = {1}}))
            .find("step_size") != std::string::npos);
}

TEST_CASE("schedules: a step before the optimizer's first is warned about, once") {
  const Heard heard;
  for (int i = 0; i < 2; ++i) {
    const auto optimizer = sgd({0.1});
    LinearLR schedule(*optimizer);
    schedule.step();
    schedule.step();
    CHECK(schedule.step_count() == 2);
  }
  REQUIRE(heard.warnings.size() == 1);
  CHECK(heard.warnings[0].find("[LinearLR] step() before the optimizer") != std::string::npos);
}

TEST_CASE("schedules: no warning when the optimizer goes first") {
  const Heard heard;
  const auto optimizer = sgd({0.1});
  StepLR schedule(*optimizer, {.step_size = 1});
  update(*optimizer);
  schedule.step();
  CHECK(heard.warnings.empty());
}

TEST_CASE("schedules: a group added later is noticed") {
  const auto optimizer = sgd({0.1});
  StepLR schedule(*optimizer, {.step_size = 1});
  optimizer->add_param_group(groups({0.5})[0]);
  CHECK_THROWS_WITH_AS(schedule.step(), doctest::Contains("has 2 parameter groups, it had 1"),
                       UsageError);
}

TEST_CASE("state: a schedule resumed on another optimizer goes on with the same lr and momentum") {
  const auto first = sgd({0.1, 0.3}), second = sgd({7, 8});
  const SequentialLROptions options{
      .schedules = {LinearLROptions{.start_factor = 0.1, .total_iters = 3},
                    OneCycleLROptions{.max_lr = {0.1, 0.2}, .total_steps = 10}},
      .milestones = {4}};
  SequentialLR schedule(*first, options);
  update(*first);
  for (int i = 0; i < 2; ++i) schedule.step();

  const ScheduleState state = schedule.state();
  CHECK(state.type == "SequentialLR(LinearLR, OneCycleLR)");
  CHECK(state.step == 2);
  CHECK(state.params.at("0.start_factor") == 0.1);
  CHECK(state.params.at("1.max_lr.1") == 0.2);
  CHECK(state.params.at("milestone.0") == 4);
  CHECK(state.params.at("base_lr.1") == 0.3);

  SequentialLROptions others = options;  // what is in the state wins
  others.milestones = {9};
  SequentialLR resumed(*second, others);
  resumed.load_state(state);
  CHECK(resumed.step_count() == 2);
  CHECK(lr_of(*second) == lr_of(*first));
  const Heard heard;
  for (int i = 0; i < 8; ++i) {
    schedule.step();
    resumed.step();
    CHECK(lr_of(*second) == lr_of(*first));
    CHECK(momentum(second->group(1)) == momentum(first->group(1)));
  }
  CHECK(heard.warnings.empty());
}

TEST_CASE("state: every schedule gives back the numbers it was given") {
  const std::function<std::unique_ptr<Schedule>(Optimizer&)> makes[] = {
      step({.step_size = 3, .gamma = 0.5}),
      cosine({.T_max = 4, .eta_min = 0.001}),
      linear({.start_factor = 0.2, .end_factor = 0.9, .total_iters = 7}),
      one_cycle({.max_lr = {0.1, 0.2},
                 .epochs = 2,
                 .steps_per_epoch = 9,
                 .pct_start = 0.2,
                 .anneal_strategy = Anneal::linear,
                 .cycle_momentum = false,
                 .div_factor = 5,
                 .final_div_factor = 50,
                 .three_phase = true}),
      sequential(kWarmUpThenCosine),
      plateau({.mode = PlateauMode::max,
               .factor = 0.5,
               .patience = 2,
               .threshold = 0.01,
               .threshold_mode = ThresholdMode::abs,
               .cooldown = 3,
               .min_lr = {0.1, 0.2},
               .eps = 0})};
  for (const auto& make : makes) {
    const auto optimizer = sgd({0.1, 0.2}), other = sgd({0.5, 0.6});
    const ScheduleState state = make(*optimizer)->state();
    CAPTURE(state.type);
    const auto schedule = make(*other);
    CHECK(schedule->state().params != state.params);
    schedule->load_state(state);
    CHECK(schedule->state().params == state.params);
    CHECK(lr_of(*other) == lr_of(*optimizer));
  }
}

TEST_CASE("state: a plateau half waited for is waited for to its end") {
  const auto first = sgd({0.1}), second = sgd({0.5});
  ReduceLROnPlateau schedule(*first, {.patience = 3, .cooldown = 2});
  ReduceLROnPlateau resumed(*second, {});
  for (std::size_t t = 0; t < std::size(kMetrics); ++t) {
    schedule.step(kMetrics[t]);
    resumed.load_state(schedule.state());
    CHECK(lr_of(*second) == lr_of(*first));
    if (++t == std::size(kMetrics)) break;
    schedule.step(kMetrics[t]);
    resumed.step(kMetrics[t]);
    CHECK(lr_of(*second) == lr_of(*first));
    CHECK(resumed.best() == schedule.best());
  }
}

TEST_CASE("state: one that does not fit is refused, and nothing changes") {
  const auto optimizer = sgd({0.1});
  StepLR schedule(*optimizer, {.step_size = 2});
  const auto refused = [&](const ScheduleState& state, const char* why) {
    CAPTURE(why);
    CHECK_THROWS_WITH_AS(schedule.load_state(state), doctest::Contains(why), UsageError);
    CHECK(schedule.step_count() == 0);
    CHECK(schedule.state().params == StepLR(*optimizer, {.step_size = 2}).state().params);
    CHECK(lr_of(*optimizer) == std::vector<double>{0.1});
  };
  const auto changed = [&](const char* name, double value) {
    ScheduleState state = schedule.state();
    state.step = 5;
    state.params[name] = value;
    return state;
  };
  const auto others = sgd({0.1});
  refused(LinearLR(*others).state(), "that of a LinearLR, this is a StepLR");
  refused(changed("step_size", 0), "step_size must be positive");
  refused(changed("step_size", 1.5), "no whole number");
  const double infinity = std::numeric_limits<double>::infinity();
  for (double wrong : {infinity, -infinity, std::nan(""), -0.5}) {
    refused(changed("gamma", wrong), "gamma must be finite and not negative");
    refused(changed("base_lr.0", wrong), "a base_lr of");
  }
  refused(changed("base_lr.1", 0.1), "have no \"base_lr.1\"");
  ScheduleState state = changed("gamma", 0.5);
  state.params.erase("gamma");
  refused(state, "has no \"gamma\"");
  state = schedule.state();
  state.step = -1;
  refused(state, "negative step");

  const auto two = sgd({0.1, 0.2});
  ReduceLROnPlateau watch(*two);
  ScheduleState watched = watch.state();
  watched.params["mode"] = 2;
  CHECK_THROWS_WITH_AS(watch.load_state(watched), doctest::Contains("neither 0 nor 1"), UsageError);
}
