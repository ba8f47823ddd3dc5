// Streams of the program's own, and memory in stream order. Every case runs on each topology of
// CMakeLists.txt.
#include <doctest/doctest.h>

#include <cuda_runtime_api.h>

#include <atomic>
#include <functional>
#include <memory>
#include <thread>

#include "streams.h"

#include <tandem/core/array_ops.h>
#include <tandem/core/backend.h>
#include <tandem/core/memory.h>
#include <tandem/core/stream.h>
#include <tandem/parallel/worker_group.h>

using namespace tandem;
using namespace tandem::test;

namespace {

void write(Array& a, const std::vector<float>& values) {
  backend(a.device()).copy_from_host(a.mutable_data(), values.data(), a.nbytes());
}

void* current(Device device) {
  return backend(device).current_stream().handle;
}

}  // namespace

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

TEST_CASE("streams: the inner of two guards comes after the outer's work, and the outer's after") {
  const UserStream first(cuda(0)), second(cuda(0));
  Array a = on(cuda(0), numbers(4000, 1));
  {
    const StreamGuard outer(cuda(0), first.handle);
    write(a, numbers(4000, 2));
    {
      const StreamGuard inner(cuda(0), second.handle);
      CHECK(current(cuda(0)) == second.handle);
      CHECK(a.to_vector<float>() == numbers(4000, 2));
      write(a, numbers(4000, 3));
    }
    CHECK(current(cuda(0)) == first.handle);
    CHECK(a.to_vector<float>() == numbers(4000, 3));
    { const StreamGuard inner(cuda(0), second.handle), again(cuda(0), second.handle); }
    { const StreamGuard inner(cuda(0), second.handle), back(cuda(0), first.handle); }
    write(a, numbers(4000, 4));
    const StreamGuard inner(cuda(0), second.handle);
    write(a, numbers(4000, 5));
  }
  CHECK(a.to_vector<float>() == numbers(4000, 5));
}

TEST_CASE("streams: a guard of one device leaves the guards of the others alone") {
  const UserStream first(cuda(0)), second(cuda(1));
  void* const own = current(cuda(1));
  Array a = on(cuda(0), numbers(4000, 1));
  {
    const StreamGuard outer(cuda(0), first.handle);
    {
      const StreamGuard inner(cuda(1), second.handle);
      CHECK(current(cuda(0)) == first.handle);
      CHECK(current(cuda(1)) == second.handle);
      write(a, numbers(4000, 2));
      parallel::WorkerGroup({cuda(0), cuda(1)}).run(std::vector<int>{0, 1}, [&](int rank) {
        CHECK(current(cuda(rank)) == (rank == 0 ? first.handle : second.handle));
        if (rank == 1) CHECK(a.to(cuda(1)).to_vector<float>() == numbers(4000, 2));
      });
    }
    CHECK(current(cuda(0)) == first.handle);
    CHECK(current(cuda(1)) == own);
  }
  CHECK(a.to_vector<float>() == numbers(4000, 2));
}

TEST_CASE(
    "streams: a stream may be destroyed as soon as its guard has ended, whoever frees memory") {
  const UserStream mine(cuda(0));
  std::vector<std::unique_ptr<StreamGuard>> guards;  // many: all of them are looked at, in turn
  for (int i = 0; i < 20; ++i) {
    guards.push_back(std::make_unique<StreamGuard>(cuda(0), mine.handle));
  }
  // There a stream is a thread, and a thousand of them take minutes.
  const bool threads = cudasim::config_from_environment().schedule == cudasim::Schedule::threads;
  const int rounds = threads ? 30 : 2000;
  std::atomic<int> left{3};
  std::vector<std::thread> others;
  for (int t = left; t > 0; --t) {
    others.emplace_back([&] {
      for (int i = 0; i < rounds; ++i) {
        const UserStream user(cuda(0));
        const StreamGuard guard(cuda(0), user.handle);
      }
      --left;
    });
  }
  while (left > 0) {
    for (int i = 0; i < 10; ++i) Array::empty({100}, float32, cuda(0));
    backend(cuda(0)).synchronize();
  }
  for (std::thread& t : others) t.join();
  while (!guards.empty()) guards.pop_back();
  CHECK(cudasim::violations() == std::vector<std::string>{});
}
