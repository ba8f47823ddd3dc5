// The CUDA backend as a device, on the simulator: what exists, memory, its limits and statistics.
#include <doctest/doctest.h>

#include <thread>

#include "runtime/cudasim.h"
#include "tests/support/check.h"

#include <tandem/core/backend.h>
#include <tandem/core/memory.h>

using namespace tandem;
using namespace tandem::test;

namespace {

constexpr std::int64_t kMiB = std::int64_t(1) << 20;

Array bytes(std::int64_t n, Device device) {
  return Array::empty({n}, uint8, device);
}

}  // namespace

TEST_CASE("device: an array goes to the GPU and comes back") {
  const std::vector<float> values = {1, -2, 0.5f, 1e30f};
  const Array a = Array::from_host(values.data(), {4}, float32, cuda(0));
  CHECK(a.device() == cuda(0));
  CHECK(memory::stats(cuda(0)).allocated >= 16);
  CHECK(a.to_vector<float>() == values);
  backend(cuda(0)).synchronize();
  const bool guarded = cudasim::config_from_environment().schedule != cudasim::Schedule::threads;
  const std::string fault = cudasim::catch_fault([&] { (void)*a.data<volatile float>(); });
  CHECK((!guarded || fault != ""));  // the memory is not the host's
  CHECK(cudasim::violations().empty());
}

TEST_CASE("device: the host may change its values as soon as they are on their way") {
  std::vector<std::int64_t> values(3000000, 7);  // several staging buffers
  const Array a = Array::from_host(values.data(), {3000000}, int64, cuda(0));
  values.assign(values.size(), 8);
  bool all = true;
  for (const std::int64_t v : a.to_vector<std::int64_t>()) all = all && v == 7;
  CHECK(all);
}

TEST_CASE("device: there are as many as GPUs times devices per GPU") {
  const int gpus = cudasim::config_from_environment().devices;
  const char* per_gpu = std::getenv("TANDEM_CUDA_DEVICES_PER_GPU");
  CHECK(device_count(cuda) == gpus * (per_gpu ? std::atoi(per_gpu) : 1));
  CHECK(cuda_unavailable_reason() == "");
  CHECK(throws<DeviceError>([] { backend(cuda(63)); }, {"cuda:63", "does not exist"}));
}

TEST_CASE("device: two logical devices on one GPU have memories of their own" * doctest::skip()) {
  CHECK(cudasim::config_from_environment().devices == 1);
  REQUIRE(device_count(cuda) == 2);
  const Array a = bytes(5 * kMiB, cuda(0));
  CHECK(memory::stats(cuda(0)).allocated >= 5 * kMiB);
  CHECK(memory::stats(cuda(1)).allocated == 0);
  memory::set_limit(cuda(1), kMiB);
  CHECK(throws<OutOfMemory>([] { bytes(2 * kMiB, cuda(1)); }, {"cuda:1", "limit 1.0 MiB"}));
  CHECK(bytes(2 * kMiB, cuda(0)).defined());
}

TEST_CASE("device: what one device has cached makes room for another on its GPU" *
          doctest::skip()) {
  REQUIRE(device_count(cuda) == 2);
  const std::int64_t all = std::int64_t(cudasim::config_from_environment().memory);
  { const Array cached = bytes(all * 5 / 8, cuda(0)); }
  const std::int64_t reserved = memory::stats(cuda(0)).reserved;
  CHECK(reserved >= all * 5 / 8);
  memory::set_limit(cuda(1), all / 2);
  CHECK(throws<OutOfMemory>([&] { bytes(all * 3 / 4, cuda(1)); }, {"cuda:1"}));
  CHECK(memory::stats(cuda(0)).reserved == reserved);  // not for a limit
  memory::set_limit(cuda(1), 0);
  const Array held = bytes(all * 3 / 4, cuda(1));
  CHECK(memory::stats(cuda(0)).reserved == 0);
  CHECK(throws<OutOfMemory>([&] { bytes(all / 2, cuda(0)); }, {"cuda:0"}));
  CHECK(held.numel() == all * 3 / 4);
}

TEST_CASE("device: a GPU takes two logical devices if the environment says so") {
  setenv("CUDASIM_DEVICES", "1", 1);
  CHECK(passes_alone("device: two logical devices on one GPU have memories of their own",
                     "TANDEM_CUDA_DEVICES_PER_GPU=2"));
  CHECK(passes_alone("device: what one device has cached makes room for another on its GPU",
                     "TANDEM_CUDA_DEVICES_PER_GPU=2"));
  unsetenv("CUDASIM_DEVICES");
}

TEST_CASE("memory: a freed block is used again without asking CUDA") {
  const int before = cudasim::calls("cudaMalloc");
  const void* first = nullptr;
  {
    const Array a = bytes(777777, cuda(0));
    first = a.data();
  }
  CHECK(bytes(777777, cuda(0)).data() == first);
  CHECK(cudasim::calls("cudaMalloc") - before <= 1);
}

TEST_CASE(
    "memory: a GPU that is full gives back what the pool has cached, then reports the figures") {
  const std::int64_t all = std::int64_t(cudasim::config_from_environment().memory);
  memory::empty_cache(cuda(0));
  { const Array cached = bytes(all * 5 / 8, cuda(0)); }
  CHECK(bytes(all * 3 / 4, cuda(0)).defined());  // only fits without the cache
  const CategoryScope scope(Category::parameter);
  const Array held = bytes(all / 2, cuda(0));
  try {
    bytes(all * 3 / 4, cuda(0));
    FAIL("nothing was thrown");
  } catch (const OutOfMemory& e) {
    CHECK(e.device == cuda(0));
    CHECK(e.asked == all * 3 / 4);
    CHECK(e.stats.of(Category::parameter) >= all / 2);
  }
  CHECK(held.numel() == all / 2);
  CHECK(cudaPeekAtLastError() == cudaSuccess);  // the next launch would report it
  memory::empty_cache(cuda(0));
}

TEST_CASE("memory: an allocation that fails for another reason is no lack of memory") {
  memory::empty_cache(cuda(0));
  const std::int64_t before = bytes_in_use(cuda(0));
  cudasim::fail_call("cudaMalloc", 1, cudaErrorUnknown);
  CHECK(throws<DeviceError>([] { bytes(1000, cuda(0)); }, {"cudaMalloc", "cuda:0"}));
  CHECK(bytes_in_use(cuda(0)) == before);
  CHECK(bytes(1000, cuda(0)).defined());
}

TEST_CASE("memory: arrays may die on another thread") {
  const std::int64_t before = bytes_in_use(cuda(0));
  auto a = std::make_unique<Array>(bytes(1000, cuda(0)));
  std::thread([&] { a.reset(); }).join();
  CHECK(bytes_in_use(cuda(0)) == before);
}

TEST_CASE("memory: shutdown_devices gives all cached memory back to CUDA") {
  const auto device_memory = [] {
    int n = 0;
    for (const std::string& leak : cudasim::leaks()) n += contains(leak, "cudaMalloc #");
    return n;
  };
  shutdown_devices();
  const int before = device_memory();
  { const Array a = bytes(12345, cuda(0)); }
  CHECK(device_memory() == before + 1);
  shutdown_devices();
  CHECK(device_memory() == before);
}
