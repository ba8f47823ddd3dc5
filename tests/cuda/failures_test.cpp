// Every call of CUDA that fails, one after the other: an exception of ours, nothing lost, and the
// device works on.
#include <doctest/doctest.h>

#include <cstdio>
#include <map>
#include <optional>
#include <sstream>

#include "runtime/cudasim.h"
#include "tests/cuda/steps.h"

#include <tandem/core/array_ops.h>

using namespace tandem;
using namespace tandem::test;

namespace {

constexpr int kNever = 1 << 30;

// What a failure must not leave behind: bytes in use, memory, streams, handles and descriptors, by
// kind. Pinned memory and events are kept for reuse, so they are counted apart: kept().
using Held = std::map<std::string, std::int64_t>;

Held everything() {
  shutdown_devices();  // what is cached is not lost
  Held counts;
  for (const Device d : all_devices(cuda)) counts["bytes in use"] += bytes_in_use(d);
  for (const std::string& what : cudasim::leaks()) ++counts[what.substr(0, what.find(" #"))];
  return counts;
}

Held held() {
  Held counts = everything();
  counts.erase("event"), counts.erase("cudaMallocHost");
  return counts;
}

std::int64_t kept() {
  Held counts = everything();
  return counts["event"] + counts["cudaMallocHost"];
}

// What the simulator saw that a correct program does not do.
std::string reports() {
  std::string all;
  for (const std::string& report : cudasim::violations()) all += report + "\n";
  return all;
}

// Destroying things fails like anything else, and is never an exception; but what was to be
// destroyed is then lost.
bool destroys(const std::string& function) {
  return function.starts_with("cudaFree") || function.find("Destroy") != std::string::npos;
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

// Fails the n-th call of `function` in `work`, n = 1, 2, ..., until there are no more, and gives
// how many that were. Whether or not the failure was survived, the next work is what it would have
// been.
template <class Work>
int sweep(const std::string& function, cudaError_t error, const Work& work) {
  const auto expected = work();
  const Held before = held();
  for (int n = 1; n < 100000; ++n) {
    CAPTURE(n);
    shutdown_devices();  // or nothing would be allocated
    const int calls = cudasim::calls(function);
    cudasim::fail_call(function, n, error);
    try {
      CHECK(work() == expected);
    } catch (const Error& e) {
      CHECK(std::string(e.what()).starts_with("["));
    }
    cudasim::fail_call(function, kNever, error);
    if (cudasim::calls(function) - calls < n) return n - 1;
    if (!destroys(function)) REQUIRE(held() == before);
    REQUIRE(work() == expected);
    REQUIRE(reports() == "");
  }
  return -1;
}

}  // namespace

TEST_CASE("failures: any call in copies that fails is an exception, and the next copies work") {
  copy_around();
  for (const std::string& function : cudasim::functions_called()) {
    CAPTURE(function);
    sweep(function, cudaErrorUnknown, copy_around);
  }
  CHECK(reports() == "");
}

TEST_CASE("failures: any call in a step that fails is an exception, and the engine trains on") {
  const DeviceScope on_first(cuda(0));
  Mlp model;
  const std::vector<Tensor> start = nn::clone(model).parameters();
  parallel::DataParallel net(model, {.devices = {cuda(0), cuda(1)}});
  std::optional<optim::Adam> optimizer;
  const Tensor x = random_tensor({5, 6}, 1, float32, cuda(0));
  const auto begin = [&] {
    const NoGrad no_grad;
    std::vector<Tensor> parameters = model.parameters();
    for (std::size_t i = 0; i < start.size(); ++i) parameters[i].copy_(start[i]);
    optimizer.emplace(parameters, optim::AdamOptions{.lr = 0.01});
  };
  const auto step = [&] {
    optimizer->zero_grad();
    const Tensor y = net(x);
    mean(y * y).backward();
    optimizer->step();
    return doubles(model.parameters()[0]);
  };
  const auto at_rest = [&] {
    optimizer->zero_grad();
    optimizer.reset();
    return held();
  };
  begin();
  const auto expected = step();
  const Held before = at_rest();
  const std::int64_t kept_before = kept();
  for (int n = 1; n < 100000; ++n) {
    CAPTURE(n);
    begin();
    const int calls = cudasim::calls_of_any();
    cudasim::fail_any_call(n, cudaErrorUnknown);
    try {
      CHECK(step() == expected);
    } catch (const Error& e) {
      CHECK(std::string(e.what()).starts_with("["));
    }
    cudasim::fail_any_call(kNever, cudaErrorUnknown);
    const bool reached = cudasim::calls_of_any() - calls >= n;
    REQUIRE(at_rest() == before);
    begin();
    REQUIRE(step() == expected);
    REQUIRE(at_rest() == before);
    REQUIRE(reports() == "");
    if (!reached) break;
  }
  CHECK(kept() <= kept_before + 8);  // a leak would be one for each n
  CHECK(reports() == "");
}

namespace {

std::vector<std::vector<double>> trainings() {
  auto all = train<Mlp>(gpus(2), {5, 6}, 2);
  const auto cnn = train<Cnn>(gpus(2), {3, 2, 6, 6}, 1);
  all.insert(all.end(), cnn.begin(), cnn.end());
  return all;
}

// Fails the n-th call of `function` in the first training of a process: "failed" or "survived", and
// then what two more trainings gave and left behind. n = 0: none fails.
std::string first_training(const std::string& function, int n) {
  std::ostringstream said;
  if (n > 0) cudasim::fail_call(function, n, cudaErrorUnknown);
  try {
    trainings();
    said << "survived\n";
  } catch (const Error& e) {
    said << (std::string(e.what()).starts_with("[") ? "failed\n" : e.what());
  }
  cudasim::fail_call(function, kNever, cudaErrorUnknown);
  for (int i = 0; i < 2; ++i) {
    for (const auto& values : trainings()) {
      for (const double v : values) said << std::hexfloat << v << " ";
    }
  }
  for (const auto& [what, count] : held()) said << "\n" << what << ": " << count;
  for (const std::string& violation : cudasim::violations()) said << "\n" << violation;
  return said.str();
}

// "function calls" of those that only the first training of a process calls.
std::string called_once() {
  std::map<std::string, int> before;
  trainings();
  for (const std::string& function : cudasim::functions_called()) {
    before[function] = cudasim::calls(function);
  }
  shutdown_devices();
  trainings();
  std::ostringstream said;
  for (const auto& [function, calls] : before) {
    if (cudasim::calls(function) == calls) said << function << " " << calls << "\n";
  }
  return said.str();
}

std::string rest(const std::string& said) {
  return said.substr(std::min(said.size(), said.find('\n')));
}

}  // namespace

// From making the nets to their last destructor; minutes, so sweep.sh runs these two.
TEST_CASE("failures: each call that only a first training makes" * doctest::skip()) {
  std::istringstream functions(in_child(called_once));
  const std::string expected = rest(in_child([] { return first_training("", 0); }));
  CHECK(contains(expected, "bytes in use: 0"));
  std::string function;
  int calls = 0;
  while (functions >> function >> calls) {
    if (function == "cudaGetDeviceCount") continue;  // then there is no GPU
    CAPTURE(function);
    int failed = 0;
    for (int n = 1; n <= calls; ++n) {
      CAPTURE(n);
      const std::string said = in_child([&] { return first_training(function, n); });
      failed += said.starts_with("failed");
      CHECK((said.starts_with("failed") || said.starts_with("survived")));
      CHECK((rest(said) == expected || destroys(function)));
    }
    std::printf("%s: %d calls, %d exceptions\n", function.c_str(), calls, failed);
  }
}

TEST_CASE("failures: the n-th call of every function in a training" * doctest::skip()) {
  trainings();
  const std::int64_t kept_before = kept();
  int all = 0;
  for (const std::string& function : cudasim::functions_called()) {
    CAPTURE(function);
    const bool allocates = function.starts_with("cudaMalloc");
    const int calls =
        sweep(function, allocates ? cudaErrorMemoryAllocation : cudaErrorUnknown, trainings);
    if (calls > 0) std::printf("%s: %d calls\n", function.c_str(), calls);
    std::fflush(stdout);
    all += calls;
  }
  std::printf("%d calls in all\n", all);
  CHECK(kept() <= kept_before + 8);
  CHECK(reports() == "");
}
