// The log of accesses, which joins bytes that were always accessed together, against logs of single
// bytes.
#include "ptx/access_log.h"

#include <doctest/doctest.h>

#include <random>

using namespace cudasim::ptx;

namespace {

constexpr std::size_t kBytes = 2 * LogPage::kBytes;

struct Someone {
  std::uint64_t tag, first_epoch;
};

// A thread of a block of 64; `now` is the epoch, and blocks last for three.
Someone someone(std::mt19937& random, std::uint64_t now) {
  return {tag::make(now, random() % 2, random() % 64), now - now % 3};
}

template <std::size_t kSize, Access access>
bool races_in(AccessLog& log, std::size_t at, const Someone& me) {
  std::uint64_t rival = 0;
  const Logs logs = log.at<kSize>(at);
  for (std::size_t k = 0; k < logs.count; ++k)
    rival |= logs.first[k].record<access>(me.tag, me.first_epoch);
  return rival != 0;
}

template <std::size_t kSize, Access access>
bool races_in(std::vector<ByteLog>& bytes, std::size_t at, const Someone& me) {
  std::uint64_t rival = 0;
  for (std::size_t k = 0; k < kSize; ++k)
    rival |= bytes[at + k].record<access>(me.tag, me.first_epoch);
  return rival != 0;
}

template <std::size_t kSize, class Log>
bool races(Log& log, Access access, std::size_t at, const Someone& me) {
  at = at / kSize * kSize;
  if (access == Access::Read) return races_in<kSize, Access::Read>(log, at, me);
  if (access == Access::Write) return races_in<kSize, Access::Write>(log, at, me);
  return races_in<kSize, Access::Atomic>(log, at, me);
}

template <class Log>
bool races(Log& log, int size, Access access, std::size_t at, const Someone& me) {
  switch (size) {
    case 1:
      return races<1>(log, access, at, me);
    case 2:
      return races<2>(log, access, at, me);
    case 4:
      return races<4>(log, access, at, me);
    case 8:
      return races<8>(log, access, at, me);
    default:
      return races<16>(log, access, at, me);
  }
}

// Random accesses of the given sizes, few of them outside the first 64 bytes of a page.
void compare(const std::vector<int>& sizes, unsigned seed) {
  std::mt19937 random(seed);
  AccessLog log(kBytes);
  std::vector<ByteLog> bytes(kBytes, ByteLog{});
  int found = 0;
  for (std::uint64_t step = 0; step < 4000; ++step) {
    const Someone me = someone(random, 3 + step / 16);
    const int size = sizes[random() % sizes.size()];
    const auto access = static_cast<Access>(random() % 3);
    const std::size_t at = random() % 8 ? random() % 64 : random() % kBytes;
    const bool expected = races(bytes, size, access, at, me);
    found += expected;
    REQUIRE(races(log, size, access, at, me) == expected);
  }
  CHECK(found > 100);
  CHECK(found < 3900);
}

}  // namespace

TEST_CASE("access log: accesses of all sizes race where single bytes do") {
  compare({4}, 1);
  compare({4, 8, 16}, 2);
  compare({2, 4, 8}, 3);
  compare({1}, 4);
  compare({1, 2, 4, 8, 16}, 5);
  compare({16, 16, 16, 16, 16, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 1}, 6);  // split late
}

TEST_CASE("access log: neighbours in a word do not race, and a split forgets nothing") {
  AccessLog log(64);
  const Someone one{tag::make(1, 0, 0), 1}, other{tag::make(1, 0, 40), 1};
  CHECK(!races<1>(log, Access::Write, 0, one));
  CHECK(!races<1>(log, Access::Write, 1, other));
  CHECK(races<1>(log, Access::Write, 1, one));
  AccessLog words(64);
  CHECK(!races<4>(words, Access::Write, 4, one));
  CHECK(!races<1>(words, Access::Write, 8, other));
  for (std::size_t at : {4, 5, 6, 7}) CHECK(races<1>(words, Access::Read, at, other));
  CHECK(!races<1>(words, Access::Read, 3, other));
}

TEST_CASE("access log: empty when cleared, and with pages that another log has used") {
  const Someone one{tag::make(1, 0, 0), 1}, other{tag::make(1, 0, 40), 1};
  const auto nobody_was_here = [](AccessLog& log, const Someone& me) {
    for (std::size_t at = 0; at < LogPage::kBytes; ++at)
      REQUIRE(!races<1>(log, Access::Write, at, me));
  };
  for (int round = 0; round < 2; ++round) {
    AccessLog log(LogPage::kBytes);
    nobody_was_here(log, one);
    log.clear();
    nobody_was_here(log, other);
  }
}
