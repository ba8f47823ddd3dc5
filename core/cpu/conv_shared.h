// What the ways to compute a convolution share: conv.cpp, winograd.cpp, onednn.cpp. Private to
// core/cpu.
#pragma once

#include <cstdint>

#include <tandem/core/array.h>

namespace tandem::host {

/// In how many parts of the batch the gradient of a weight is computed, which are then added up in
/// order. By the shape alone (see Note [Parts of a kernel]), few enough that making them and adding
/// them up takes no time to speak of. w as in a convolution, y (N, O, P, Q).
std::int64_t weight_parts(const Shape& w, const Shape& y, DType dtype);

/// The array in a format: itself, or a copy in workspace.
Array lying(const Array& a, MemoryFormat format);

}  // namespace tandem::host
