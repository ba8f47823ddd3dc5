// Split: the dimensions of a reduction's operand, sorted into those that stay and those that go.
// Every backend starts from here: core/cpu/reduce.cpp, core/cuda/reduce.cpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include <tandem/core/array.h>

namespace tandem {

struct Split {
  Array kept_y, kept_x;  // what stays: y, and x at position 0 of the others
  Array gone;            // what goes, of x

  /// y has x's number of dimensions, and size 1 in those that go.
  Split(const Array& x, const Array& y) {
    Shape kept, kept_sx, kept_sy, gone_shape, gone_s;
    for (int i = 0; i < x.dim(); ++i) {
      if (y.size(i) == x.size(i)) {
        kept.push_back(x.size(i));
        kept_sx.push_back(x.strides()[i]);
        kept_sy.push_back(y.strides()[i]);
      } else {
        gone_shape.push_back(x.size(i));
        gone_s.push_back(x.strides()[i]);
      }
    }
    kept_x = x.as_strided(kept, kept_sx, x.offset());
    kept_y = y.as_strided(kept, kept_sy, y.offset());
    gone = x.as_strided(gone_shape, gone_s, x.offset());
  }

  /// Values of neighbouring results lie closer together than the values of one result.
  bool side_by_side() const { return least_stride(kept_x) < least_stride(gone); }

 private:
  static std::int64_t least_stride(const Array& a) {
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (int i = 0; i < a.dim(); ++i) {
      if (a.size(i) > 1) least = std::min(least, a.strides()[i]);
    }
    return least;
  }
};

}  // namespace tandem
