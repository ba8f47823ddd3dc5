// Chapter 1: scatter. How a batch becomes chunks.
//
// The problem: N samples lie on one device; K devices should each get a part.
// The idea:    cut along the batch dimension into consecutive chunks, and copy each chunk to its
//              device. A chunk that stays on the batch's own device is a view: nothing moves.
// What it costs: N (K-1)/K samples over the bus, each device fetching its own.
// What can go wrong: arguments that disagree on N (refused, naming both); fewer samples than
//              devices (the last devices have nothing to do and do not run); a tensor that is not
//              a batch at all (mark it replicated(t)).
// Next: replicate.h.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tandem/core/array.h>
#include <tandem/core/tensor.h>
#include <tandem/nn/visitor.h>

namespace tandem::parallel {

enum class ChunkRule : std::uint8_t {
  balanced,  // sizes differ by at most one, larger chunks first: 10 on 4 devices = 3 3 2 2
  ceil       // PyTorch's: every chunk has ceil(N / K), the last fewer: 10 on 4 = 3 3 3 1
};

struct ChunkOptions {
  ChunkRule rule = ChunkRule::balanced;
  /// One per device; chunk sizes follow them as closely as whole samples can. A device with weight
  /// 0 gets nothing. Empty: all equal.
  std::vector<double> weights{};
  /// Chunk sizes, one per device, instead of a rule. They add up to N.
  std::vector<std::int64_t> sizes{};
};

/// Who gets which samples: rank r has rows first[r] .. first[r + 1] - 1.
struct Split {
  std::vector<std::int64_t> first;

  int ranks() const { return int(first.size()) - 1; }
  std::int64_t rows(int rank) const {
    return first[std::size_t(rank) + 1] - first[std::size_t(rank)];
  }
  std::int64_t total() const { return first.back(); }
  /// Ranks that run: those with rows; rank 0 alone if there are no rows at all.
  std::vector<int> active() const;
};

Split split_rows(std::int64_t rows, int devices, const ChunkOptions& options = {});

/// Chunks of x along `dim` on the split's active ranks, in rank order.
std::vector<Array> scatter(const Array& x, std::span<const Device> devices, const Split& split,
                           int dim = 0);

struct ScatterOptions {
  int dim = 0;
  ChunkOptions chunks{};
};

/// The differentiable form. Backward brings the gradients of the chunks home to x's device; a chunk
/// without one counts as zeros.
std::vector<Tensor> scatter(const Tensor& x, const std::vector<Device>& devices,
                            const ScatterOptions& options = {});

/// Marks an argument that every replica gets whole: net(x, replicated(table)).
template <class T>
struct Replicated {
  T value;
};
template <class T>
Replicated<T> replicated(T value) {
  return {std::move(value)};
}

// ---- arguments of any structure: tensors, tuples, vectors, maps, optionals, structs with visit()

/// The tensors inside a call's arguments, in visit order.
struct Arguments {
  std::vector<Tensor> tensors;
  std::vector<bool> is_batch;      // split along dim; else every replica gets all of it
  std::vector<std::string> names;  // "argument 1.mask", for messages
};

/// Adds the tensors of one argument. 0-dim tensors are copied to every replica.
template <class T>
void collect(const T& argument, bool replicate, Arguments& to, std::size_t position) {
  if constexpr (nn::CarriesTensors<T>::value) {
    nn::for_each_tensor(const_cast<T&>(argument), [&](Tensor& t, nn::TensorKind, nn::Visitor& v) {
      std::string name = "argument " + std::to_string(position);
      if (const std::string path = v.path(); !path.empty()) (name += '.') += path;
      to.names.push_back(std::move(name));
      to.is_batch.push_back(!replicate && t.defined() && t.dim() > 0);
      to.tensors.push_back(t);
    });
  }
}

/// Puts tensors back where collect() found them.
template <class T>
void assign(T& argument, std::span<const Tensor> tensors, std::size_t& next) {
  if constexpr (nn::CarriesTensors<T>::value) {
    nn::for_each_tensor(argument,
                        [&](Tensor& t, nn::TensorKind, nn::Visitor&) { t = tensors[next++]; });
  }
}

/// How many rows all batch tensors have along `dim`; -1 if there is none. Throws UsageError naming
/// two arguments that disagree.
std::int64_t batch_rows(const Arguments& arguments, int dim);

}  // namespace tandem::parallel
