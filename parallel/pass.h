// Pass: what one data-parallel forward leaves for its backward.
//
// The node on the caller's graph owns it. It keeps the engine and the replicas alive, never the
// user's module or the DataParallel, so backward works after everything else is gone. It holds no
// tensors of the caller's graph and of the private graphs only edges: no cycles, no activations
// beyond those that the private graphs saved. Read after engine.h.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <tandem/parallel/engine.h>

namespace tandem::parallel {

struct Engine::Pass {
  /// A rank that takes part, and its private graph: it starts at `ends`, one for each tensor of the
  /// output, and ends at `leaves`: the tensors of the replica, then this rank's arguments.
  struct Member {
    int rank;
    Device device;
    WorkerGroup::Rows rows;
    double share;  // of all rows
    std::vector<Edge> ends, leaves;
  };
  /// A tensor of the call's arguments, as backward must know it.
  struct Input {
    bool defined, is_batch;
    Shape shape;
    DType dtype;
    Device home;
    MemoryFormat format;
  };

  std::shared_ptr<Engine> engine;
  std::shared_ptr<Replicas> replicas;
  Collect collect;
  std::vector<Member> members;
  std::vector<int> ranks;               // of the members
  std::vector<WorkerGroup::Rows> rows;  // of the members
  std::vector<Input> inputs;

  std::vector<bool> wanted;      // [parameter]: is it an input of the node?
  std::vector<int> node_inputs;  // slots of the parameters and buffers that are, in order
  /// [output][member]: the first row of its piece; one more at the end. Empty: a 0-dim output.
  std::vector<std::vector<std::int64_t>> first;

  std::size_t member_of(int rank) const {
    std::size_t m = 0;
    while (members[m].rank != rank) ++m;
    return m;
  }
};

}  // namespace tandem::parallel
