// SyncBatchNorm: batch norm that does not notice how the batch is split.
//
// The problem: under DataParallel a BatchNorm normalizes each replica's chunk with the chunk's own
//              statistics, so results depend on the number of devices, and a chunk of one row is an
//              error.
// The idea:    in forward, all replicas that have rows meet and add up their chunks' statistics; in
//              backward, the two sums of the gradient. Each adds the same numbers in rank order, so
//              all compute the same bits. The result is one device's BatchNorm over the whole
//              batch, gradients and running statistics included.
// What it costs: two meetings per layer and step, in which the fast replicas wait for the slow one;
//              2 C numbers each way. While evaluating: nothing.
// What can go wrong: a replica that does not come (it threw, or its forward skipped the layer, or
//              its output is not part of the loss): all are refused, nobody hangs; see meeting.h.
//
// Outside of DataParallel, also in parallel_apply(), it is a BatchNorm. Read nn/norm.h first.
#pragma once

#include <cstdint>
#include <memory>

#include <tandem/nn/norm.h>

namespace tandem::parallel {

/// x (N, C), (N, C, L) or (N, C, H, W). The state is that of nn::BatchNorm2d.
struct SyncBatchNorm : nn::BatchNorm {
  explicit SyncBatchNorm(std::int64_t features, const nn::BatchNormOptions& options = {});

 protected:
  std::shared_ptr<WholeBatch> whole_batch() override;

 private:
  std::uint64_t layer_;  // the same in all copies: how replicas know that they mean one layer
};

}  // namespace tandem::parallel
