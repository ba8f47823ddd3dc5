// Backward, the mirror image of forward: scatter the output's gradient, walk the private graphs on
// their own threads, reduce, return the gradients to the caller's graph.
#include <algorithm>

#include <tandem/core/array_ops.h>
#include <tandem/parallel/pass.h>

namespace tandem::parallel {

// Gradients of everything but parameters: of buffers that require one, and of the call's arguments.
// Pieces of a batch are joined, whatever every replica had whole is summed.
class Engine::OtherGradients {
 public:
  OtherGradients(const Pass& pass, const Wanted& wanted, int dim)
      : pass_(pass),
        buffers_(std::size_t(pass.replicas->size() - pass.replicas->parameters)),
        parts_(pass.members.size(), std::vector<Array>(buffers_ + pass.inputs.size())),
        whole_(pass.inputs.size()),
        dim_(dim) {
    for (std::size_t i = 0; i < whole_.size(); ++i) {
      const Pass::Input& x = pass.inputs[i];
      const bool join = x.is_batch && pass.members.size() > 1;
      if (join && wanted[pass.node_inputs.size() + i]) {
        whole_[i] = Array::empty(x.shape, x.dtype, x.home, x.format);
      }
    }
  }

  void final(std::size_t member, std::size_t leaf, Array gradient) {
    parts_[member][leaf - std::size_t(pass_.replicas->parameters)] = std::move(gradient);
  }

  // On the member's thread: its rows of every joined gradient. No gradient counts as zeros.
  std::int64_t bring_home(std::size_t member) {
    std::int64_t bytes = 0;
    for (std::size_t i = 0; i < whole_.size(); ++i) {
      if (!whole_[i].defined()) continue;
      const Pass::Member& me = pass_.members[member];
      Array rows = whole_[i].narrow(wrap_dim("scatter", dim_, whole_[i].dim()), me.rows.first,
                                    me.rows.count);
      const Array& part = parts_[member][buffers_ + i];
      if (!part.defined()) {
        fill(rows, 0);
        continue;
      }
      copy(rows, part);
      if (part.device() != rows.device()) bytes += part.nbytes();
    }
    return bytes;
  }

  Array of_buffer(int slot) const {
    return sum(std::size_t(slot - pass_.replicas->parameters), pass_.replicas->devices[0]);
  }
  Array of_input(std::size_t i) const {
    if (!whole_[i].defined()) return sum(buffers_ + i, pass_.inputs[i].home);
    const bool any = std::any_of(parts_.begin(), parts_.end(),
                                 [&](const auto& parts) { return parts[buffers_ + i].defined(); });
    return any ? whole_[i] : Array{};
  }

 private:
  Array sum(std::size_t index, Device home) const {
    std::vector<Array> defined;
    for (const auto& parts : parts_) {
      if (parts[index].defined()) defined.push_back(parts[index]);
    }
    return defined.empty() ? Array{} : reduce(defined, home);
  }

  const Pass& pass_;
  const std::size_t buffers_;
  std::vector<std::vector<Array>> parts_;  // [member][buffer, then input]
  std::vector<Array> whole_;               // [input]: joined, at home; undefined: not joined
  const int dim_;
};

void Engine::backward(const Pass& pass, std::span<const Array> dy, const Wanted& wanted,
                      std::span<Array> grads) {
  check(!thread_state().replica.active(),
        "[data_parallel] backward was called from inside a replica. Return the loss and call "
        "backward() on what DataParallel gives back");
  const std::lock_guard lock(mutex);
  report.clear({Phase::backward, Phase::reduce});
  const Replicas& set = *pass.replicas;
  Reduction reduction(set.layout, set.buckets, devices(), pass.ranks, pass.wanted);
  OtherGradients others(pass, wanted, options.dim);

  workers_.run(
      pass.ranks,
      [&](int rank) {
        const std::size_t m = pass.member_of(rank);
        PhaseFigures& figures = report.at(Phase::backward, rank);
        const PhaseTimer timer(report, Phase::backward, rank);
        std::vector<Edge> roots;
        std::vector<Array> seeds = seeds_of(pass, m, dy, roots);
        reduction.open(int(m));
        sweep(roots, std::move(seeds), pass.members[m].leaves, wanted.retain_graph, true,
              [&](std::size_t leaf, Array gradient) {
                if (leaf >= std::size_t(set.parameters)) {
                  others.final(m, leaf, std::move(gradient));
                } else if (pass.wanted[leaf]) {
                  reduction.final(int(m), int(leaf), gradient);
                }
              });
        reduction.close(int(m));
        figures.bytes += others.bring_home(m);
      },
      pass.rows);
  reduction.join();

  for (std::size_t m = 0; m < pass.members.size(); ++m) {
    report.at(Phase::reduce, pass.ranks[m]).bytes = reduction.bytes(int(m));
    for (const Lap& lap : reduction.laps(int(m))) {
      const bool on_cpu = lap.device.kind == DeviceKind::cpu;  // in the time of the rank's backward
      report.add(Phase::reduce, on_cpu ? pass.ranks[m] : 0, lap);
      if (on_cpu) report.add(Phase::backward, pass.ranks[m], lap, -1);
    }
  }
  const std::size_t slots = pass.node_inputs.size();
  for (std::size_t k = 0; k < slots; ++k) {
    const int slot = pass.node_inputs[k];
    grads[k] = slot < set.parameters ? reduction.take(slot) : others.of_buffer(slot);
  }
  for (std::size_t i = 0; i < pass.inputs.size(); ++i) {
    if (wanted[slots + i]) grads[slots + i] = others.of_input(i);
  }
}

// The gradient of this member's outputs, on its device; `roots` are the outputs it is for.
std::vector<Array> Engine::seeds_of(const Pass& pass, std::size_t member, std::span<const Array> dy,
                                    std::vector<Edge>& roots) {
  const Pass::Member& me = pass.members[member];
  const bool gathered = pass.collect == Collect::gathered;
  std::vector<Array> seeds;
  for (std::size_t s = 0; s < me.ends.size(); ++s) {
    // Scattered: the node's outputs are the fields of each member in turn.
    const Array& g = dy[gathered ? s : member * me.ends.size() + s];
    if (!g.defined() || !me.ends[s]) continue;
    roots.push_back(me.ends[s]);
    seeds.push_back(gathered ? seed_of(pass, member, s, g) : g);
  }
  return seeds;
}

// The adjoint of gather: this member's rows; of a number, all of it times what gather did with it.
Array Engine::seed_of(const Pass& pass, std::size_t member, std::size_t output, const Array& dy) {
  const Pass::Member& me = pass.members[member];
  const std::vector<std::int64_t>& first = pass.first[output];
  Array mine = dy;
  if (!first.empty()) {
    const int dim = wrap_dim("gather", options.output_dim.value_or(options.dim), dy.dim());
    mine = dy.narrow(dim, first[member], first[member + 1] - first[member]);
  } else if (options.scalars == ScalarRule::stack) {
    mine = dy.select(0, std::int64_t(member));
  }
  if (mine.device() != me.device) report.at(Phase::backward, me.rank).bytes += mine.nbytes();
  mine = mine.to(me.device);
  const bool weighted = first.empty() && options.scalars == ScalarRule::mean;
  return weighted ? scale(mine, me.share) : mine;
}

}  // namespace tandem::parallel
