// What the backend does when CUDA says no, and what it leaves behind.
#include <doctest/doctest.h>

#include <cstdlib>
#include <thread>

#include "streams.h"

#include <tandem/core/array_ops.h>
#include <tandem/core/backend.h>
#include <tandem/core/memory.h>
#include <tandem/core/stream.h>
#include <tandem/parallel/step_report.h>
#include <tandem/tandem.h>

using namespace tandem;
using namespace tandem::test;

namespace {

// A block in the pool's cache, of a size that nobody else uses, and whether it is still there.
struct Cached {
  Cached() { Array::empty({5 << 20}, uint8, cuda(0)); }
  bool gone() const {
    const int before = cudasim::calls("cudaMalloc");
    Array::empty({5 << 20}, uint8, cuda(0));
    return cudasim::calls("cudaMalloc") > before;
  }
};

}  // namespace

TEST_CASE(
    "recovery: memory goes back to CUDA when its work is done even if cudaFree does not wait" *
    doctest::skip()) {
  const UserStream user(cuda(0)), reader(cuda(0));
  const Array b = on(cuda(0), numbers(7000, 3)).to(cuda(1));  // read by the other device's copy
  memory::empty_cache(cuda(0));
  CHECK(b.to_vector<float>() == numbers(7000, 3));
  {
    const StreamGuard guard(cuda(0), user.handle);
    { const Array a = on(cuda(0), numbers(7000, 4)); }
    memory::empty_cache(cuda(0));
  }
  { const Array a = on(cuda(0), numbers(7000, 5)); }
  memory::empty_cache(cuda(0));
  backend(cuda(0)).synchronize();
  CHECK(cudasim::violations() == std::vector<std::string>{});
}

TEST_CASE("recovery: nothing relies on cudaFree to wait") {
  CHECK(passes_alone(
      "recovery: memory goes back to CUDA when its work is done even if cudaFree does not wait",
      "CUDASIM_FREE_WAITS=0"));
}

TEST_CASE("recovery: a block whose wait failed is still waited for by its next user") {
  const UserStream user(cuda(0));
  const StreamGuard guard(cuda(0), user.handle);
  Array b;
  {
    const Array a = on(cuda(0), numbers(9000, 1));
    b = a.to(cuda(1));
  }
  std::thread([] {  // on the device's own stream, which knows nothing of the user's
    cudasim::fail_call("cudaStreamWaitEvent", 1, cudaErrorUnknown);
    CHECK(throws<DeviceError>([] { on(cuda(0), numbers(9000, 2)); }, {"cudaStreamWaitEvent"}));
    CHECK(on(cuda(0), numbers(9000, 3)).to_vector<float>() == numbers(9000, 3));
  })
      .join();
  CHECK(b.to_vector<float>() == numbers(9000, 1));
}

TEST_CASE("recovery: a program that uses one GPU makes no context on another" * doctest::skip()) {
  REQUIRE(device_count(cuda) == 3);
  std::thread([] {  // a thread that nobody has led to a GPU, like the main one
    const Array a = on(cuda(1), numbers(100));
    const Array b = on(cuda(1), numbers(100, 1));
    CHECK(zip<Add>(a, b).to_vector<float>()[1] == 3);
    CHECK(Tensor(on(cpu(0), numbers(9))).pin_memory().to(cuda(1), {.non_blocking = true}).numel() ==
          9);
  })
      .join();
  CHECK(cudasim::contexts() == std::vector<int>{1});
  std::thread([] { memory::empty_cache(cuda(1)); }).join();
  std::thread([] { backend(cuda(1)).synchronize(); }).join();
  std::thread([] { backend(cuda(1)).record_time(); }).join();
  std::thread([] {
    nn::Linear model(3, 2);
    model.to(cuda(1));
    parallel::DataParallel net(model, {.devices = {cuda(1), cuda(2)}});
    optim::SGD optimizer(model.parameters(), {.lr = 0.1});
    mean(net(ones({4, 3}, {.device = cuda(1)}))).backward();
    optimizer.step();
    model.parameters()[0].to_vector<float>();
    CHECK(net.last_step().at(parallel::Phase::forward, 1).seconds >= 0);
  }).join();
  CHECK(cudasim::contexts() == std::vector<int>{1, 2});
  CHECK(cudaSetDevice(0) == cudaSuccess);  // a GPU that the program itself uses is its own again
  on(cuda(1), numbers(100));
  int current = -1;
  CHECK(cudaGetDevice(&current) == cudaSuccess);
  CHECK(current == 0);
}

