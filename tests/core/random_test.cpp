// The generator against numbers drawn with PyTorch 1.13.1 (CPU). Everything is compared bit by bit,
// except float32 normals of 16 and more: PyTorch takes their logarithm, sine and cosine from a
// vectorised library that differs from ours in the last bit (2.4e-7 at most for values below 4).
#include <doctest/doctest.h>

#include <cmath>
#include <set>

#include "tests/support/check.h"

#include <tandem/core/ops/factories.h>
#include <tandem/core/random.h>
#include <tandem/core/thread_state.h>

using namespace tandem;
using namespace tandem::test;

namespace {

using Ints = std::vector<std::int64_t>;
using Floats = std::vector<float>;
using Doubles = std::vector<double>;

constexpr Tolerance kVectorised{0, 2.5e-7};

Floats floats(const Tensor& t) {
  return t.to_vector<float>();
}
Ints ints(const Tensor& t) {
  return t.to_vector<std::int64_t>();
}
Tensor seeded(std::uint64_t seed, auto draw) {
  manual_seed(seed);
  return draw();
}

// sum over i of (i + 1) values[i]: a draw that is wrong or out of place shows.
double weighted(const std::vector<double>& values) {
  double total = 0;
  for (std::size_t i = 0; i < values.size(); ++i) total += double(i + 1) * values[i];
  return total;
}

}  // namespace

TEST_CASE("rand: PyTorch's numbers") {
  CHECK(floats(seeded(0, [] { return rand({4}); })) ==
        Floats{.49625659f, .76822180f, .08847743f, .13203049f});
  CHECK(floats(seeded(42, [] {
          return rand({2, 2});
        })) == Floats{.88226926f, .91500396f, .38286376f, .95930564f});
}

TEST_CASE("rand: float64 takes 53 bits of two draws; only 32 bits of a seed count") {
  const Doubles expected{0.279380429906404, 0.27369371365176565, 0.8620929614176255,
                         0.6566884305882014, 0.9225293674529872};
  auto draw = [] { return rand({5}, {.dtype = float64}); };
  CHECK(seeded((1ull << 40) + 7, draw).to_vector<double>() == expected);
  CHECK(seeded(7, draw).to_vector<double>() == expected);
  CHECK(seeded(8, draw).to_vector<double>() != expected);
}

TEST_CASE("rand: 16-bit floats take their low bits, and never reach 1") {
  CHECK(doubles(seeded(0, [] { return rand({5}, {.dtype = float16}); })) ==
        Doubles{0.333984375, 0.27294921875, 0.80712890625, 0.59375, 0.40771484375});
  CHECK(doubles(seeded(0, [] { return rand({5}, {.dtype = bfloat16}); })) ==
        Doubles{0.671875, 0.18359375, 0.45703125, 0.75, 0.26171875});
}

TEST_CASE("randn: below 16 elements, Box-Muller in double") {
  CHECK(floats(seeded(42, [] { return randn({15}); })) ==
        Floats{0.33669037f, 0.1288094f, 0.23446237f, 0.23033303f, -1.1228564f, -0.18632829f,
               2.2082014f, -0.63799703f, 0.46165723f, 0.26735088f, 0.53490466f, 0.8093572f,
               1.1102903f, -1.689799f, -0.9889599f});
}

TEST_CASE("randn: the spare normal is kept for the next call, and not by uniform draws") {
  manual_seed(3);
  CHECK(floats(randn({3})) == Floats{0.80327606f, 0.17483339f, 0.0889781f});
  CHECK(floats(randn({3})) == Floats{-0.61371803f, 0.04618245f, -1.3682592f});
  CHECK(floats(rand({2})) == Floats{0.14984089f, 0.4014688f});
}

