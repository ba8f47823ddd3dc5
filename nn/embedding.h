// Embedding: a table of vectors, looked up by index.
//
// Starts as PyTorch's does, draw for draw under the same seed. Next: attention.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <tandem/nn/module.h>

namespace tandem::nn {

struct EmbeddingOptions {
  /// This row is zero at first and is not trained. Negative: from the end.
  std::optional<std::int64_t> padding_idx{};
};

/// indices (...) int64 in [0, num_embeddings) -> (..., embedding_dim). Standard normal at first;
/// made on the thread's default device, in float32. The gradient of the table is dense.
struct Embedding : Layer {
  Tensor weight;                  // (num_embeddings, embedding_dim)
  std::int64_t padding_idx = -1;  // -1: none

  Embedding(std::int64_t num_embeddings, std::int64_t embedding_dim,
            const EmbeddingOptions& options = {});

  std::int64_t num_embeddings() const { return weight.size(0); }
  std::int64_t embedding_dim() const { return weight.size(1); }

  Tensor forward(const Tensor& indices) override;
  void visit(Visitor& v) override;
  std::string describe() const override;
};

}  // namespace tandem::nn
