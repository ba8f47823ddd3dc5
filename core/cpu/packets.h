// Eigen for one-dimensional blocks: what vectorises exp, log, tanh and erf. Private to core/cpu.
#pragma once

#define EIGEN_DONT_PARALLELIZE
#include <Eigen/Core>
#include <cstdint>
#include <limits>
#include <unsupported/Eigen/SpecialFunctions>

namespace tandem::host {

template <class C>
using Block = Eigen::Map<Eigen::Array<C, Eigen::Dynamic, 1>>;
template <class C>
using ConstBlock = Eigen::Map<const Eigen::Array<C, Eigen::Dynamic, 1>>;

/// out = exp(in), which may be the same memory. Eigen's own stops at the smallest normal number,
/// but a masked score (-inf) has to give exactly 0.
template <class C>
void exp(std::int64_t n, const C* in, C* out) {
  constexpr std::int64_t kChunk = 256;
  const C lowest = std::log(std::numeric_limits<C>::min());
  C value[kChunk];
  for (std::int64_t start = 0; start < n; start += kChunk) {
    const std::int64_t m = std::min(kChunk, n - start);
    Block<C>(value, m) = ConstBlock<C>(in + start, m).exp();
#pragma GCC ivdep
    for (std::int64_t i = 0; i < m; ++i) {
      out[start + i] = in[start + i] < lowest ? C(0) : value[i];
    }
  }
}

}  // namespace tandem::host
