#include <tandem/core/ops/attention.h>

#include <cmath>
#include <limits>

#include <tandem/core/autocast.h>
#include <tandem/core/ops/dropout.h>
#include <tandem/core/ops/factories.h>
#include <tandem/core/ops/linalg.h>
#include <tandem/core/ops/operands.h>
#include <tandem/core/ops/pointwise.h>
#include <tandem/core/ops/softmax.h>
#include <tandem/core/ops/views.h>

namespace tandem {
namespace {

constexpr const char* kOp = "scaled_dot_product_attention";

void check_shapes(const Array& q, const Array& k, const Array& v, const Tensor& mask) {
  check(q.dim() >= 2 && k.dim() >= 2 && v.dim() >= 2, "[", kOp,
        "] expected q (..., L, E), k (..., S, E), v (..., S, F): got ", q.shape(), ", ", k.shape(),
        ", ", v.shape());
  check(q.shape().back() == k.shape().back(), "[", kOp, "] q ", q.shape(), " and k ", k.shape(),
        " must end in one size");
  check(k.size(k.dim() - 2) == v.size(v.dim() - 2), "[", kOp, "] k ", k.shape(), " and v ",
        v.shape(), " must have as many rows");
  check(!mask.defined() || is_floating(mask.dtype()), "[", kOp,
        "] the mask is added to the scores, so it must be floating: got ",
        mask.defined() ? mask.dtype() : DType::float32,
        ". Make one with where(hidden, -infinity, 0)");
}

// (L, S): -infinity where a key comes after the query, else 0.
Tensor causal_mask(std::int64_t queries, std::int64_t keys, const TensorOptions& like) {
  const TensorOptions index{.device = like.device};
  const Tensor later = arange(keys, index) > unsqueeze(arange(queries, index), 1);
  return where(later, full({}, -std::numeric_limits<double>::infinity(), like), zeros({}, like));
}

}  // namespace

Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const AttentionOptions& options) {
  if (const Recast to = recast(CastGroup::low, {q, k, v})) {
    return scaled_dot_product_attention(to(q), to(k), to(v), options);
  }
  check_shapes(operand(kOp, q, "q"), operand(kOp, k, "k"), operand(kOp, v, "v"), options.attn_mask);
  const Tensor scaled = q * (1 / std::sqrt(double(q.size(-1))));
  Tensor scores = matmul(scaled, transpose(k, -2, -1));
  if (options.is_causal) {
    scores = scores + causal_mask(q.size(-2), k.size(-2), {q.dtype(), q.device()});
  }
  if (options.attn_mask.defined()) scores = scores + options.attn_mask;
  const Tensor weights = dropout(softmax(scores, -1), options.dropout, options.dropout > 0);
  return matmul(weights, v);
}

}  // namespace tandem
