// MultiheadAttention: project, split into heads, attend, join, project. In between, heads are
// (N, H, L, E / H), so that dropout finds the samples in dim 0.
#include <tandem/nn/attention.h>

#include <limits>

#include <tandem/core/memory.h>
#include <tandem/core/ops/attention.h>
#include <tandem/core/ops/factories.h>
#include <tandem/core/ops/linalg.h>
#include <tandem/core/ops/pointwise.h>
#include <tandem/core/ops/views.h>
#include <tandem/nn/init.h>

namespace tandem::nn {

namespace {

void check_inputs(const MultiheadAttention& m, const Tensor& query, const Tensor& key,
                  const Tensor& value) {
  check(query.defined() && key.defined() && value.defined(), "[MultiheadAttention] undefined ",
        !query.defined() ? "query"
        : !key.defined() ? "key"
                         : "value");
  const auto fits = [&](const Tensor& t) { return t.dim() == 3 && t.size(2) == m.embed_dim(); };
  const int batch = m.batch_first ? 0 : 1;
  check(fits(query) && fits(key) && key.shape() == value.shape() &&
            query.size(batch) == key.size(batch),
        "[MultiheadAttention] expected query ", m.batch_first ? "(N, L, E)" : "(L, N, E)",
        ", key and value ", m.batch_first ? "(N, S, E)" : "(S, N, E)", " with E = ", m.embed_dim(),
        ", or all without N: got ", query.shape(), ", ", key.shape(), ", ", value.shape());
}

void check_mask(const char* name, const Tensor& mask, const Shape& shape, const Shape& other) {
  check(mask.dtype() == boolean || is_floating(mask.dtype()), "[MultiheadAttention] ", name,
        " must be bool, true where a key is hidden, or floating, added to the scores: got ",
        mask.dtype());
  check(mask.shape() == shape || mask.shape() == other, "[MultiheadAttention] ", name, " must be ",
        shape, shape == other ? "" : str(" or ", other), ": got ", mask.shape());
}

// q and k (N, H, L or S, E / H)
void check_masks(const AttentionMasks& masks, const Tensor& q, const Tensor& k) {
  const std::int64_t batch = q.size(0), heads = q.size(1), queries = q.size(2), keys = k.size(2);
  if (masks.attn_mask.defined()) {
    check_mask("attn_mask", masks.attn_mask, {queries, keys}, {batch * heads, queries, keys});
  }
  if (masks.key_padding_mask.defined()) {
    check_mask("key_padding_mask", masks.key_padding_mask, {batch, keys}, {batch, keys});
  }
}

// What is added to the scores. True hides a key.
Tensor as_added(const Tensor& mask, DType dtype) {
  if (mask.dtype() != boolean) return mask.to(dtype);
  const TensorOptions like{dtype, mask.device()};
  return where(mask, full({}, -std::numeric_limits<double>::infinity(), like), zeros({}, like));
}

}  // namespace

// PyTorch's order: out_proj draws weight and bias, then in_proj_weight; then biases are cleared.
MultiheadAttention::MultiheadAttention(std::int64_t embed_dim, std::int64_t heads,
                                       const MultiheadAttentionOptions& options)
    : out_proj(embed_dim, embed_dim, {.bias = options.bias}),
      num_heads(heads),
      dropout(options.dropout),
      batch_first(options.batch_first) {
  check(embed_dim > 0 && heads > 0 && embed_dim % heads == 0,
        "[MultiheadAttention] num_heads must divide embed_dim: got ", heads, " and ", embed_dim);
  check(dropout >= 0 && dropout <= 1, "[MultiheadAttention] dropout must be between 0 and 1: got ",
        dropout);
  const CategoryScope scope(Category::parameter);
  in_proj_weight = empty({3 * embed_dim, embed_dim});
  init::xavier_uniform_(in_proj_weight);
  in_proj_weight.requires_grad_();
  if (!options.bias) return;
  in_proj_bias = zeros({3 * embed_dim}, {.requires_grad = true});
  init::zeros_(out_proj.bias);
}

// One product where it can be one.
std::vector<Tensor> MultiheadAttention::project(const Tensor& query, const Tensor& key,
                                                const Tensor& value) const {
  if (query.is_same(key) && key.is_same(value)) {
    return chunk(linear(query, in_proj_weight, in_proj_bias), 3, -1);
  }
  const std::vector<Tensor> weights = chunk(in_proj_weight, 3);
  std::vector<Tensor> biases(3);
  if (in_proj_bias.defined()) biases = chunk(in_proj_bias, 3);
  return {linear(query, weights[0], biases[0]), linear(key, weights[1], biases[1]),
          linear(value, weights[2], biases[2])};
}

// (N, L, E) or (L, N, E) -> (N, H, L, E / H), and back.
Tensor MultiheadAttention::split_heads(const Tensor& x) const {
  const Tensor y = reshape(x, {x.size(0), x.size(1), num_heads, embed_dim() / num_heads});
  return batch_first ? permute(y, {0, 2, 1, 3}) : permute(y, {1, 2, 0, 3});
}
Tensor MultiheadAttention::join_heads(const Tensor& x) const {
  const Tensor y = batch_first ? permute(x, {0, 2, 1, 3}) : permute(x, {2, 0, 1, 3});
  return reshape(y, {y.size(0), y.size(1), embed_dim()});
}

Tensor MultiheadAttention::added_mask(const AttentionMasks& masks, const Tensor& q) const {
  Tensor added;
  if (masks.attn_mask.defined()) {
    added = as_added(masks.attn_mask, q.dtype());
    if (added.dim() == 3) {
      added = reshape(added, {q.size(0), num_heads, added.size(1), added.size(2)});
    }
  }
  if (masks.key_padding_mask.defined()) {
    const Tensor keys = as_added(masks.key_padding_mask, q.dtype());  // (N, S)
    const Tensor padding = reshape(keys, {keys.size(0), 1, 1, keys.size(1)});
    added = added.defined() ? added + padding : padding;
  }
  return added;
}

Tensor MultiheadAttention::forward(const Tensor& query, const Tensor& key, const Tensor& value,
                                   const AttentionMasks& masks) {
  if (query.defined() && query.dim() == 2) {  // one sample
    const int batch = batch_first ? 0 : 1;
    const bool same = query.is_same(key) && key.is_same(value);
    const Tensor q = unsqueeze(query, batch);
    AttentionMasks more = masks;
    if (more.key_padding_mask.defined()) {
      more.key_padding_mask = unsqueeze(more.key_padding_mask, 0);
    }
    return squeeze(
        forward(q, same ? q : unsqueeze(key, batch), same ? q : unsqueeze(value, batch), more),
        batch);
  }
  check_inputs(*this, query, key, value);
  const std::vector<Tensor> projected = project(query, key, value);
  const Tensor q = split_heads(projected[0]), k = split_heads(projected[1]);
  check_masks(masks, q, k);
  const Tensor mixed = scaled_dot_product_attention(q, k, split_heads(projected[2]),
                                                    {.is_causal = masks.is_causal,
                                                     .attn_mask = added_mask(masks, q),
                                                     .dropout = training ? dropout : 0});
  return out_proj(join_heads(mixed));
}

void MultiheadAttention::visit(Visitor& v) {
  v("in_proj_weight", in_proj_weight);
  v("in_proj_bias", in_proj_bias);
  v("out_proj", out_proj);
  v("num_heads", num_heads);
  v("dropout", dropout);
  v("batch_first", batch_first);
}

}  // namespace tandem::nn
