// Copies between devices. Every case runs on each topology of CMakeLists.txt: GPUs with and without
// peer access, logical devices on one GPU, two on each of two.
#include <doctest/doctest.h>

#include <thread>

#include "streams.h"

#include <tandem/core/array_ops.h>
#include <tandem/core/backend.h>
#include <tandem/core/memory.h>

using namespace tandem;
using namespace tandem::test;

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
