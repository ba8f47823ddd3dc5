// Copies between devices, and memory in stream order. Every case runs on each topology of
// CMakeLists.txt: GPUs with and without peer access, logical devices on one GPU, two on each of
// two.
#include <doctest/doctest.h>

#include <cuda_runtime_api.h>

#include <functional>
#include <thread>

#include "runtime/cudasim.h"
#include "tests/support/check.h"

#include <tandem/core/array_ops.h>
#include <tandem/core/backend.h>
#include <tandem/core/memory.h>
#include <tandem/core/stream.h>

using namespace tandem;
using namespace tandem::test;

namespace {

std::vector<float> numbers(std::int64_t n, float first = 0) {
  std::vector<float> v(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = first + float(i % 1000);
  return v;
}

Array on(Device device, const std::vector<float>& values) {
  return Array::from_host(values.data(), {std::int64_t(values.size())}, float32, device);
}

// A stream of the GPU that `device` is on.
struct UserStream {
  cudaStream_t handle = nullptr;
  explicit UserStream(Device device) {
    const int gpu = device.index % cudasim::config_from_environment().devices;
    REQUIRE(cudaSetDevice(gpu) == cudaSuccess);
    REQUIRE(cudaStreamCreateWithFlags(&handle, cudaStreamNonBlocking) == cudaSuccess);
    REQUIRE(cudaSetDevice(0) == cudaSuccess);
  }
  ~UserStream() {
    (void)cudaStreamSynchronize(handle);
    (void)cudaStreamDestroy(handle);
  }
};

}  // namespace

TEST_CASE("copies: every device to every other, also through the CPU") {
  const std::vector<float> values = numbers(2500);
  const std::vector<Device> devices = all_devices(cuda);
  for (const Device from : devices) {
    const Array a = on(from, values);
    for (const Device to : devices) {
      CAPTURE(from);
      CAPTURE(to);
      CHECK(a.to(to).to_vector<float>() == values);
      CHECK(a.to(cpu(1)).to(to).to_vector<float>() == values);
    }
  }
}

TEST_CASE("copies: more than a staging buffer between devices") {
  const std::vector<float> values = numbers(2200000);  // 8.8 MB
  const Array a = on(cuda(0), values).to(cuda(1));
  CHECK(a.to_vector<float>() == values);
}

TEST_CASE("copies: a source that is overwritten at once arrives as it was") {
  for (int i = 0; i < 3; ++i) {
    Array a = on(cuda(0), numbers(5000, float(i)));
    const Array b = a.to(cuda(1));
    const std::vector<float> other = numbers(5000, 77);
    backend(cuda(0)).copy_from_host(a.mutable_data(), other.data(), a.nbytes());
    CHECK(b.to_vector<float>() == numbers(5000, float(i)));
    CHECK(a.to_vector<float>() == other);
  }
}

TEST_CASE("copies: a source that dies at once arrives, though its memory is used again") {
  std::vector<Array> arrived;
  for (int i = 0; i < 4; ++i) arrived.push_back(on(cuda(0), numbers(5000, float(i))).to(cuda(1)));
  for (int i = 0; i < 4; ++i) {
    CHECK(arrived[std::size_t(i)].to_vector<float>() == numbers(5000, float(i)));
  }
}

TEST_CASE("copies: a source that dies and goes back to CUDA arrives") {
  const Array b = on(cuda(0), numbers(7000, 3)).to(cuda(1));
  memory::empty_cache(cuda(0));
  CHECK(b.to_vector<float>() == numbers(7000, 3));
}

TEST_CASE("copies: there and back on several threads at a time") {
  std::vector<std::thread> threads;
  std::vector<int> good(4);
  const int n = device_count(cuda);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t, n, &good] {
      for (int i = 0; i < 5; ++i) {
        const std::vector<float> values = numbers(3000, float(10 * t + i));
        const Array there = on(cuda(t % n), values).to(cuda((t + 1) % n));
        good[std::size_t(t)] += there.to(cuda(t % n)).to_vector<float>() == values;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  CHECK(good == std::vector<int>{5, 5, 5, 5});
}

TEST_CASE("streams: work under a guard is ordered after the device's, and the device's after it") {
  const UserStream user(cuda(0));
  Array a = on(cuda(0), numbers(4000, 1));
  Array b;
  {
    const StreamGuard guard(cuda(0), user.handle);
    CHECK(backend(cuda(0)).current_stream().handle == user.handle);
    CHECK(a.to_vector<float>() == numbers(4000, 1));  // waits for the user's stream alone
    b = a.to(cuda(1)).to(cuda(0));                    // read and written there
    const std::vector<float> other = numbers(4000, 2);
    backend(cuda(0)).copy_from_host(a.mutable_data(), other.data(), a.nbytes());
  }
  CHECK(backend(cuda(0)).current_stream().handle != user.handle);
  CHECK(a.to_vector<float>() == numbers(4000, 2));
  CHECK(b.to_vector<float>() == numbers(4000, 1));
}

TEST_CASE(
    "streams: memory that is freed under a guard is not used before the guard's work is done") {
  const UserStream user(cuda(0));
  for (int i = 0; i < 3; ++i) {
    Array b;
    {
      const StreamGuard guard(cuda(0), user.handle);
      const Array a = on(cuda(0), numbers(9000, float(i)));
      b = a.to(cuda(1));
    }  // a's block is in the cache; its copy may not have begun
    const Array c = on(cuda(0), numbers(9000, 50));
    CHECK(b.to_vector<float>() == numbers(9000, float(i)));
    CHECK(c.to_vector<float>() == numbers(9000, 50));
  }
}

namespace {

// A block of cuda:0 that this thread's stream fills and then reads into `pinned`; it is free when
// this returns, and nothing of it may have run.
void use_and_free(const std::vector<float>& values, void* pinned) {
  const Array a = on(cuda(0), values);
  auto* stream = static_cast<cudaStream_t>(backend(cuda(0)).current_stream().handle);
  (void)cudaMemcpyAsync(pinned, a.data(), std::size_t(a.nbytes()), cudaMemcpyDeviceToHost, stream);
}

void on_another_thread(const std::function<void()>& work) {
  std::thread([&] { work(); }).join();
}

}  // namespace

TEST_CASE("streams: a thread with a guard and one without use each other's memory in order") {
  const UserStream user(cuda(0));
  void* pinned = nullptr;
  REQUIRE(cudaMallocHost(&pinned, 36000) == cudaSuccess);
  const auto* got = static_cast<const float*>(pinned);
  const StreamGuard guard(cuda(0), user.handle);
  for (int i = 0; i < 3; ++i) {
    Array next;
    use_and_free(numbers(9000, float(i)), pinned);  // on the user's stream
    on_another_thread([&] {
      next = on(cuda(0), numbers(9000, 50));
      CHECK(next.to_vector<float>() ==
            numbers(9000, 50));  // has waited for the device's stream alone
    });
    REQUIRE(cudaStreamSynchronize(user.handle) == cudaSuccess);
    CHECK(std::vector<float>(got, got + 9000) == numbers(9000, float(i)));
    CHECK(next.to_vector<float>() == numbers(9000, 50));

    next = Array();
    on_another_thread([&] { use_and_free(numbers(9000, float(10 + i)), pinned); });
    next = on(cuda(0), numbers(9000, 60));
    CHECK(next.to_vector<float>() == numbers(9000, 60));
    backend(cuda(0)).synchronize();
    CHECK(std::vector<float>(got, got + 9000) == numbers(9000, float(10 + i)));
    CHECK(next.to_vector<float>() == numbers(9000, 60));
  }
  CHECK(cudaFreeHost(pinned) == cudaSuccess);
}

TEST_CASE("streams: record_use keeps memory until another stream has read it") {
  const UserStream user(cuda(0));
  Backend& device = backend(cuda(0));
  void* pinned = nullptr;
  REQUIRE(cudaMallocHost(&pinned, 36000) == cudaSuccess);
  for (int i = 0; i < 3; ++i) {
    {
      const Array a = on(cuda(0), numbers(9000, float(i)));
      const Stream reader{cuda(0), user.handle};
      device.wait(reader, device.record(device.current_stream()));
      REQUIRE(cudaMemcpyAsync(pinned, a.data(), 36000, cudaMemcpyDeviceToHost, user.handle) ==
              cudaSuccess);
      device.record_use(*a.storage(), reader);
    }
    const Array again = on(cuda(0), numbers(9000, 50));
    device.synchronize();
    REQUIRE(cudaStreamSynchronize(user.handle) == cudaSuccess);
    const auto* got = static_cast<const float*>(pinned);
    CHECK(std::vector<float>(got, got + 9000) == numbers(9000, float(i)));
    CHECK(again.to_vector<float>() == numbers(9000, 50));
  }
  CHECK(cudaFreeHost(pinned) == cudaSuccess);
}

TEST_CASE("streams: a guard needs a stream") {
  CHECK(throws<UsageError>([] { StreamGuard(cuda(0), nullptr); }, {"StreamGuard", "cuda:0"}));
  int on_the_cpu = 0;  // where there is nothing to guard
  const StreamGuard nothing(cpu(0), &on_the_cpu);
}
