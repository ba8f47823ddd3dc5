// Softmax and its logarithm: exp(x_i) / sum_j exp(x_j) along a dimension, with the largest
// subtracted first. float16 and bfloat16 are computed in float32.
#pragma once

#include <tandem/core/tensor.h>

namespace tandem {

Tensor softmax(const Tensor& x, int dim);
Tensor log_softmax(const Tensor& x, int dim);

}  // namespace tandem
