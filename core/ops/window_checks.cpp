#include <tandem/core/ops/window_checks.h>

#include <algorithm>
#include <limits>
#include <utility>

#include <tandem/core/error.h>

namespace tandem {

void check_window_steps(const char* op, const Window2d& w) {
  check(w.stride.h > 0 && w.stride.w > 0, "[", op, "] stride must be positive: ", w.stride);
  check(w.padding.h >= 0 && w.padding.w >= 0, "[", op, "] padding is negative: ", w.padding);
  check(w.dilation.h > 0 && w.dilation.w > 0, "[", op, "] dilation must be positive: ", w.dilation);
}

void check_window_sizes(const char* op, const Window2d& w) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  const std::pair<const char*, Size2d> sizes[] = {
      {"kernel", w.kernel}, {"stride", w.stride}, {"padding", w.padding}, {"dilation", w.dilation}};
  for (const auto& [name, size] : sizes) {
    check(std::max(size.h, size.w) <= kMost, "[", op, "] ", name, " ", size,
          " is too large: the most is ", kMost);
  }
}

Size2d fitting_windows(const char* op, const Shape& images, const Window2d& w, bool ceil) {
  const std::int64_t p =
      count_windows(images[2], w.kernel.h, w.stride.h, w.padding.h, w.dilation.h, ceil);
  const std::int64_t q =
      count_windows(images[3], w.kernel.w, w.stride.w, w.padding.w, w.dilation.w, ceil);
  check(p > 0 && q > 0, "[", op, "] the kernel ", w.kernel, " with dilation ", w.dilation,
        " does not fit into an image of ", Size2d(images[2], images[3]), " with padding ",
        w.padding);
  return {p, q};
}

Array dense_image(const Array& image) {
  const bool last = image.is_contiguous(MemoryFormat::channels_last);
  return last ? image : image.to(nearest_format(image));
}

}  // namespace tandem
