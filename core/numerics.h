// Which library multiplies, and how exactly: switches of the whole process.
//
// The results of two libraries, and of two methods, differ by rounding. A switch may be turned at
// any time; work that has begun ends as it began, and no tensor has to be converted. Next:
// docs/devices.md.
#pragma once

#include <cstdint>

#include <tandem/core/device.h>

namespace tandem {

/// Was this build made with oneDNN?
bool onednn_available();

/// Do CPU devices multiply matrices and convolve through oneDNN where it is quicker, rather than
/// through Eigen? By default yes, if it is available; the environment variable TANDEM_ONEDNN=0
/// turns it off from the start. With oneDNN the results of convolutions are channels-last.
bool onednn();
/// Throws UsageError if it is to be on and is not available.
void set_onednn(bool on);
/// How many of its kernels a CPU device keeps ready, each for one operation, shape and layout: at
/// most 256.
std::int64_t onednn_kernels(Device device);

/// May CPU devices compute large float32 convolutions with 3 x 3 windows and a stride of 1 by
/// Winograd's method, in less than half of the multiplications? Its rounding errors are up to a few
/// times those of the plain sums, and where sums of some inputs or of a filter's weights overflow,
/// outputs may be infinite or NaN. By default yes; the environment variable TANDEM_WINOGRAD=0 turns
/// it off from the start.
bool allow_winograd();
void set_allow_winograd(bool allow);

/// CUDA only: may float32 products be computed from operands rounded to 10 bits (TF32)? By default
/// no.
bool allow_tf32();
void set_allow_tf32(bool allow);

}  // namespace tandem
