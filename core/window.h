// Windows that slide over the last two dimensions of an image: what convolution and pooling share.
//
// Plain sizes, and where a window begins and ends, written once for every backend. Next:
// ops/conv.h, ops/pool.h (the ops), backend.h (the kernels).
#pragma once

#include <cstdint>
#include <ostream>

#include <tandem/core/half.h>

namespace tandem {

/// One number for both dimensions, or a pair: 3, or {3, 5} for height and width.
struct Size2d {
  std::int64_t h = 1, w = 1;

  Size2d(std::int64_t both) : h(both), w(both) {}
  Size2d(std::int64_t height, std::int64_t width) : h(height), w(width) {}

  bool operator==(const Size2d&) const = default;
  bool square() const { return h == w; }
  /// A module may name it in visit().
  template <class Visitor>
  void visit(Visitor& v) {
    v("h", h), v("w", w);
  }
};

/// "(3, 5)"
inline std::ostream& operator<<(std::ostream& out, const Size2d& s) {
  return out << '(' << s.h << ", " << s.w << ')';
}

/// Output (p, q) sees the input rows p stride.h - padding.h + i dilation.h, 0 <= i < kernel.h, and
/// the columns likewise. What lies outside of the image is padding.
struct Window2d {
  Size2d kernel{1}, stride{1}, padding{0}, dilation{1};
};

/// How many windows fit: floor((size + 2 padding - dilation (kernel - 1) - 1) / stride) + 1; with
/// `ceil` rounded up, without windows that would begin in the padding behind the end. At most 0 if
/// there is no room for one.
inline std::int64_t count_windows(std::int64_t size, std::int64_t kernel, std::int64_t stride,
                                  std::int64_t padding, std::int64_t dilation, bool ceil = false) {
  const std::int64_t room = size + 2 * padding - dilation * (kernel - 1) - 1;
  if (room < 0) return 0;
  const std::int64_t n = (room + (ceil ? stride - 1 : 0)) / stride + 1;
  return ceil && (n - 1) * stride >= size + padding ? n - 1 : n;
}

/// What an average is taken over. Adaptive: the windows follow from the sizes of input and output.
struct AverageRule {
  Window2d window{};
  bool adaptive = false;
  bool count_padding = true;  // as zeros
  std::int64_t divisor = 0;   // 0: the number of elements in the window
};

/// Elements [start, stop) of one dimension, and this dimension's factor of the divisor.
struct AverageRange {
  std::int64_t start, stop, divisor;
};

/// start = o stride - padding, stop = start + kernel, without what lies outside of [0, size). The
/// divisor counts padding, but not what a window rounded up has beyond it.
TANDEM_HD inline AverageRange average_range(std::int64_t o, std::int64_t size, std::int64_t kernel,
                                            std::int64_t stride, std::int64_t padding,
                                            bool count_padding) {
  const std::int64_t begin = o * stride - padding;
  const std::int64_t end = begin + kernel < size + padding ? begin + kernel : size + padding;
  const std::int64_t start = begin > 0 ? begin : 0, stop = end < size ? end : size;
  return {start, stop, count_padding ? end - begin : stop - start};
}

/// start = floor(o size / outputs), stop = ceil((o + 1) size / outputs): windows may overlap.
TANDEM_HD inline AverageRange adaptive_range(std::int64_t o, std::int64_t size,
                                             std::int64_t outputs) {
  const std::int64_t start = o * size / outputs;
  const std::int64_t stop = ((o + 1) * size + outputs - 1) / outputs;
  return {start, stop, stop - start};
}

}  // namespace tandem
