#include <tandem/parallel/engine.h>

#include <algorithm>
#include <latch>
#include <set>

#include <tandem/core/array_ops.h>
#include <tandem/core/backend.h>

namespace tandem::parallel {

std::vector<Device> resolve_devices(const DeviceList& list, DeviceKind kind) {
  const std::vector<Device> devices = list.given() ? list.devices() : all_devices(kind);
  check(!devices.empty(),
        "[data_parallel] the device list is empty. Name at least one device, or "
        "leave it out for all devices");
  std::set<Device> seen;
  for (Device d : devices) {
    check(seen.insert(d).second, "[data_parallel] ", d,
          " is listed twice. A device has one replica; use cpu(0), cpu(1), ... for several on one "
          "processor");
    backend(d);  // throws DeviceError if there is no such device
  }
  return devices;
}

// What a forward leaves for its backward. "Member": position among the ranks that took part.
struct Engine::Pass {
  std::shared_ptr<Engine> engine;
  std::shared_ptr<Replicas> replicas;
  Split split;
  std::vector<int> ranks;
  std::vector<WorkerGroup::Rows> rows;
  Collect collect = Collect::gathered;
  std::vector<bool> wanted;             // [parameter] is it an input of the node?
  std::vector<int> inputs_of_node;      // the slots of these parameters and buffers, in order
  std::vector<std::vector<Edge>> ends;  // [member][output]: where the private graph starts
  std::vector<std::vector<std::int64_t>> first;  // [output]: first row of each member; empty: 0-dim
  std::vector<std::vector<Edge>> leaves;  // [member]: replica's slots, then inputs; for sweep()
  std::vector<std::vector<Array>> dx;     // [member][input]: of the backward that runs now
  // Of the inputs:
  std::vector<Shape> shape;
  std::vector<DType> dtype;
  std::vector<Device> home;
  std::vector<bool> is_batch;

