// Chapter 5: gather. How the replicas' outputs become one again.
//
// The problem: each rank has the output for its rows, on its own device.
// The idea:    copy all of them side by side onto one device, in rank order. A container is
//              gathered field by field; fields that are not tensors come from the first rank.
// What it costs: the whole output of the batch arrives on one device, and so does everything that
//              is computed from it: half of the famous imbalance of the first device. Cures:
//              compute the loss inside the replica (with_loss), or leave outputs where they are
//              (scattered).
// What can go wrong: outputs whose other sizes differ (refused, naming replica and dimension), or
//              one number per replica: see ScalarRule.
// Next: reduce.h.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <tandem/core/array.h>
#include <tandem/core/tensor.h>

namespace tandem::parallel {

/// What becomes of outputs without dimensions, for example of a loss computed in the replica.
enum class ScalarRule : std::uint8_t {
  mean,  // weighted by the replica's share of the rows: equals the mean over the whole batch
  sum,
  stack  // a vector with one element per replica, as PyTorch returns
};

/// Where parts go: the result, still empty (and undefined for a single part, which needs no
/// joining), and each part's place in it.
struct Gathering {
  Array whole;
  int dim;
  std::vector<std::int64_t> first;  // part i has rows first[i] .. first[i + 1] - 1

  Array place(std::size_t part) const {
    return whole.narrow(dim, first[part], first[part + 1] - first[part]);
  }
};
/// All sizes but that of `dim` agree, else UsageError naming the first that differs.
Gathering plan_gather(std::span<const Array> parts, Device device, int dim = 0);

/// Joins arrays along `dim` on `device`. One array that is there already is returned as it is.
Array gather(std::span<const Array> parts, Device device, int dim = 0);

/// One number per replica to one result, in rank order. `weights`: the replicas' shares of rows.
Array gather_scalars(std::span<const Array> parts, Device device, ScalarRule rule,
                     std::span<const double> weights);

/// The differentiable form; 0-dim tensors are stacked. Backward hands each part its slice.
Tensor gather(const std::vector<Tensor>& parts, Device device, int dim = 0);

/// The tensors inside one replica's output, in visit order.
struct Outputs {
  std::vector<Tensor> tensors;
  std::vector<std::string> names;
};

/// Throws UsageError unless all replicas returned the same fields, each on its own device, with
/// sizes that fit together. `ranks` numbers them in messages; `devices` are those of all ranks.
void check_outputs(std::span<const Outputs> outputs, std::span<const int> ranks,
                   std::span<const Device> devices, int dim);

}  // namespace tandem::parallel
