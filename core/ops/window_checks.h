// What convolution and pooling ask of windows and images alike. The arithmetic: core/window.h.
#pragma once

#include <tandem/core/array.h>
#include <tandem/core/window.h>

namespace tandem {

/// Throws UsageError unless stride and dilation are positive and padding is not negative.
void check_window_steps(const char* op, const Window2d& w);

/// Throws UsageError for sizes from 2^31 on: below, no product of two of them overflows.
void check_window_sizes(const char* op, const Window2d& w);

/// (.., .., P, Q): how many windows fit into images of (.., .., H, W), at least one each way.
/// Throws UsageError if none does.
Size2d fitting_windows(const char* op, const Shape& images, const Window2d& w, bool ceil = false);

/// Dense in one of the two layouts, as the kernels want it: slices and permuted arrays are packed.
Array dense_image(const Array& image);

/// Makes the gradient of an image or a weight, to be written: it lies as that does.
struct ImageLike {
  Shape shape;
  MemoryFormat format;

  explicit ImageLike(const Array& image) : shape(image.shape()), format(format_of(image)) {}
  /// Of dy's type, on its device.
  Array gradient(const Array& dy) const {
    return Array::empty(shape, dy.dtype(), dy.device(), format);
  }
};

}  // namespace tandem
