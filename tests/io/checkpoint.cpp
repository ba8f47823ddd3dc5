// save and load of modules: round trips, ties, DataParallel, and errors that change nothing.
#include <doctest/doctest.h>

#include <string>

#include <tandem/core/ops/factories.h>
#include <tandem/core/ops/reduce.h>
#include <tandem/io/checkpoint.h>
#include <tandem/parallel/data_parallel.h>

#include "tests/nn/nets.h"
#include "tests/support/check.h"
#include "tests/support/temporary_file.h"

using namespace tandem;
using namespace tandem::test;

#ifdef TANDEM_JSON
namespace {

/// Are all values of both modules the same bits?
Verdict same_state(nn::Module& a, nn::Module& b) {
  const nn::StateDict from = a.state_dict(), to = b.state_dict();
  if (from.size() != to.size()) return {false, "different names"};
  for (const auto& [name, t] : from) {
    if (!to.contains(name)) return {false, "no " + name};
    if (const Verdict verdict = bits_equal(t, to.at(name)); !verdict) return verdict;
  }
  return {};
}

}  // namespace

TEST_CASE("load: a saved module gives the same bits in another of its kind, in place") {
  const TemporaryFolder folder;
  const std::string path = folder.file("net.safetensors");
  Net from, to;
  const Tensor handle = to.fc1.weight;
  save(from, path, {{"epoch", "3"}});
  CHECK(folder.size() == 1);
  const nn::LoadReport report = load(to, path);
  CHECK(report.missing.empty());
  CHECK(report.unexpected.empty());
  CHECK(same_state(from, to));
  CHECK(bits_equal(handle, from.fc1.weight));
  CHECK(handle.requires_grad());
  CHECK(io::load_metadata(path) == io::Metadata{{"epoch", "3"}});
}

TEST_CASE("load: the module keeps its device and dtype, whatever the file was made of") {
  const TemporaryFolder folder;
  const std::string path = folder.file("net.safetensors");
  Net from, to;
  from.to(float64);
  from.to(dev(2));
  to.to(dev(1));
  save(from, path);
  CHECK(io::load_state_dict(path).at("mean").dtype() == float64);
  load(to, path);
  CHECK(to.mean.device() == dev(1));
  CHECK(to.mean.dtype() == float32);
  CHECK(close(to.fc2.weight, from.fc2.weight, {0, 0}));  // float32 to float64 and back is exact
}

TEST_CASE("load: tied weights stay tied, from a file with both names or with one") {
  const TemporaryFolder folder;
  const std::string path = folder.file("tied.safetensors");
  Tied from, to;
  save(from, path);
  CHECK(io::load_state_dict(path).size() == 2);
  load(to, path);
  CHECK(to.out.weight.array().same_as(to.in.weight.array()));
  CHECK(bits_equal(to.out.weight, from.in.weight));

  // As Python's safetensors.torch.save_model writes it.
  Tied other;
  io::save({{"in.weight", from.in.weight}}, path);
  CHECK(load(other, path).missing.empty());
  CHECK(other.out.weight.array().same_as(other.in.weight.array()));
  CHECK(bits_equal(other.out.weight, from.in.weight));
}

TEST_CASE("load: one error names the file and lists all that does not fit; nothing changes") {
  const TemporaryFolder folder;
  const std::string path = folder.file("net.safetensors");
  Net from, to, before;
  nn::StateDict state = from.state_dict();
  state.erase("fc1.weight");
  state["extra"] = zeros({1});
  state["fc2.weight"] = zeros({4, 2});
  io::save(state, path);
  before.load_state_dict(to.state_dict());
  CHECK(throws<UsageError>([&] { load(to, path); },
                           {"[load]", path.c_str(), "missing: fc1.weight", "unexpected: extra",
                            "fc2.weight ((4, 2) in the state, (2, 4) in the module)"}));
  CHECK(same_state(to, before));

  state.erase("fc2.weight");
  io::save(state, path);
  const nn::LoadReport report = load(to, path, {.strict = false});
  CHECK(report.missing == std::vector<std::string>{"fc1.weight", "fc2.weight"});
  CHECK(report.unexpected == std::vector<std::string>{"extra"});
  CHECK(bits_equal(to.fc1.bias, from.fc1.bias));
}

TEST_CASE("load: a module. before all names is accepted") {
  const TemporaryFolder folder;
  const std::string path = folder.file("net.safetensors");
  Net from, to;
  nn::StateDict wrapped;
  for (const auto& [name, t] : from.state_dict()) wrapped["module." + name] = t;
  io::save(wrapped, path);
  load(to, path);
  CHECK(same_state(from, to));
}

TEST_CASE("save and load: a DataParallel net by its module; replicas follow what was loaded") {
  const TemporaryFolder folder;
  const std::string path = folder.file("net.safetensors");
  Net single, wrapped;
  parallel::DataParallel net(wrapped, {.devices = devs(2)});
  const Tensor x = random_tensor({5, 3}, 1);
  net(x);  // the replicas have the old weights now
  save(single, path);
  load(net.module(), path);
  CHECK(close(net(x), single(x)));

  save(net.module(), folder.file("again.safetensors"));
  CHECK(file_bytes(folder.file("again.safetensors")) == file_bytes(path));
}

TEST_CASE("save: a failure leaves the older file") {
  const TemporaryFolder folder;
  const std::string path = folder.file("net.safetensors");
  Net net;
  save(net, path);
  const std::string before = file_bytes(path);
  CHECK(throws<UsageError>([&] { io::save({{"x", Tensor()}}, path); }, {"undefined"}));
  CHECK(file_bytes(path) == before);
  CHECK(folder.size() == 1);
}
#endif
