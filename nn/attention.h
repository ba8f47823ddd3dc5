// MultiheadAttention: queries look at keys and mix values, in several heads at once.
//
// Parameters have PyTorch's names, shapes and first values. Next: core/ops/attention.h, the
// arithmetic.
#pragma once

#include <cstdint>

#include <tandem/nn/linear.h>

namespace tandem::nn {

struct MultiheadAttentionOptions {
  double dropout = 0;  // of the attention weights, while training
  bool bias = true;
  /// (N, L, E) instead of (L, N, E), the default as in PyTorch. What DataParallel wants: it splits
  /// along dim 0, which must be the samples.
  bool batch_first = false;
};

/// Which keys a query sees. True in a bool mask, and -infinity in a floating one, hides a key, as
/// in PyTorch's module.
struct AttentionMasks {
  bool is_causal = false;     // query i sees keys 0 .. i only
  Tensor attn_mask{};         // (L, S), or (N num_heads, L, S)
  Tensor key_padding_mask{};  // (N, S)
};

/// forward(query, key, value): (L, N, E), (S, N, E), (S, N, E) -> (L, N, E); batches first if so
/// made; or without N. For self-attention give one tensor three times: attention(x, x, x). A query
/// that sees no key gives NaN. E = embed_dim, of which each head takes embed_dim / num_heads.
struct MultiheadAttention : Module {
  Tensor in_proj_weight;  // (3 E, E): of queries, keys, values
  Tensor in_proj_bias;    // (3 E), zero at first; undefined without bias
  Linear out_proj;        // E -> E, its bias zero at first
  std::int64_t num_heads;
  double dropout;
  bool batch_first;

  /// REQUIRES: num_heads divides embed_dim, 0 <= dropout <= 1.
  MultiheadAttention(std::int64_t embed_dim, std::int64_t num_heads,
                     const MultiheadAttentionOptions& options = {});

  std::int64_t embed_dim() const { return in_proj_weight.size(1); }

  Tensor forward(const Tensor& query, const Tensor& key, const Tensor& value,
                 const AttentionMasks& masks = {});
  Tensor operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                    const AttentionMasks& masks = {}) {
    return forward(query, key, value, masks);
  }
  void visit(Visitor& v) override;

 private:
  std::vector<Tensor> project(const Tensor& query, const Tensor& key, const Tensor& value) const;
  Tensor split_heads(const Tensor& x) const;
  Tensor join_heads(const Tensor& x) const;
  Tensor added_mask(const AttentionMasks& masks, const Tensor& q) const;
};

}  // namespace tandem::nn
