// Reduce rules: how many values become one, written once.
//
// A reduction starts from identity() and takes in each value with combine(accumulator, load(x)). As
// in functors.h, the same struct runs in every backend and the list at the end is the op codes.
// No Eigen and no CUDA header here or in anything this file includes.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include <tandem/core/functors.h>

namespace tandem {

struct SumRule {
  template <class T>
  TANDEM_HD static T identity() {
    return T(0);
  }
  template <class T>
  TANDEM_HD static T load(T x) {
    return x;
  }
  template <class T>
  TANDEM_HD static T combine(T a, T b) {
    return a + b;
  }
};

struct SumOfSquaresRule : SumRule {
  template <class T>
  TANDEM_HD static T load(T x) {
    return x * x;
  }
};

// Max and Min: NaN wins. An empty reduction is refused before it gets here.
struct MaxRule {
  template <class T>
  TANDEM_HD static T identity() {
    if constexpr (std::is_floating_point_v<T>) {
      return T(-HUGE_VALF);
    } else {
      return T(std::int64_t(1) << 63);
    }
  }
  template <class T>
  TANDEM_HD static T load(T x) {
    return x;
  }
  template <class T>
  TANDEM_HD static T combine(T a, T b) {
    return Maximum::forward(a, b);
  }
};

struct MinRule {
  template <class T>
  TANDEM_HD static T identity() {
    if constexpr (std::is_floating_point_v<T>) {
      return T(HUGE_VALF);
    } else {
      return T(~(std::uint64_t(1) << 63));
    }
  }
  template <class T>
  TANDEM_HD static T load(T x) {
    return x;
  }
  template <class T>
  TANDEM_HD static T combine(T a, T b) {
    return Minimum::forward(a, b);
  }
};

/// Op codes: positions in the list.
using ReduceOps = OpList<SumRule, SumOfSquaresRule, MaxRule, MinRule>;
enum class ReduceOp : std::uint8_t {};

template <class F>
inline constexpr ReduceOp reduce_op = ReduceOp(detail::position<F>(ReduceOps{}));

}  // namespace tandem