TEST_CASE("recovery: GPUs that a program does not use are left alone") {
  for (const char* peers : {"0", "1"}) {
    setenv("CUDASIM_PEER_ACCESS", peers, 1);
    CHECK(passes_alone("recovery: a program that uses one GPU makes no context on another",
                       "CUDASIM_DEVICES=3"));
  }
  unsetenv("CUDASIM_PEER_ACCESS");
}

namespace {
std::vector<std::string> warnings;
}  // namespace

TEST_CASE("recovery: a trial of peer access that fails is the last one" * doctest::skip()) {
  REQUIRE(cudasim::config_from_environment().devices == 2);
  set_warning_handler([](const std::string& text) {
    warnings.push_back(text);
    on(cuda(0), numbers(10)).to(cuda(1));  // handlers may use the devices
  });
  cudasim::fail_call("cudaDeviceEnablePeerAccess", 1, cudaErrorUnknown);
  const Array a = on(cuda(0), numbers(1000, 2));
  CHECK(a.to(cuda(1)).to_vector<float>() == numbers(1000, 2));
  const int trials = cudasim::calls("cudaDeviceCanAccessPeer");
  CHECK(a.to(cuda(1)).to_vector<float>() == numbers(1000, 2));
  CHECK(cudasim::calls("cudaDeviceCanAccessPeer") == trials);
  REQUIRE(warnings.size() == 1);
  CHECK(contains(warnings[0], "GPU 0"));
  CHECK(contains(warnings[0], "GPU 1"));
  CHECK(contains(warnings[0], "cudaDeviceEnablePeerAccess"));
}

TEST_CASE("recovery: peer access is tried once, and a person is told why there is none") {
  setenv("CUDASIM_DEVICES", "2", 1);
  CHECK(passes_alone("recovery: a trial of peer access that fails is the last one",
                     "CUDASIM_PEER_ACCESS=1"));
  unsetenv("CUDASIM_DEVICES");
}

namespace {

void convolve() {
  const DeviceScope there(cuda(0));
  conv2d(ones({1, 1, 4, 4}), ones({1, 1, 3, 3})).to_vector<float>();
}
void multiply() {
  const DeviceScope there(cuda(0));
  matmul(ones({40, 40}), ones({40, 40})).to_vector<float>();
}

}  // namespace

TEST_CASE("recovery: handles of libraries are made with the memory that the pool has cached") {
  // Each is its device's first use of the library; this case runs in a process of its own.
  const std::pair<const char*, void (*)()> libraries[] = {{"cublasCreate", multiply},
                                                          {"cudnnCreate", convolve}};
  for (const auto& [create, use] : libraries) {
    CAPTURE(create);
    if (cudasim::calls(create) > 0) continue;  // all cases in one process
    const Cached cached;
    cudasim::fail_call(create, 1, cudaErrorMemoryAllocation);
    use();
    CHECK(cudasim::calls(create) == 2);
    CHECK(cached.gone());
  }
}

TEST_CASE("recovery: pinned memory is asked for again without what is cached") {
  Cached cached;
  cudasim::fail_call("cudaHostAlloc", 1, cudaErrorMemoryAllocation);
  const Tensor big = Tensor(on(cpu(0), numbers(5000000))).pin_memory();
  CHECK(big.is_pinned());
  CHECK(cached.gone());
  CHECK(cudaPeekAtLastError() == cudaSuccess);
}

TEST_CASE("recovery: a copy goes through the buffers there are if there are no more") {
  backend(cuda(0)).synchronize();
  const Array a = on(cuda(0), numbers(1000, 1));  // makes a buffer, busy from now on
  cudasim::fail_call("cudaHostAlloc", 1, cudaErrorUnknown);
  const Array b = on(cuda(0), numbers(1000, 2));
  cudasim::fail_call("cudaHostAlloc", 1 << 30, cudaErrorUnknown);
  CHECK(a.to_vector<float>() == numbers(1000, 1));
  CHECK(b.to_vector<float>() == numbers(1000, 2));
}

TEST_CASE("recovery: figures that a GPU could not tell at first are counted once") {
  parallel::StepReport report({cuda(0)});
  double expected = 0;
  for (int i = 0; i < 3; ++i) {
    parallel::Stopwatch watch(cuda(0));
    on(cuda(0), numbers(100000)).to_vector<float>();
    const parallel::Lap lap = watch.stop();
    report.add(parallel::Phase::forward, 0, lap);
    expected += lap.seconds();
  }
  REQUIRE(expected > 0);
  cudasim::fail_call("cudaEventElapsedTime", 3, cudaErrorUnknown);
  CHECK(throws<DeviceError>([&] { report.settle(); }, {"cudaEventElapsedTime"}));
  report.settle();
  report.settle();
  CHECK(report.at(parallel::Phase::forward, 0).seconds == doctest::Approx(expected).epsilon(1e-9));
}
