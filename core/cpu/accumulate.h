// How many numbers are added up (or compared): in lanes, and blocks into blocks of blocks.
//
// Each of 32 lanes takes every 32nd number of a block, so the compiler uses vector instructions
// and no sum gets long; the sums of blocks are then carried up like the digits of a counter. So the
// error grows with the logarithm of the length, and the order depends on the length only: not on
// where the numbers lie.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include <tandem/core/cpu/traverse.h>
#include <tandem/core/reduce_rules.h>

namespace tandem::host {

/// Sums of sums; V is a number or a row of numbers. Add to lowest(), then carry(), and so on.
template <class V, class Combine>
class Counter {
 public:
  Counter(const V& zero, Combine combine) : combine_(combine), zero_(zero) { levels_.fill(zero); }

  V& lowest() { return levels_[0]; }
  void carry() {
    std::int64_t n = ++count_;
    for (std::size_t level = 0; level + 1 < kLevels && n % kCarry == 0; ++level, n /= kCarry) {
      combine_(levels_[level + 1], levels_[level]);
      levels_[level] = zero_;
    }
  }
  V total() const {
    V sum = zero_;
    for (const V& level : levels_) combine_(sum, level);
    return sum;
  }

 private:
  static constexpr std::size_t kLevels = 6;
  static constexpr std::int64_t kCarry = 32;  // values of a level before they carry

  Combine combine_;
  std::array<V, kLevels> levels_;
  V zero_;
  std::int64_t count_ = 0;
};

template <class F, int kLanes, class C>
[[gnu::noinline]] C reduce_lanes(const C* p, std::int64_t n) {
  C lanes[kLanes];
  for (C& lane : lanes) lane = F::template identity<C>();
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int j = 0; j < kLanes; ++j) lanes[j] = F::combine(lanes[j], F::load(p[i + j]));
  }
  for (int j = 0; i < n; ++i, ++j) lanes[j] = F::combine(lanes[j], F::load(p[i]));
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int j = 0; j < width; ++j) lanes[j] = F::combine(lanes[j], lanes[j + width]);
  }
  return lanes[0];
}

/// One contiguous block of at most kBlock numbers.
template <class F, class C>
C reduce_block(const C* p, std::int64_t n) {
  return n < 64 ? reduce_lanes<F, 4>(p, n) : reduce_lanes<F, 32>(p, n);
}

/// Any number of contiguous numbers.
template <class F, class C>
C reduce_run(const C* p, std::int64_t n) {
  if (n <= kBlock) return reduce_block<F>(p, n);
  const auto combine = [](C& sum, const C& value) { sum = F::combine(sum, value); };
  Counter<C, decltype(combine)> counter(F::template identity<C>(), combine);
  for (std::int64_t i = 0; i < n; i += kBlock) {
    combine(counter.lowest(), reduce_block<F>(p + i, std::min(kBlock, n - i)));
    counter.carry();
  }
  return counter.total();
}

}  // namespace tandem::host
