// Many arrays times one factor, in place, and what the same pass finds: their norms, and whether
// they were finite. Gradient clipping and the gradient scaler are made of this.
// Next: optim/clip.h, amp/grad_scaler.h.
#pragma once

#include <span>
#include <vector>

#include <tandem/core/array.h>

namespace tandem {

/// What a pass found out about one array.
struct Measure {
  double norm = 0;     // sqrt(sum of squares) of the products; NaN or infinite if one of them is
  bool finite = true;  // was every element finite before it was multiplied?
};

/// x = x factor for each of `xs`, and a measure for each. One pass over the memory and one write of
/// each x; a factor of 1 writes nothing. Products are float32 (float64 for float64), 16-bit types
/// are rounded once; norms neither overflow nor underflow. The xs may lie on several devices and
/// with any strides; waits for all of them. Throws UsageError, before anything changes, if one is
/// no floating type, or is expanded while factor is not 1.
std::vector<Measure> rescale_(std::span<Array> xs, double factor);

}  // namespace tandem
