// Convolutions with 3 x 3 windows in less than half of the multiplications. Private to core/cpu;
// conv.cpp asks here first.
#pragma once

#include <cstdint>

#include <tandem/core/array.h>
#include <tandem/core/backend.h>
#include <tandem/core/window.h>

namespace tandem::host {

/// Is this convolution one for Winograd's method, and large enough to gain by it, if the method is
/// allowed (numerics.h)? By shapes and types alone. w (O, C, 3, 3) of the convolution, y (N, O, P,
/// Q).
bool winograd_takes(const Window2d& window, std::int64_t groups, const Array& w, const Shape& y);

// As in core/backend.h. REQUIRES: winograd_takes().
void winograd(const Window2d& window, const Array& x, const Array& w, const Array& bias, Array& y,
              Backend& backend);
void winograd_grad_input(const Window2d& window, const Array& w, const Array& dy, Array& dx,
                         Backend& backend);
void winograd_grad_weight(const Window2d& window, const Array& x, const Array& dy, Array& dw);

}  // namespace tandem::host
