// Dropout: y = x mask / (1 - p), where the mask depends on the seed, the call and the sample row.
#pragma once

#include <tandem/core/tensor.h>

namespace tandem {

/// Zeroes each element with probability p and scales the others; x itself if not training or p = 0.
/// Dim 0 is the batch: a sample's mask is the same whatever the number of replicas (philox.h).
/// REQUIRES: 0 <= p <= 1.
Tensor dropout(const Tensor& x, double p = 0.5, bool training = true);

}  // namespace tandem
