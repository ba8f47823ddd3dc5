// Loops: the dimensions of several operands of one shape, sorted and joined for a loop over them.
//
// Operands that lie alike become one long run, whatever the order of their dimensions: a
// channels-last array is as good as a row-major one. Every backend walks arrays of any strides this
// way: core/cpu/traverse.h, core/cuda/layout.h.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include <tandem/core/array.h>

namespace tandem {

/// The joined dimensions of N operands of one shape; the last one is the innermost.
template <std::size_t N>
struct Loops {
  int dim = 0;
  std::array<std::int64_t, kMaxDims> size{};
  std::array<std::array<std::int64_t, kMaxDims>, N> stride{};  // [operand][dimension], elements

  /// Sorted by the strides of operand 0, usually the output.
  explicit Loops(const std::array<const Array*, N>& arrays) {
    const Shape& shape = arrays[0]->shape();
    std::array<int, kMaxDims> order{};
    int n = 0;
    const Shape& key = arrays[0]->strides();
    for (int i = 0; i < shape.dim(); ++i) {
      if (shape[i] == 1) continue;
      int at = n++;  // sorted by insertion: stable, and std::stable_sort would allocate
      for (; at > 0 && key[order[std::size_t(at - 1)]] < key[i]; --at) {
        order[std::size_t(at)] = order[std::size_t(at - 1)];
      }
      order[std::size_t(at)] = i;
    }
    for (int k = 0; k < n; ++k) {
      const int i = order[std::size_t(k)];
      if (dim > 0 && joins(arrays, i, shape[i])) {
        size[std::size_t(dim - 1)] *= shape[i];
      } else {
        size[std::size_t(dim++)] = shape[i];
      }
      for (std::size_t a = 0; a < N; ++a) {
        stride[a][std::size_t(dim - 1)] = arrays[a]->strides()[i];
      }
    }
    if (dim == 0) {  // a single element
      size[0] = 1;
      for (auto& s : stride) s[0] = 1;
      dim = 1;
    }
  }

  std::int64_t inner() const { return size[std::size_t(dim - 1)]; }
  std::int64_t inner_stride(std::size_t a) const { return stride[a][std::size_t(dim - 1)]; }

  /// f(offsets of the operands, in elements) for every position of the outer dimensions.
  template <class F>
  void for_each_outer(F&& f) const {
    std::array<std::int64_t, N> offset{};
    std::array<std::int64_t, kMaxDims> at{};
    for (;;) {
      f(offset);
      int d = dim - 2;
      for (; d >= 0; --d) {
        const auto i = std::size_t(d);
        for (std::size_t a = 0; a < N; ++a) offset[a] += stride[a][i];
        if (++at[i] < size[i]) break;
        for (std::size_t a = 0; a < N; ++a) offset[a] -= stride[a][i] * size[i];
        at[i] = 0;
      }
      if (d < 0) return;
    }
  }

 private:
  bool joins(const std::array<const Array*, N>& arrays, int i, std::int64_t n) const {
    for (std::size_t a = 0; a < N; ++a) {
      if (stride[a][std::size_t(dim - 1)] != n * arrays[a]->strides()[i]) return false;
    }
    return true;
  }
};

}  // namespace tandem
