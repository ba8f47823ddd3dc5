// state_dict and load_state_dict: names, sharing, round trips, and errors that change nothing.
#include <doctest/doctest.h>

#include <tandem/core/thread_state.h>
#include <tandem/nn/module.h>

#include "tests/nn/nets.h"
#include "tests/support/check.h"

using namespace tandem;
using namespace tandem::test;

namespace {

std::vector<std::string> keys(const nn::StateDict& state) {
  std::vector<std::string> list;
  for (const auto& [name, t] : state) list.push_back(name);
  return list;
}

using Names = std::vector<std::string>;

/// All values of the module, one after the other.
std::vector<double> all_values(nn::Module& m) {
  std::vector<double> values;
  for (const auto& [name, t] : m.state_dict()) {
    for (const double x : doubles(t)) values.push_back(x);
  }
  return values;
}

}  // namespace

TEST_CASE("state_dict: names parameters and buffers, shares memory, carries no history") {
  Net net;
  const nn::StateDict state = net.state_dict();
  CHECK(keys(state) == Names{"fc1.bias", "fc1.weight", "fc2.bias", "fc2.weight", "mean"});
  CHECK(state.at("fc1.weight").array().same_as(net.fc1.weight.array()));
  CHECK(!state.at("fc1.weight").requires_grad());
}

TEST_CASE("state_dict: a tied weight is listed under each of its names") {
  Tied net;
  CHECK(keys(net.state_dict()) == Names{"in.weight", "out.weight"});
}

TEST_CASE("state_dict: two tensors of one name are refused") {
  struct Twice : nn::Module {
    Tensor a = zeros({1}), b = zeros({1});
    void visit(nn::Visitor& v) override {
      v("w", a);
      v("w", b);
    }
  } m;
  CHECK(throws<UsageError>([&] { m.state_dict(); }, {"[state_dict]", "w"}));
}

TEST_CASE("load_state_dict: a round trip gives the same bits, in place") {
  Net from, to;
  const Tensor handle = to.fc1.weight;
  const Array value = handle.array();
  const std::uint64_t version = handle.version();
  const nn::LoadReport report = to.load_state_dict(from.state_dict());
  CHECK(report.missing.empty());
  CHECK(report.unexpected.empty());
  CHECK(bits_equal(handle, from.fc1.weight));
  CHECK(handle.array().same_as(value));
  CHECK(handle.version() > version);
  CHECK(handle.requires_grad());
  CHECK(all_values(to) == all_values(from));
}

TEST_CASE("load_state_dict: loading a module's own state changes nothing") {
  Net net;
  const std::vector<double> before = all_values(net);
  net.load_state_dict(net.state_dict());
  CHECK(all_values(net) == before);
}

TEST_CASE("load_state_dict: the module keeps its device and dtype") {
  Net from, to;
  from.to(dev(2));
  from.to(float64);
  to.load_state_dict(from.state_dict());
  CHECK(to.fc1.weight.device() == dev(0));
  CHECK(to.fc1.weight.dtype() == float32);
  CHECK(all_values(to) == all_values(from));
}

TEST_CASE("load_state_dict: a leading module. of all names is accepted") {
  Net from, to;
  nn::StateDict wrapped;
  for (const auto& [name, t] : from.state_dict()) wrapped["module." + name] = t;
  to.load_state_dict(wrapped);
  CHECK(all_values(to) == all_values(from));
}

TEST_CASE("load_state_dict: module. on some names only is not taken off") {
  Net net;
  nn::StateDict state = net.state_dict();
  state["module.mean"] = state["mean"];
  state.erase("mean");
  CHECK(throws<UsageError>([&] { net.load_state_dict(state); },
                           {"missing: mean", "unexpected: module.mean"}));
}

TEST_CASE("load_state_dict: a module whose child is called module keeps its names") {
  struct Wrapper : nn::Module {
    nn::Linear module{2, 2};
    void visit(nn::Visitor& v) override { v("module", module); }
  } from, to;
  to.load_state_dict(from.state_dict());
  CHECK(bits_equal(to.module.weight, from.module.weight));
}

TEST_CASE("load_state_dict: one error lists all that does not fit, and nothing changes") {
  Net from, to;
  nn::StateDict state = from.state_dict();
  state.erase("fc1.weight");
  state.erase("mean");
  state["extra"] = zeros({1});
  state["fc2.weight"] = zeros({4, 2});
  state["fc2.bias"] = Tensor();
  const std::vector<double> before = all_values(to);
  CHECK(throws<UsageError>([&] { to.load_state_dict(state); },
                           {"[load_state_dict]", "missing: fc1.weight, mean", "unexpected: extra",
                            "fc2.bias (undefined in the state)",
                            "fc2.weight ((4, 2) in the state, (2, 4) in the module)"}));
  CHECK(all_values(to) == before);
}

TEST_CASE("load_state_dict: not strict reports what is missing and loads the rest") {
  Net from, to;
  nn::StateDict state = from.state_dict();
  state.erase("mean");
  state["extra"] = zeros({1});
  const nn::LoadReport report = to.load_state_dict(state, {.strict = false});
  CHECK(report.missing == Names{"mean"});
  CHECK(report.unexpected == Names{"extra"});
  CHECK(bits_equal(to.fc1.weight, from.fc1.weight));
  state["fc1.weight"] = zeros({1});
  CHECK(throws<UsageError>([&] { to.load_state_dict(state, {.strict = false}); },
                           {"fc1.weight ((1,)"}));
}
