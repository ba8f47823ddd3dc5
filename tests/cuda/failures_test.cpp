// Every call of CUDA that fails, one after the other: an exception of ours, nothing lost, and the
// device works on.
#include <doctest/doctest.h>

#include <set>

#include "runtime/cudasim.h"
#include "tests/support/check.h"

#include <tandem/core/array_ops.h>
#include <tandem/tandem.h>

using namespace tandem;
using namespace tandem::test;

namespace {

// Memory of all devices, pinned memory apart: what is cached is not lost.
std::int64_t in_use() {
  std::int64_t sum = 0;
  for (const Device d : all_devices(cuda)) sum += bytes_in_use(d);
  return sum;
}

std::vector<float> copy_around() {
  std::vector<float> values(70000, 1.5f);  // two sizes of staging buffers
  const Array a = Array::from_host(values.data(), {70000}, float32, cuda(0));
  const Array b = a.narrow(0, 0, 100).to(cuda(1));
  const Array c = a.to(cuda(1)).to(cuda(0));
  std::vector<float> all = c.to_vector<float>();
  const std::vector<float> few = b.to_vector<float>();
  all.insert(all.end(), few.begin(), few.end());
  return all;
}

constexpr int kNever = 1 << 30;

// Fails the n-th call of `function` in `work`, n = 1, 2, ..., until there are no more.
template <class Work>
void sweep(const std::string& function, const Work& work) {
  const auto expected = work();
  const std::int64_t before = in_use();
  for (int n = 1; n < 1000; ++n) {
    CAPTURE(n);
    shutdown_devices();  // or nothing would be allocated
    const int calls = cudasim::calls(function);
    cudasim::fail_call(function, n, cudaErrorUnknown);
    try {
      CHECK(work() == expected);  // some failures may be survived
    } catch (const Error& e) {
      CHECK(std::string(e.what()).starts_with("["));
    }
    cudasim::fail_call(function, kNever, cudaErrorUnknown);
    CHECK(in_use() == before);
    CHECK(work() == expected);
    if (cudasim::calls(function) - calls < n) break;
  }
}

}  // namespace

TEST_CASE("failures: any call in copies that fails is an exception, and the next copies work") {
  copy_around();
  const std::set<std::string> hopeless = {"cudaFree", "cudaFreeHost"};  // the memory is lost
  for (const std::string& function : cudasim::functions_called()) {
    if (hopeless.count(function)) continue;
    CAPTURE(function);
    sweep(function, copy_around);
  }
  CHECK(cudasim::violations() == std::vector<std::string>{});
}

namespace {

struct Mlp : nn::Layer {
  nn::Linear a{3, 4}, b{4, 2};
  Tensor forward(const Tensor& x) override { return b(relu(a(x))); }
  void visit(nn::Visitor& v) override { v("a", a), v("b", b); }
};

}  // namespace

TEST_CASE("failures: any call in a step that fails is an exception, and the engine trains on") {
  const DeviceScope on_first(cuda(0));
  Mlp model;
  parallel::DataParallel net(model, {.devices = {cuda(0), cuda(1)}});
  optim::Adam optimizer(model.parameters(), {.lr = 0.01});
  const Tensor x = random_tensor({5, 3}, 1, float32, cuda(0));
  const auto step = [&] {
    optimizer.zero_grad();
    const Tensor y = net(x);
    mean(y * y).backward();
    optimizer.step();
    return doubles(model.parameters()[0]);
  };
  const auto at_rest = [&] {
    optimizer.zero_grad();
    return in_use();
  };
  step(), step();
  const std::int64_t before = at_rest();
  for (int n = 1; n < 100000; ++n) {
    CAPTURE(n);
    const int calls = cudasim::calls_of_any();
    cudasim::fail_any_call(n, cudaErrorUnknown);
    try {
      step();
    } catch (const Error& e) {
      CHECK(std::string(e.what()).starts_with("["));
    }
    cudasim::fail_any_call(kNever, cudaErrorUnknown);
    const bool reached = cudasim::calls_of_any() - calls >= n;
    CHECK(at_rest() == before);
    for (const double p : step()) REQUIRE(p == p);
    CHECK(at_rest() == before);
    if (!reached) break;
  }
  CHECK(cudasim::violations() == std::vector<std::string>{});
}
