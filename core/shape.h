// Shape: up to eight sizes, by value. Strides have the same type (counted in elements).
//
// Negative dimensions count from the end wherever an op takes one; wrap_dim() does it and names the
// op that complains. Next: array.h.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <span>

namespace tandem {

inline constexpr int kMaxDims = 8;

class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<std::int64_t> sizes);
  explicit Shape(std::span<const std::int64_t> sizes);
  /// `dim` sizes, all equal to `value`.
  static Shape filled(int dim, std::int64_t value);

  int dim() const { return dim_; }
  /// The product of the sizes. Unsigned inside: sizes that overflow, which no memory can hold, wrap
  /// around, and a size of 0 gives 0 all the same.
  std::int64_t numel() const {
    std::uint64_t n = 1;
    for (int i = 0; i < dim_; ++i) n *= std::uint64_t(sizes_[std::size_t(i)]);
    return std::int64_t(n);
  }
  /// REQUIRES: 0 <= i < dim() (not checked; wrap_dim() checks what a user gave).
  std::int64_t operator[](int i) const { return sizes_[std::size_t(i)]; }
  std::int64_t& operator[](int i) { return sizes_[std::size_t(i)]; }

  const std::int64_t* begin() const { return sizes_.data(); }
  const std::int64_t* end() const { return sizes_.data() + dim_; }
  std::int64_t back() const { return sizes_[std::size_t(dim_ - 1)]; }

  void push_back(std::int64_t size);
  void erase(int i);
  void insert(int i, std::int64_t size);

  bool operator==(const Shape& other) const;

 private:
  std::array<std::int64_t, kMaxDims> sizes_{};
  int dim_ = 0;
};

/// "(2, 3)", "(5,)" and "()".
std::ostream& operator<<(std::ostream& out, const Shape& shape);

/// How the elements of a dense array lie: row-major, or, if it has four dimensions (N, C, H, W), as
/// (N, H, W, C): the channels of a pixel side by side. The shape stays (N, C, H, W), as in PyTorch.
enum class MemoryFormat : std::uint8_t { contiguous, channels_last };
std::ostream& operator<<(std::ostream& out, MemoryFormat format);

/// Row-major strides of a dense array.
Shape contiguous_strides(const Shape& shape);
/// Channels-last strides of a dense array. Throws UsageError unless there are four sizes.
Shape channels_last_strides(const Shape& shape);
Shape strides_of(const Shape& shape, MemoryFormat format);

/// The shape both broadcast to; sizes match from the right, 1 stretches. Throws naming `op`.
Shape broadcast(const char* op, const Shape& a, const Shape& b);

/// Dimension `dim` of `rank` dimensions, negative from the end; a 0-dim tensor counts as one
/// dimension. Throws naming `op`.
int wrap_dim(const char* op, int dim, int rank);

}  // namespace tandem
