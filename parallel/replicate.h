// Chapter 2: replicate. How every rank comes to have the same parameters.
//
// The problem: the optimizer updates the parameters on the first device; before the next forward
//              all replicas must have them.
// The idea:    replicas are built once and kept. Before each forward, compare what the master holds
//              now (which array, which version) with what was sent, and send only the difference.
//              Rank 0's replica aliases the master's arrays and needs nothing. Ranks 1.. hold their
//              parameters in one flat block per dtype, each slot with a version of its own.
// What it costs: P bytes to each other device after an optimizer step; nothing for inference or
//              for the further micro-batches of an accumulation.
// What can go wrong: (1) A copy that fails must not count as sent: what was sent is noted after the
//              copy. (2) Rank 0 may write its buffers (batch norm) while others still copy them: it
//              waits for a latch. If rank 0 has no rows, what the first rank with rows wrote is
//              copied back. (3) A live graph may have saved the parameter that is about to be
//              overwritten: then the copy goes to fresh memory. (4) A layer replaced, a shape
//              changed: the replicas are built anew.
// Next: worker_group.h.
#pragma once

#include <cstdint>
#include <latch>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <tandem/core/array.h>
#include <tandem/core/tensor.h>
#include <tandem/parallel/layout.h>

namespace tandem::parallel {

/// Arrays that travel as one: side by side in one block per dtype.
struct Packed {
  FlatLayout layout;
  std::vector<Array> blocks;
};
/// Packs arrays of one device into staging memory there.
Packed pack(std::span<const Array> arrays);
/// The blocks on `device`, one copy per `bucket_bytes`.
std::vector<Array> send(const Packed& packed, Device device, std::int64_t bucket_bytes);

/// Copies of arrays (all on one device) on each device: result[rank][i]. They travel in buckets of
/// `bucket_bytes`: packed here, sent as one copy, cut up there into slots with versions of their
/// own. A device that an array is on already gets the array itself.
std::vector<std::vector<Array>> broadcast(std::span<const Array> arrays,
                                          std::span<const Device> devices,
                                          std::int64_t bucket_bytes = 10 << 20);
/// The differentiable form for one tensor; backward sums the gradients, in rank order, where x is.
std::vector<Tensor> broadcast(const Tensor& x, const std::vector<Device>& devices);

struct ReplicateOptions {
  std::int64_t bucket_bytes = 1 << 20;  // parameters and gradients travel in buckets of this size
  /// Pack what changed, then one copy per bucket and device; else one copy per tensor, straight to
  /// where it belongs. Default: pack, except between CPU devices, where it would be a detour.
  std::optional<bool> coalesce{};
};

/// The tensors of a module and their twins on every rank. Built for one structure of the module and
/// replaced as a whole when that changes. Used under the engine's lock.
class Replicas {
 public:
  /// `master`: handles in visit order, each once, `parameters` parameters before the buffers.
  /// Throws UsageError for one that is not on devices[0], naming it.
  Replicas(std::vector<Device> devices, std::vector<Tensor> master, std::vector<std::string> names,
           int parameters, const ReplicateOptions& options = {});

  /// Do the handles still hold arrays of the shapes and dtypes that the replicas were built for?
  bool fits() const;
  int size() const { return int(master.size()); }
  /// Into the master's buffers what `rank` wrote into its own in this forward. Rank 0's are the
  /// master's; where it had no rows, the first rank that had some stands in for it.
  void keep_buffers_of(int rank);

  const std::vector<Device> devices;
  const std::vector<Tensor> master;
  const std::vector<std::string> names;
  const int parameters;  // slots [0, parameters) are parameters, the others buffers
  /// [rank][slot]: leaves; those of rank 0 share the master's arrays.
  std::vector<std::vector<Tensor>> local;
  FlatLayout layout;            // of the parameters
  std::vector<Bucket> buckets;  // in which their gradients are summed

 private:
  friend class Refresh;
  // What a rank has: the master's array and its version when it was sent, and the version that the
  // rank's own copy had then (a replica that writes a parameter gets it back at the next forward).
  // Holding the array keeps a new one from getting the same address.
  struct Sent {
    Array array;
    std::uint64_t version = 0, own = 0;
  };
  void check_placed() const;
  void make_local(int rank);
  bool lacks(int rank, int slot) const;
  Array free_home(int rank, int slot);
  void note_sent(int rank, int slot, const Array& place);

  const ReplicateOptions options_;
  std::vector<std::vector<Array>> home_;  // [rank][slot]: its place in the flat block, or by itself
  std::vector<std::vector<Sent>> sent_;   // [rank][slot]
};

/// One re-broadcast. The constructor, on the caller's thread, finds what each rank lacks and
/// mirrors requires_grad; send_to(), on each rank's own thread, brings it there.
class Refresh {
 public:
  Refresh(Replicas& replicas, std::span<const int> ranks);
  /// Returns the bytes sent. Rank 0 waits here until all others have theirs, or have failed.
  std::int64_t send_to(int rank);

 private:
  std::int64_t send_pieces(int rank);
  std::int64_t send_packed(int rank);

  Replicas& replicas_;
  std::vector<std::vector<int>> lacking_;  // [rank]: slots
  bool any_ = false;
  std::vector<int> packed_slots_;  // what some rank lacks, if it travels packed
  Packed packed_;
  std::latch sent_;
};

}  // namespace tandem::parallel
