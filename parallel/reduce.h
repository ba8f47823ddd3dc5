// Chapter 6: reduce. How the replicas' gradients become one.
//
// The problem: every rank has a gradient for every parameter; the optimizer wants their sum, on the
//              first device.
// The idea:    parameters are grouped into buckets, last ones first, since backward reaches them
//              first. Each rank packs its gradients into a flat block of its own. A bucket is due
//              when every rank has closed it; the last rank to arrive sums it, there and then. So
//              the sum overlaps with the rest of backward, and needs no queue or wake-up. GPUs have
//              a stream for it beside backward's, or the sum would take its turn behind what the
//              first device has been given meanwhile: a rank that arrives lets its side stream
//              wait for its packed gradients (fork), sums are made between side streams alone, and
//              one join at the end lets what comes after backward wait for them.
// What it costs: (K-1) P bytes travel to the first device, where K P bytes are added: the other
//              half of the first device's imbalance. On GPUs, too, room there for the largest
//              bucket.
// What can go wrong: a parameter that some ranks (or all) did not use: a rank closes what never
//              came; a gradient that no rank produced stays undefined. Bits: ranks are added in
//              rank order, so they do not depend on who arrived last. It is a *sum*: nothing ever
//              divides. On GPUs: memory that a pool gives out or gets back is ordered with the
//              compute stream, so what sums use is taken before backward and freed after the join,
//              which a failure must not skip. And sums share their room, so two threads that are
//              the last of two buckets submit one after the other.
// Next: data_parallel.h.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include <tandem/core/array.h>
#include <tandem/core/tensor.h>
#include <tandem/parallel/layout.h>
#include <tandem/parallel/step_report.h>

namespace tandem::parallel {

/// The sum of arrays of one shape and dtype on `device`, in the order given.
Array reduce(std::span<const Array> parts, Device device);
/// The differentiable form: every part gets the gradient of the sum, on its own device.
Tensor reduce(const std::vector<Tensor>& parts, Device device);

/// One backward's reduction. Each participating rank calls open(), then final() for its parameters
/// as gradients become final, then close(), all on its own thread. When all ranks have closed,
/// take() is complete after join(). Nobody waits for a bucket: a rank that fails never arrives at
/// its last ones, nobody sums them, and nothing of this reduction is used.
class Reduction {
 public:
  /// `wanted[i]`: will parameter i be reported? (What the forward recorded: requires_grad may have
  /// changed since.) `ranks`: those that take part, rising; all are positions in `devices`.
  Reduction(const FlatLayout& layout, const std::vector<Bucket>& buckets,
            std::span<const Device> devices, std::span<const int> ranks,
            const std::vector<bool>& wanted);
  ~Reduction() { join(); }
  Reduction(const Reduction&) = delete;
  Reduction& operator=(const Reduction&) = delete;

  // `member`: position in `ranks`.
  /// Takes memory for the rank's gradients, on its device.
  void open(int member);
  /// An undefined gradient is final, too.
  void final(int member, int parameter, const Array& gradient);
  /// Whatever was not reported will not come.
  void close(int member);

  /// When all ranks have stopped, in the thread that goes on: its next work begins after the sums.
  void join() noexcept;
  /// The sum for one parameter, in the first device's memory; undefined if no rank had one.
  Array take(int parameter) const;
  /// What the sums took that this rank made, and the bytes that it sent to the first device.
  std::span<const Lap> laps(int member) const { return members_[std::size_t(member)].laps; }
  std::int64_t bytes(int member) const;

 private:
  struct Waiting {
    std::vector<int> parameters;
    std::vector<Array> gradients;
  };
  struct Member {
    Device device;
    std::vector<Waiting> waiting;   // [bucket] final, but not packed: a GPU packs a bucket at once
    std::vector<Array> blocks;      // packed gradients, on the rank's device
    std::vector<std::uint8_t> has;  // [parameter] written by the rank, read once its bucket is due
    std::vector<int> left;          // [bucket] parameters not final yet; -1: arrived
    std::vector<Lap> laps;          // one per bucket it summed
  };
  void pack(Member& me, int bucket) const;
  void open_side_streams();
  void arrive(int member, int bucket);
  void sum(int bucket);
  void add_run(const Member& from, int first, int last, bool accumulate);

  const FlatLayout& layout_;
  const std::vector<Bucket>& buckets_;
  Device home_;
  std::vector<Member> members_;
  std::vector<Array> total_;       // the result's blocks; those of rank 0 if it takes part
  std::vector<Device> beside_;     // their side streams sum: home_, then the others; or none
  Array room_;                     // for what arrives on a GPU: bytes for the largest bucket
  std::mutex summing_;             // room_ is one sum's at a time, in the order of its stream
  std::vector<std::uint8_t> any_;  // [parameter] written by whoever sums its bucket
  std::vector<std::atomic<int>> arrived_;  // [bucket]
  std::vector<int> bucket_of_;
};

}  // namespace tandem::parallel
