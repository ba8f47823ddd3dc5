// Which pairs of GPUs may copy to each other directly. A pair is tried once, with a pattern: some
// machines report peer access that delivers wrong bytes (behind an IOMMU, for example).
#pragma once

#include <tandem/core/device.h>

namespace tandem::gpu {

/// Copies from GPU `from` to another GPU `to` go directly. Enables the access when first asked.
bool peers(int to, int from, Device device);

}  // namespace tandem::gpu
