// The pool of a logical device and its statistics: core/memory.h. Each case has a device of its
// own, so that nothing else is counted.
#include <doctest/doctest.h>

#include <atomic>
#include <thread>

#include "tests/support/check.h"

#include <tandem/core/array.h>
#include <tandem/core/array_ops.h>
#include <tandem/core/memory.h>
#include <tandem/core/thread_state.h>

using namespace tandem;
using namespace tandem::test;

namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kCaches = false;
#else
constexpr bool kCaches = true;
#endif

Array bytes(std::int64_t n, Device device) {
  return Array::empty({n}, uint8, device);
}

}  // namespace

TEST_CASE("memory: allocated counts what is in use, rounded up to at most a quarter more") {
  const Device d = cpu(20);
  for (std::int64_t n : {1, 63, 64, 65, 100, 1000, 1024, 1025, 5000, 65536, 65537, 1000000}) {
    CAPTURE(n);
    const Array a = bytes(n, d);
    const std::int64_t in_use = memory::stats(d).allocated;
    CHECK(in_use >= n);
    CHECK(in_use <= std::max<std::int64_t>(n + n / 4 + 64, 64));
  }
  CHECK(memory::stats(d).allocated == 0);
}

TEST_CASE("memory: blocks of every size are apart and aligned to 64 bytes") {
  std::vector<Array> held;
  for (std::int64_t n = 0; n < 3000; n += 37) {
    held.push_back(Array::full({n}, 7, uint8, cpu(21)));
    CHECK(reinterpret_cast<std::uintptr_t>(held.back().data()) % 64 == 0);
  }
  for (std::size_t i = 0; i < held.size(); i += 2) fill(held[i], 9);
  for (std::size_t i = 1; i < held.size(); i += 2) {
    for (double v : doubles(held[i])) REQUIRE(v == 7);
  }
}

TEST_CASE("memory: a scope decides the category, and scopes nest") {
  const Device d = cpu(22);
  const Array activation = bytes(64, d);
  Array parameter, gradient;
  {
    const CategoryScope outer(Category::parameter);
    parameter = bytes(128, d);
    {
      const CategoryScope inner(Category::gradient);
      gradient = bytes(192, d);
    }
    CHECK(thread_state().category == Category::parameter);
  }
  const MemoryStats s = memory::stats(d);
  CHECK(s.of(Category::activation) == 64);
  CHECK(s.of(Category::parameter) == 128);
  CHECK(s.of(Category::gradient) == 192);
  CHECK(s.allocated == 64 + 128 + 192);
  gradient = {};
  CHECK(memory::stats(d).of(Category::gradient) == 0);
  CHECK(memory::stats(d).peak_of(Category::gradient) == 192);
}

TEST_CASE("memory: a block is freed under the category it was allocated with") {
  const Device d = cpu(23);
  Array a;
  {
    const CategoryScope scope(Category::staging);
    a = bytes(64, d);
  }
  const CategoryScope other(Category::output);
  a = {};
  const MemoryStats s = memory::stats(d);
  CHECK(s.of(Category::staging) == 0);
  CHECK(s.of(Category::output) == 0);
}

TEST_CASE("memory: relabel moves bytes between categories") {
  const Device d = cpu(24);
  Array a = bytes(64, d);
  a.storage()->relabel(Category::optimizer);
  CHECK(memory::stats(d).of(Category::activation) == 0);
  CHECK(memory::stats(d).of(Category::optimizer) == 64);
  CHECK(memory::stats(d).allocated == 64);
  CHECK(memory::stats(d).peak_allocated == 64);
  a = {};
  CHECK(memory::stats(d).of(Category::optimizer) == 0);
  CHECK(memory::stats(d).allocated == 0);
}

TEST_CASE("memory: a slice of a block has the block's category and cannot be relabelled") {
  const Array a = bytes(256, cpu(24));
  const Array part = a.carve(64, {16}, float32);
  CHECK(part.storage()->category() == Category::activation);
  CHECK(throws<UsageError>([&] { part.storage()->relabel(Category::output); }, {"slice"}));
}

TEST_CASE("memory: peaks stay until they are reset to what is in use") {
  const Device d = cpu(25);
  const Array small = bytes(64, d);
  { const Array big = bytes(1 << 20, d); }
  CHECK(memory::stats(d).peak_allocated == (1 << 20) + 64);
  CHECK(memory::stats(d).allocated == 64);
  memory::reset_peak(d);
  CHECK(memory::stats(d).peak_allocated == 64);
  CHECK(memory::stats(d).peak_of(Category::activation) == 64);
  CHECK(memory::stats(d).peak_reserved == memory::stats(d).reserved);
}

TEST_CASE("memory: a freed block is used again without asking the system") {
  if (!kCaches) return;  // under AddressSanitizer nothing is cached: see the next case
  const Device d = cpu(26);
  { const Array a = bytes(1000, d); }
  const MemoryStats before = memory::stats(d);
  for (int i = 0; i < 100; ++i) const Array a = bytes(900, d);  // of the same size class
  const MemoryStats after = memory::stats(d);
  CHECK(after.allocation_count == before.allocation_count + 100);
  CHECK(after.system_allocation_count == before.system_allocation_count);
  CHECK(after.reserved == before.reserved);
}