TEST_CASE("randn: from 16 elements on, blocks of 16, the last one drawn again") {
  CHECK(close(seeded(1, [] { return randn({16}); }),
              {-1.5255959, -0.7502318, -0.6539809, -1.6094848, -0.10016718, -0.6091889, -0.97977227,
               -1.6090963, -0.7121446, 0.303722, -0.7773143, -0.25145525, -0.22227049, 1.6871134,
               0.22842517, 0.4676355},
              kVectorised));
  CHECK(close(seeded(1, [] { return randn({17}); }),
              {-1.5255959, -1.1607615, 0.6995424, 0.19908163, 0.8656924, 0.2444039, -0.66291136,
               0.80730826, 0.43914157, -0.17593604, -2.2455578, -1.446458, 0.061155282, -0.61774445,
               -0.79806983, -0.13162321, -0.7984398},
              kVectorised));
  CHECK(seeded(7, [] { return randn({19}, {.dtype = float64}); }).to_vector<double>() ==
        Doubles{0.06626753966449943, 0.04699155524392409, 1.8365386300294015, 1.6932749764073567,
                1.457454937932726, 1.932214860010293, -1.4418139927522924, 0.7277603478716976,
                -1.3131496578292892, -0.3280001761367003, -1.3521685881505834, -2.6909171061771864,
                1.7421050311620636, -0.523961020712386, -0.28387899021947915, 0.45257550210102954,
                -1.6677291342328766, -1.5870322969308357, 2.03026332869622});
}

TEST_CASE("randint: PyTorch's numbers, also for ranges beyond 32 bits") {
  CHECK(ints(seeded(0, [] { return randint(0, 10, {8}); })) == Ints{4, 9, 3, 0, 3, 9, 7, 3});
  CHECK(ints(seeded(9, [] { return randint(-3, 11, {12}); })) ==
        Ints{1, 9, 9, 8, 1, 7, 0, 7, 10, 4, 3, -3});
  CHECK(ints(seeded(9, [] { return randint(-(1ll << 40), 1ll << 45, {5}); })) ==
        Ints{7139800994140, 9339402650101, 12876344350776, 35164255425430, 11532044407361});
  CHECK(throws<UsageError>([] { randint(3, 3, {2}); }, {"[randint]", "[3, 3)"}));
}

TEST_CASE("randperm: PyTorch's numbers, one call after the other") {
  CHECK(ints(seeded(0, [] { return randperm(10); })) == Ints{4, 1, 7, 5, 3, 9, 0, 8, 6, 2});
  CHECK(ints(seeded(1, [] { return randperm(10); })) == Ints{5, 6, 1, 2, 0, 8, 9, 3, 7, 4});
  manual_seed(9);
  CHECK(ints(randperm(0)).empty());
  CHECK(ints(randperm(1)) == Ints{0});  // draws nothing
  CHECK(ints(randperm(2)) == Ints{0, 1});
  CHECK(ints(randperm(5)) == Ints{3, 0, 4, 1, 2});
  CHECK(ints(randperm(17)) == Ints{9, 12, 15, 16, 3, 11, 10, 8, 14, 5, 2, 0, 4, 1, 7, 13, 6});
}

TEST_CASE("generator: uniform with bounds, normal with mean and deviation") {
  Generator g(5);
  Floats f(6);
  g.uniform(f, -0.3, 0.7);
  CHECK(f == Floats{0.53025186f, -0.1738891f, 0.6074697f, 0.519927f, 0.6201034f, -0.1833548f});
  g.manual_seed(5);
  Doubles d(4);
  g.uniform(d, -0.3, 0.7);
  CHECK(d == Doubles{0.3420150066280941, -0.04024208482368469, 0.060827619427154256,
                     0.015132608149050542});
  g.manual_seed(5);
  f.resize(5);
  g.normal(f, 2, 0.5);
  CHECK(f == Floats{1.7566097f, 1.6980892f, 1.7209519f, 2.3337622f, 1.9012924f});
}

TEST_CASE("generator: first int64, and draws beyond one block of MT19937") {
  Generator g(0);
  CHECK(g.random_int64() == 900450186894289455);
  g.manual_seed(11);
  Floats f(702);
  g.uniform(f, 0, 1);
  CHECK(f[700] == 0.68525964f);
  CHECK(f[701] == 0.187724f);
}

