// Embedding: all rows are drawn, then the padding row is cleared, as in PyTorch.
#include <tandem/nn/embedding.h>

#include <tandem/core/memory.h>
#include <tandem/core/ops/factories.h>
#include <tandem/core/ops/indexing.h>
#include <tandem/core/ops/views.h>
#include <tandem/nn/init.h>

namespace tandem::nn {

Embedding::Embedding(std::int64_t num_embeddings, std::int64_t embedding_dim,
                     const EmbeddingOptions& options) {
  check(num_embeddings >= 0 && embedding_dim >= 0, "[Embedding] negative size: num_embeddings ",
        num_embeddings, ", embedding_dim ", embedding_dim);
  const CategoryScope scope(Category::parameter);
  weight = empty({num_embeddings, embedding_dim});
  init::normal_(weight);
  if (options.padding_idx) {
    padding_idx = *options.padding_idx;
    check(padding_idx >= -num_embeddings && padding_idx < num_embeddings,
          "[Embedding] padding_idx ", padding_idx, " is outside of a table of ", num_embeddings,
          " rows");
    if (padding_idx < 0) padding_idx += num_embeddings;
    select(weight, 0, padding_idx).zero_();
  }
  weight.requires_grad_();
}

Tensor Embedding::forward(const Tensor& indices) {
  return embedding(weight, indices,
                   padding_idx < 0 ? std::nullopt : std::optional<std::int64_t>(padding_idx));
}

void Embedding::visit(Visitor& v) {
  v("weight", weight);
  v("padding_idx", padding_idx);
}

std::string Embedding::describe() const {
  return str("Embedding(", num_embeddings(), ", ", embedding_dim(),
             padding_idx < 0 ? "" : str(", padding_idx=", padding_idx), ")");
}

}  // namespace tandem::nn
