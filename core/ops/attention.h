// Attention: softmax(q k^T / sqrt(E)) v, made of matmul, softmax and dropout.
#pragma once

#include <tandem/core/tensor.h>

namespace tandem {

struct AttentionOptions {
  bool is_causal = false;  // query i sees keys 0 .. i only
  Tensor attn_mask{};      // added to the scores; broadcasts to (..., L, S). -infinity hides a key
  double dropout = 0;      // of the attention weights: leave it at 0 when not training
};

/// q (..., L, E), k (..., S, E), v (..., S, F) -> (..., L, F). A query that may see no key gives
/// NaN. Masks are floating, never bool: PyTorch has bool masks of both meanings; make one with
/// where(hidden, -infinity, 0). Dropout takes dim 0 for the samples (dropout.h).
Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const AttentionOptions& options = {});

}  // namespace tandem
