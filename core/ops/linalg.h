// Matrix products.
#pragma once

#include <tandem/core/tensor.h>

namespace tandem {

/// (M, K) (K, N) -> (M, N). Vectors: (K) counts as a row on the left and a column on the right.
/// More dimensions are batches, which broadcast: (..., M, K) (..., K, N) -> (..., M, N).
Tensor matmul(const Tensor& a, const Tensor& b);

/// y = x weight^T + bias: x (..., in), weight (out, in), bias (out) or undefined -> (..., out).
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {});

/// relu(linear(x, weight, bias)) with fewer passes over memory: what nn::Sequential calls for a
/// Linear and the ReLU behind it.
Tensor linear_relu(const Tensor& x, const Tensor& weight, const Tensor& bias = {});

}  // namespace tandem