  std::size_t members() const { return ranks.size(); }
  double share(std::size_t member) const {
    return split.total() == 0 ? 1.0 : double(rows[member].count) / double(split.total());
  }
};

Engine::Engine(DataParallelOptions o)
    : options(std::move(o)), report(devices()), workers_(devices()) {}

void Engine::set_replicas(std::shared_ptr<Replicas> set) {
  replicas = std::move(set);
  buckets_ = make_buckets(replicas->layout, options.bucket_bytes);
}

Split Engine::split(const Arguments& arguments) const {
  const std::int64_t rows = batch_rows(arguments, options.dim);
  if (rows > 0) return split_rows(rows, int(devices().size()), options.chunks);
  Split nothing;  // no batch tensor, or an empty one: rank 0 alone
  nothing.first.assign(devices().size() + 1, 0);
  return nothing;
}

// ---- forward

std::vector<Tensor> Engine::forward(const Arguments& in, const Split& split, const ApplyOne& apply,
                                    Collect collect) {
  report.clear({Phase::replicate, Phase::scatter, Phase::forward, Phase::gather});
  auto pass = std::make_shared<Pass>();
  pass->engine = shared_from_this();
  pass->replicas = replicas;
  pass->split = split;
  pass->collect = collect;
  pass->ranks = split.active();
  for (int r : pass->ranks) pass->rows.push_back({split.first[std::size_t(r)], split.rows(r)});

  const std::vector<Outputs> outputs = apply_replicas(*pass, in, apply);
  if (collect == Collect::gathered) {
    check_outputs(outputs, pass->ranks, options.output_dim.value_or(options.dim));
  }
  std::vector<Array> values = gather_outputs(*pass, outputs);

  // An output requires a gradient if that of some replica does.
  std::vector<bool> differentiable;
  const std::size_t fields = outputs[0].tensors.size();
  for (std::size_t i = 0; i < values.size(); ++i) {
    bool any = false;
    for (std::size_t m = 0; m < outputs.size(); ++m) {
      if (collect == Collect::gathered)
        any |= bool(pass->ends[m][i]);
      else
        any |= m == i / fields && bool(pass->ends[m][i % fields]);
    }
    differentiable.push_back(any);
  }
  return record_node(std::move(pass), in, std::move(values), std::move(differentiable));
}

// Replicate, scatter and apply, each rank on its own thread.
std::vector<Outputs> Engine::apply_replicas(Pass& pass, const Arguments& in,
                                            const ApplyOne& apply) {
  const bool stale = replicas->plan(pass.ranks);
  const std::size_t members = pass.members();
  std::vector<Outputs> outputs(members);
  pass.leaves.resize(members);
  // Rank 0 may write its buffers, which are the master's: it starts when all others have a copy.
  std::latch refreshed(std::ptrdiff_t(members - (pass.ranks[0] == 0 ? 1 : 0)));
  std::vector<std::size_t> member_of(devices().size());
  for (std::size_t m = 0; m < members; ++m) member_of[std::size_t(pass.ranks[m])] = m;

  workers_.run(
      pass.ranks,
      [&](int r) {
        const std::size_t m = member_of[std::size_t(r)];
        {
          PhaseFigures& figures = report.at(Phase::replicate, r);
          const PhaseTimer timer(figures);
          if (r > 0) {
            struct CountDown {  // also when the copy fails
              std::latch& latch;
              ~CountDown() { latch.count_down(); }
            } count_down{refreshed};
            if (stale) figures.bytes += replicas->refresh(r);
          } else if (stale) {
            refreshed.wait();
          }
        }
        const std::vector<Tensor> chunk = scatter_to(pass, m, in);
        const PhaseTimer timer(report.at(Phase::forward, r));
        outputs[m] = apply(r, chunk);
      },
      pass.rows);

  pass.ends.resize(members);
  for (std::size_t m = 0; m < members; ++m) {
    for (const Tensor& t : outputs[m].tensors) pass.ends[m].push_back(gradient_edge(t));
  }
  return outputs;
}

// This member's arguments: its rows of batch tensors, copies of the others; leaves of its own.
std::vector<Tensor> Engine::scatter_to(Pass& pass, std::size_t member, const Arguments& in) {
  const int rank = pass.ranks[member];
  const Device here = devices()[std::size_t(rank)];
  PhaseFigures& figures = report.at(Phase::scatter, rank);
  const PhaseTimer timer(figures);
  const CategoryScope scope(Category::input);
  std::vector<Edge>& leaves = pass.leaves[member];
  if (thread_state().grad_enabled) {
    for (const Tensor& t : replicas->local[std::size_t(rank)]) leaves.push_back(gradient_edge(t));
  }
  std::vector<Tensor> mine;
  for (std::size_t i = 0; i < in.tensors.size(); ++i) {
    const Tensor& t = in.tensors[i];
    if (!t.defined()) {
      mine.emplace_back();
      leaves.emplace_back();
      continue;
    }
    Array a = t.array();
    if (in.is_batch[i]) {
      const int dim = wrap_dim("scatter", options.dim, t.dim());
      a = a.narrow(dim, pass.rows[member].first, pass.rows[member].count);
    }
    if (a.device() != here) figures.bytes += a.nbytes();
    mine.push_back(Tensor(a.to(here)));
    if (thread_state().grad_enabled && t.requires_grad()) mine.back().requires_grad_();
    leaves.push_back(gradient_edge(mine.back()));
  }
  return mine;
}

std::vector<Array> Engine::gather_outputs(Pass& pass, std::span<const Outputs> outputs) {
  const std::size_t members = pass.members(), fields = outputs[0].tensors.size();
  std::vector<Array> values;
  if (pass.collect == Collect::scattered) {
    for (const Outputs& o : outputs) {
      for (const Tensor& t : o.tensors) values.push_back(t.defined() ? t.array() : Array{});
    }
    return values;
  }
  const CategoryScope scope(Category::output);
  const Device target = output_device();
  const int output_dim = options.output_dim.value_or(options.dim);
  pass.first.resize(fields);
  for (std::size_t s = 0; s < fields; ++s) {
    if (!outputs[0].tensors[s].defined()) {
      values.emplace_back();
      continue;
    }
    std::vector<Array> parts;
    for (std::size_t m = 0; m < members; ++m) {
      const Array& a = outputs[m].tensors[s].array();
      const int rank = pass.ranks[m];
      check(a.device() == devices()[std::size_t(rank)], "[gather] output '", outputs[m].names[s],
            "' of replica ", rank, " is on ", a.device(), ". Return it on the replica's device");
      if (a.device() != target) report.at(Phase::gather, rank).bytes += a.nbytes();
      parts.push_back(a);
    }
    const PhaseTimer timer(report.at(Phase::gather, pass.ranks[0]));
    if (parts[0].dim() == 0) {
      std::vector<double> shares;
      for (std::size_t m = 0; m < members; ++m) shares.push_back(pass.share(m));
      values.push_back(gather_scalars(parts, target, options.scalars, shares));
      continue;
    }
    const int dim = wrap_dim("gather", output_dim, parts[0].dim());
    std::int64_t row = 0;
    for (const Array& p : parts) {
      pass.first[s].push_back(row);
      row += p.size(dim);
    }
    pass.first[s].push_back(row);
    values.push_back(gather(parts, target, dim));
  }
  return values;
}

// One node. Its inputs: parameters and buffers that require a gradient, then the call's tensors.
std::vector<Tensor> Engine::record_node(std::shared_ptr<Pass> pass, const Arguments& in,
                                        std::vector<Array> values,
                                        std::vector<bool> differentiable) {
  const bool any =
      std::find(differentiable.begin(), differentiable.end(), true) != differentiable.end();
  if (!any || !thread_state().grad_enabled) {
    std::vector<Tensor> plain;
    for (Array& v : values) plain.push_back(v.defined() ? Tensor(std::move(v)) : Tensor());
    return plain;
  }
  std::vector<Edge> edges;
  for (int i = 0; i < replicas->size(); ++i) {
    const Tensor& t = replicas->master[std::size_t(i)];
    if (i < replicas->parameters) pass->wanted.push_back(t.requires_grad());
    if (!t.requires_grad()) continue;
    pass->inputs_of_node.push_back(i);
    edges.push_back(gradient_edge(t));
  }
  for (const Tensor& t : in.tensors) {
    edges.push_back(gradient_edge(t));
    pass->shape.push_back(t.defined() ? t.shape() : Shape{});
    pass->dtype.push_back(t.defined() ? t.dtype() : DType::float32);
    pass->home.push_back(t.defined() ? t.device() : Device{});
  }
  pass->is_batch = in.is_batch;
  return record_many(
      "data_parallel", std::move(values), std::move(edges), differentiable,
      [pass](std::span<const Array> dy, const Wanted& wanted, std::span<Array> grads) {
        pass->engine->backward(*pass, dy, wanted, grads);
      });
}

// ---- backward: scatter the output's gradient, walk the private graphs, reduce, return.

void Engine::backward(Pass& pass, std::span<const Array> dy, const Wanted& wanted,
                      std::span<Array> grads) {
  check(!thread_state().replica.active(),
        "[data_parallel] backward was called from inside a replica");
  const std::lock_guard lock(mutex);
  report.clear({Phase::backward, Phase::reduce});
  const std::size_t members = pass.members(), inputs = pass.shape.size();
  const std::size_t slots = pass.inputs_of_node.size();
  const std::vector<Bucket> buckets = make_buckets(pass.replicas->layout, options.bucket_bytes);
  Reduction reduction(pass.replicas->layout, buckets, devices(), pass.ranks, pass.wanted);
  pass.dx.assign(members, std::vector<Array>(std::size_t(pass.replicas->size()) + inputs));

  std::vector<std::size_t> member_of(devices().size());
  for (std::size_t m = 0; m < members; ++m) member_of[std::size_t(pass.ranks[m])] = m;
  workers_.run(
      pass.ranks,
      [&](int r) {
        const std::size_t m = member_of[std::size_t(r)];
        struct Close {  // a rank that fails closes its buckets, too
          Reduction& reduction;
          int member;
          ~Close() { reduction.close(member); }
        };
        PhaseFigures& figures = report.at(Phase::backward, r);
        {
          const PhaseTimer timer(figures);
          const Close close{reduction, int(m)};
          backward_of(pass, m, dy, wanted.retain_graph, reduction);
        }
        figures.seconds -= reduction.seconds(int(m));
        report.at(Phase::reduce, r) = {reduction.seconds(int(m)), 0};
      },
      pass.rows);
  for (std::size_t m = 0; m < members; ++m) {
    report.at(Phase::reduce, pass.ranks[m]).bytes = reduction.bytes(int(m));
  }

  for (std::size_t k = 0; k < slots; ++k) {
    const int slot = pass.inputs_of_node[k];
    if (slot < pass.replicas->parameters) {
      grads[k] = reduction.take(slot);
      continue;
    }
    std::vector<Array> parts;  // a buffer that requires a gradient
    for (auto& dx : pass.dx) {
      if (dx[std::size_t(slot)].defined()) parts.push_back(dx[std::size_t(slot)]);
    }
    if (!parts.empty()) grads[k] = reduce(parts, devices()[0]);
  }
  for (std::size_t i = 0; i < inputs; ++i) {
    if (!wanted[slots + i]) continue;
    std::vector<Array> parts;
    Array whole;
    for (std::size_t m = 0; m < members; ++m) {
      const Array& part = pass.dx[m][std::size_t(pass.replicas->size()) + i];
      if (!part.defined()) continue;
      if (!pass.is_batch[i]) {
        parts.push_back(part);
        continue;
      }
      // A chunk without a gradient counts as zeros.
      if (!whole.defined()) whole = Array::zeros(pass.shape[i], pass.dtype[i], pass.home[i]);
      Array rows = whole.narrow(wrap_dim("scatter", options.dim, pass.shape[i].dim()),
                                pass.rows[m].first, pass.rows[m].count);
      copy(rows, part);
    }
    grads[slots + i] = parts.empty() ? whole : reduce(parts, pass.home[i]);
  }
  pass.dx.clear();
}

void Engine::backward_of(Pass& pass, std::size_t member, std::span<const Array> dy,
                         bool retain_graph, Reduction& reduction) {
  std::vector<Edge> roots;
  std::vector<Array> seeds = seeds_of(pass, member, dy, roots);
  const Replicas& set = *pass.replicas;
  sweep(roots, std::move(seeds), pass.leaves[member], retain_graph, true,
        [&](std::size_t leaf, Array gradient) {
          const int slot = int(leaf);
          if (slot >= set.parameters) {
            pass.dx[member][leaf] = std::move(gradient);
          } else if (pass.wanted[leaf]) {
            reduction.final(int(member), slot, gradient);
          }
        });
}

// The gradient of this member's outputs, on its device.
std::vector<Array> Engine::seeds_of(Pass& pass, std::size_t member, std::span<const Array> dy,
                                    std::vector<Edge>& roots) {
  const Device here = devices()[std::size_t(pass.ranks[member])];
  const std::vector<Edge>& ends = pass.ends[member];
  PhaseFigures& figures = report.at(Phase::backward, pass.ranks[member]);
  std::vector<Array> seeds;
  for (std::size_t s = 0; s < ends.size(); ++s) {
    const bool gathered = pass.collect == Collect::gathered;
    const Array& g = dy[gathered ? s : member * ends.size() + s];
    if (!g.defined() || !ends[s]) continue;
    Array mine = g;
    if (gathered && !pass.first[s].empty()) {
      const int dim = wrap_dim("gather", options.output_dim.value_or(options.dim), g.dim());
      const std::int64_t from = pass.first[s][member];
      mine = g.narrow(dim, from, pass.first[s][member + 1] - from);
    } else if (gathered && options.scalars == ScalarRule::stack) {
      mine = g.select(0, std::int64_t(member));
    }
    if (mine.device() != here) figures.bytes += mine.nbytes();
    mine = mine.to(here);
    if (gathered && pass.first[s].empty() && options.scalars == ScalarRule::mean) {
      mine = scale(mine, pass.share(member));
    }
    roots.push_back(ends[s]);
    seeds.push_back(std::move(mine));
  }
  return seeds;
}

}  // namespace tandem::parallel