TEST_CASE("memory: reserved falls to what is in use with empty_cache, at once under ASan") {
  const Device d = cpu(27);
  const Array kept = bytes(64, d);
  { const Array a = bytes(5000, d), b = bytes(70000, d); }
  const std::int64_t cached = memory::stats(d).reserved - memory::stats(d).allocated;
  CHECK((cached > 0) == kCaches);
  memory::empty_cache(d);
  CHECK(memory::stats(d).reserved == memory::stats(d).allocated);
  CHECK(memory::stats(d).allocated == 64);
  const Array again = bytes(5000, d);
  CHECK(again.defined());
}

TEST_CASE("memory: over the limit OutOfMemory has the numbers a person needs") {
  const Device d = cpu(28);
  memory::set_limit(d, 4 << 20);
  const Array held = bytes(2 << 20, d);
  try {
    bytes(3 << 20, d);
    FAIL("no error");
  } catch (const OutOfMemory& e) {
    CHECK(e.device == d);
    CHECK(e.asked == 3 << 20);
    CHECK(e.limit == 4 << 20);
    CHECK(e.stats.allocated == 2 << 20);
    const std::string text = e.what();
    for (const char* part : {"cpu:28", "asked for 3145728 bytes", "in use 2.0 MiB",
                             "activation 2.0 MiB", "reserved", "free", "limit 4.0 MiB"}) {
      CHECK(contains(text, part));
    }
  }
  CHECK(memory::stats(d).allocated == 2 << 20);  // nothing is lost
  memory::set_limit(d, 0);
  CHECK(bytes(3 << 20, d).defined());
}

TEST_CASE("memory: the cache is given up before OutOfMemory is thrown") {
  const Device d = cpu(29);
  memory::set_limit(d, 1 << 20);
  { const Array a = bytes(600 << 10, d); }
  CHECK(bytes(900 << 10, d).defined());
  CHECK(memory::stats(d).reserved <= 1 << 20);
  memory::set_limit(d, 0);
  CHECK(throws<UsageError>([&] { memory::set_limit(d, -1); }));
}

TEST_CASE("memory: sizes that no machine has, also where the product overflows, are OutOfMemory") {
  CHECK(throws<OutOfMemory>([] { Array::empty({std::int64_t(1) << 60}, float32, cpu(0)); }));
  const std::int64_t big = std::int64_t(1) << 32;
  CHECK(throws<OutOfMemory>([&] { Array::empty({big, big}, uint8, cpu(0)); }));
  CHECK(throws<OutOfMemory>([&] { Array::empty({big, big, big}, float64, cpu(0)); }));
  CHECK(Array::empty({big, big, 0}, float64, cpu(0)).numel() == 0);
  CHECK(throws<UsageError>([] { Array::empty({2, -1}, float32, cpu(0)); }, {"(2, -1)"}));
}

TEST_CASE("memory: a block may be freed on another thread") {
  const Device d = cpu(30);
  Array a = bytes(1000, d);
  std::thread([moved = std::move(a)]() mutable { moved = {}; }).join();
  CHECK(memory::stats(d).allocated == 0);
}

TEST_CASE("memory: many threads that allocate and free lose no byte") {
  const Device d = cpu(31);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::vector<Array> held(8);
      for (std::int64_t i = 0; i < 2000; ++i) {
        const double mark = double((i + t) % 200);
        Array a =
            bytes(1 + std::int64_t(hash_uniform(std::uint64_t(t), std::uint64_t(i)) * 5000), d);
        a.fresh_data()[0] = std::byte(mark);
        Array& slot = held[std::size_t(i % 8)];
        if (slot.defined() && i >= 8) {
          wrong += double(std::to_integer<int>(slot.data()[0])) != double((i - 8 + t) % 200);
        }
        slot = std::move(a);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  CHECK(wrong == 0);
  CHECK(memory::stats(d).allocated == 0);
  for (int c = 0; c < kCategories; ++c) CHECK(memory::stats(d).of(Category(c)) == 0);
}

TEST_CASE("memory: devices do not see each other's bytes") {
  const std::int64_t before = memory::stats(cpu(32)).allocated;
  const Array a = bytes(1 << 16, cpu(33));
  CHECK(memory::stats(cpu(32)).allocated == before);
  CHECK(memory::stats(cpu(33)).allocated == 1 << 16);
}

TEST_CASE("memory: an array without elements is defined and costs at most one block") {
  const Array a = Array::empty({0}, float32, cpu(34));
  CHECK(a.defined());
  CHECK(memory::stats(cpu(34)).allocated <= 64);
}

TEST_CASE("memory: the line shows what each device holds and the most it held") {
  const Device a = cpu(37), b = cpu(38);
  memory::reset_peak(a);
  {
    const Array held = Array::empty({1 << 19}, DType::float32, a);  // 2 MiB
    Array::empty({3 << 18}, DType::float32, a);                     // 3 MiB, gone again
    CHECK(memory::line({a, b}) == "cpu:37 2.0 MiB (peak 5.0) | cpu:38 0.0 MiB (peak 0.0)");
  }
  CHECK(memory::line({a}) == "cpu:37 0.0 MiB (peak 5.0)");
  CHECK(memory::line({}) == "");
}

TEST_CASE("memory: the table has a line per device and a column per category in use") {
  const Device d = cpu(35);
  const CategoryScope scope(Category::optimizer);
  const Array a = bytes(1 << 20, d);
  const std::string table = memory::table({d, cpu(36)});
  CHECK(contains(table, "cpu:35"));
  CHECK(contains(table, "cpu:36"));
  CHECK(contains(table, "optimizer"));
  CHECK(contains(table, "1.000"));
  CHECK(!contains(table, "staging"));
  CHECK(contains(memory::table({d}, true), "peak"));
}