TEST_CASE("random factories: every size from 1 to 40 agrees with PyTorch") {
  struct Sums {
    std::uint64_t seed;
    double normal32, normal64, permutation, integers, uniform;
  };
  const Sums golden[] = {
      {0, 164.05125892534852, -1049.6691825696187, 166386, 5753390, 5297.231894373894},
      {1, 834.4309944212437, 1613.9015249744516, 169036, 5484898, 5910.606269955635},
      {(1ull << 40) + 7, 27.30154374614358, 1397.881713068887, 164141, 6294914, 6327.117639660835}};
  for (const Sums& expected : golden) {
    Sums sums{expected.seed, 0, 0, 0, 0, 0};
    for (int n = 1; n <= 40; ++n) {
      auto add = [&](double& sum, auto draw) {
        sum += weighted(doubles(seeded(expected.seed, draw)));
      };
      add(sums.normal32, [n] { return randn({n}); });
      add(sums.normal64, [n] { return randn({n}, {.dtype = float64}); });
      add(sums.permutation, [n] { return randperm(n); });
      add(sums.integers, [n] { return randint(1000, {n}); });
      add(sums.uniform, [n] { return rand({n}); });
    }
    INFO("seed ", expected.seed);
    CHECK(sums.permutation == expected.permutation);
    CHECK(sums.integers == expected.integers);
    CHECK(sums.uniform ==
          doctest::Approx(expected.uniform).epsilon(1e-14));     // exact values, summed
    CHECK(std::fabs(sums.normal64 - expected.normal64) < 1e-9);  // 820 terms up to 160, 1e-14 each
    // 820 terms, weights up to 40, errors of 2.4e-7 at most and of either sign
    CHECK(std::fabs(sums.normal32 - expected.normal32) < 1e-3);
  }
}

TEST_CASE("generator: a restored state continues the same stream, the spare normal included") {
  Generator g(12);
  Floats a(3), b(40), c(40);
  g.normal(a, 0, 1);
  const Generator::State state = g.state();
  g.normal(std::span(b).first(5), 0, 1);
  g.uniform(std::span(b).subspan(5), 0, 1);
  Generator other(99);
  other.set_state(state);
  other.normal(std::span(c).first(5), 0, 1);
  other.uniform(std::span(c).subspan(5), 0, 1);
  CHECK(b == c);
  CHECK(other.initial_seed() == 12);
  Generator::State bad = state;
  bad.next = 625;
  CHECK(throws<UsageError>([&] { g.set_state(bad); }, {"[set_state]", "625"}));
}

TEST_CASE("random factories: the device does not matter, float types only for real numbers") {
  const Tensor here = seeded(4, [] { return randn({20}); });
  const Tensor there = seeded(4, [] { return randn({20}, {.device = dev(1)}); });
  CHECK(there.device() == dev(1));
  CHECK(bits_equal(here, there));
  CHECK(throws<UsageError>([] { rand({2}, {.dtype = int64}); }, {"[rand]", "int64", "randint"}));
  CHECK(throws<UsageError>([] { randn({-2}); }, {"negative", "(-2,)"}));
  CHECK(throws<UsageError>([] { randperm(-1); }, {"[randperm]", "-1"}));
}

TEST_CASE("random factories: a replica has a stream of its own and leaves the generator alone") {
  const int group = 0;
  auto in_replica = [&](int rank, std::uint32_t calls) {
    const ThreadState before = thread_state();
    thread_state().replica = {&group, rank, 2, 0, 4};
    thread_state().random_calls = calls;
    std::vector<Tensor> drawn{rand({50}), randn({50}), randint(1000, {50}), randperm(50)};
    CHECK(thread_state().random_calls == calls + 4);
    thread_state() = before;
    return drawn;
  };
  manual_seed(0);
  const auto a = in_replica(0, 0), again = in_replica(0, 0);
  const auto other_rank = in_replica(1, 0), other_call = in_replica(0, 9);
  CHECK(floats(rand({1})) == Floats{.49625659f});  // the first draw of seed 0
  manual_seed(1);
  const auto other_seed = in_replica(0, 0);
  for (std::size_t i = 0; i < a.size(); ++i) {
    CHECK(bits_equal(a[i], again[i]));
    CHECK(!bits_equal(a[i], other_rank[i]));
    CHECK(!bits_equal(a[i], other_call[i]));
    CHECK(!bits_equal(a[i], other_seed[i]));
  }
  const Ints order = ints(a[3]);
  CHECK(std::set<std::int64_t>(order.begin(), order.end()).size() == 50);
}

TEST_CASE("philox: the published test vectors") {
  // Random123's kat_vectors for philox4x32-10
  auto equals = [](Philox4 a, std::array<std::uint32_t, 4> b) {
    return std::equal(b.begin(), b.end(), a.v);
  };
  CHECK(equals(philox(0, 0, 0, 0, 0, 0), {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const std::uint32_t f = 0xffffffff;
  CHECK(equals(philox(f, f, f, f, f, f), {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  CHECK(equals(philox(0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0),
               {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}
