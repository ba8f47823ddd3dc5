// Forward. Backward is its mirror image: engine_backward.cpp.
#include <tandem/parallel/engine.h>

#include <algorithm>
#include <set>

#include <tandem/core/array_ops.h>
#include <tandem/core/backend.h>
#include <tandem/parallel/pass.h>

namespace tandem::parallel {
namespace {

constexpr std::int64_t kWorthAWakeUp = 256 << 10;  // bytes: fewer are copied before a thread is up

}  // namespace

std::vector<Device> resolve_devices(const DeviceList& list, DeviceKind kind) {
  const std::vector<Device> devices = list.given() ? list.devices() : all_devices(kind);
  check(!devices.empty(),
        "[data_parallel] the device list is empty. Name at least one device, or leave it out for "
        "all devices");
  std::set<Device> seen;
  for (Device d : devices) {
    check(seen.insert(d).second, "[data_parallel] ", d,
          " is listed twice. A device has one replica; use cpu(0), cpu(1), ... for several on one "
          "processor");
    backend(d);  // throws DeviceError if there is no such device
  }
  return devices;
}

Engine::Engine(DataParallelOptions o)
    : options(std::move(o)), report(devices()), workers_(devices()) {}

Split Engine::split(const Arguments& arguments) const {
  const std::int64_t rows = batch_rows(arguments, options.dim);
  if (rows > 0) return split_rows(rows, int(devices().size()), options.chunks);
  Split nothing;  // no batch tensor, or an empty one: rank 0 alone
  nothing.first.assign(devices().size() + 1, 0);
  return nothing;
}

std::vector<Tensor> Engine::forward(const Arguments& in, const Split& split, const ApplyOne& apply,
                                    Collect collect) {
  report.clear({Phase::replicate, Phase::scatter, Phase::forward, Phase::gather});
  const std::shared_ptr<Pass> pass = begin(in, split, collect);
  std::vector<Outputs> outputs(pass->members.size());
  Refresh refresh(*replicas, pass->ranks);

  workers_.run(
      pass->ranks,
      [&](int rank) {
        const std::size_t m = pass->member_of(rank);
        {
          const PhaseTimer timer(report, Phase::replicate, rank);
          report.at(Phase::replicate, rank).bytes = refresh.send_to(rank);
        }
        const std::vector<Tensor> mine = scatter_to(*pass, m, in);
        const PhaseTimer timer(report, Phase::forward, rank);
        outputs[m] = apply(rank, mine);
      },
      pass->rows);

  if (pass->ranks[0] != 0) replicas->keep_buffers_of(pass->ranks[0]);
  std::vector<Array> values = gather_outputs(*pass, outputs);
  return record_node(pass, in, std::move(values));
}

std::shared_ptr<Engine::Pass> Engine::begin(const Arguments& in, const Split& split,
                                            Collect collect) {
  auto pass = std::make_shared<Pass>();
  pass->engine = shared_from_this();
  pass->replicas = replicas;
  pass->collect = collect;
  pass->ranks = split.active();
  for (int r : pass->ranks) {
    const WorkerGroup::Rows rows{split.first[std::size_t(r)], split.rows(r)};
    const double share = split.total() == 0 ? 1.0 : double(rows.count) / double(split.total());
    pass->rows.push_back(rows);
    pass->members.push_back({r, devices()[std::size_t(r)], rows, share, {}, {}});
  }
  for (std::size_t i = 0; i < in.tensors.size(); ++i) {
    const Tensor& t = in.tensors[i];
    if (t.defined()) {
      pass->inputs.push_back(
          {true, in.is_batch[i], t.shape(), t.dtype(), t.device(), nearest_format(t.array())});
    } else {
      pass->inputs.push_back({});
    }
  }
  return pass;
}

// This member's arguments: its rows of batch tensors, copies of the others. All are leaves of the
// private graph; so are the replica's tensors.
std::vector<Tensor> Engine::scatter_to(Pass& pass, std::size_t member, const Arguments& in) {
  Pass::Member& me = pass.members[member];
  PhaseFigures& figures = report.at(Phase::scatter, me.rank);
  const PhaseTimer timer(report, Phase::scatter, me.rank);
  const CategoryScope scope(Category::input);
  const bool grad = thread_state().grad_enabled;
  const std::vector<Tensor>& local = replicas->local[std::size_t(me.rank)];
  if (grad) {
    me.leaves.reserve(local.size() + in.tensors.size());
    for (const Tensor& t : local) me.leaves.push_back(gradient_edge(t));
  }
  std::vector<Tensor> mine;
  for (std::size_t i = 0; i < in.tensors.size(); ++i) {
    const Tensor& t = in.tensors[i];
    Tensor leaf;
    if (t.defined()) {
      Array a = t.array();
      if (in.is_batch[i]) {
        a = a.narrow(wrap_dim("scatter", options.dim, a.dim()), me.rows.first, me.rows.count);
      }
      if (a.device() != me.device) figures.bytes += a.nbytes();
      leaf = Tensor(a.to(me.device));
      if (grad && t.requires_grad()) leaf.requires_grad_();
    }
    if (grad) me.leaves.push_back(leaf.defined() ? gradient_edge(leaf) : Edge{});
    mine.push_back(std::move(leaf));
  }
  return mine;
}

// Every output field onto the output device; or, scattered, the fields of each member in turn.
std::vector<Array> Engine::gather_outputs(Pass& pass, std::span<const Outputs> outputs) {
  for (std::size_t m = 0; m < outputs.size(); ++m) {
    for (const Tensor& t : outputs[m].tensors) pass.members[m].ends.push_back(gradient_edge(t));
  }
  std::vector<Array> values;
  if (pass.collect == Collect::scattered) {
    for (const Outputs& o : outputs) {
      for (const Tensor& t : o.tensors) values.push_back(t.defined() ? t.array() : Array{});
    }
    return values;
  }
  check_outputs(outputs, pass.ranks, devices(), options.output_dim.value_or(options.dim));
  std::vector<std::vector<Array>> places(outputs.size());  // [member][field]
  for (std::size_t s = 0; s < outputs[0].tensors.size(); ++s) {
    const PhaseTimer timer(report, Phase::gather, pass.ranks[0]);
    values.push_back(gather_field(pass, outputs, s, places));
  }
  std::int64_t bytes = 0;
  const auto bring = [&](int rank) {
    const std::size_t m = pass.member_of(rank);
    const PhaseTimer timer(report, Phase::gather, rank);
    for (std::size_t s = 0; s < places[m].size(); ++s) {
      if (places[m][s].defined()) copy(places[m][s], outputs[m].tensors[s].array());
    }
  };
  for (std::size_t m = 0; m < outputs.size(); ++m) {
    for (const Array& place : places[m]) bytes += place.defined() ? place.nbytes() : 0;
  }
  if (bytes >= kWorthAWakeUp) {
    workers_.run(pass.ranks, bring, pass.rows);
  } else {
    for (int rank : pass.ranks) bring(rank);
  }
  return values;
}

// One field of the result: complete, or still empty with every member's place in it.
Array Engine::gather_field(Pass& pass, std::span<const Outputs> outputs, std::size_t field,
                           std::vector<std::vector<Array>>& places) {
  const CategoryScope scope(Category::output);
  const Device target = output_device();
  std::vector<std::int64_t>& first = pass.first.emplace_back();
  for (auto& list : places) list.emplace_back();
  if (!outputs[0].tensors[field].defined()) return {};
  std::vector<Array> parts;
  std::vector<double> shares;
  for (std::size_t m = 0; m < outputs.size(); ++m) {
    const Pass::Member& member = pass.members[m];
    parts.push_back(outputs[m].tensors[field].array());
    shares.push_back(member.share);
    if (member.device != target) report.at(Phase::gather, member.rank).bytes += parts[m].nbytes();
  }
  if (parts[0].dim() == 0) return gather_scalars(parts, target, options.scalars, shares);
  Gathering g = plan_gather(parts, target, options.output_dim.value_or(options.dim));
  first = g.first;
  if (parts.size() == 1) return parts[0].to(target);
  for (std::size_t m = 0; m < parts.size(); ++m) places[m].back() = g.place(m);
  return g.whole;
}

// One node. Its inputs: parameters and buffers that require a gradient, then the call's tensors.
// An output requires a gradient if that of some replica does.
std::vector<Tensor> Engine::record_node(std::shared_ptr<Pass> pass, const Arguments& in,
                                        std::vector<Array> values) {
  const bool gathered = pass->collect == Collect::gathered;
  std::vector<bool> differentiable(gathered ? values.size() : 0, false);
  bool any = false;
  for (const Pass::Member& m : pass->members) {
    for (std::size_t s = 0; s < m.ends.size(); ++s) {
      any |= bool(m.ends[s]);
      if (!gathered) differentiable.push_back(bool(m.ends[s]));
      if (gathered && m.ends[s]) differentiable[s] = true;
    }
  }
  if (!any || !thread_state().grad_enabled) {
    std::vector<Tensor> plain;
    for (Array& v : values) plain.push_back(v.defined() ? Tensor(std::move(v)) : Tensor());
    return plain;
  }
  std::vector<Edge> edges;
  edges.reserve(std::size_t(replicas->size()) + in.tensors.size());
  for (int i = 0; i < replicas->size(); ++i) {
    const Tensor& t = replicas->master[std::size_t(i)];
    if (i < replicas->parameters) pass->wanted.push_back(t.requires_grad());
    if (!t.requires_grad()) continue;
    pass->node_inputs.push_back(i);
    edges.push_back(gradient_edge(t));
  }
  for (const Tensor& t : in.tensors) edges.push_back(gradient_edge(t));
  return record_many(
      "data_parallel", std::move(values), std::move(edges), differentiable,
      [pass](std::span<const Array> dy, const Wanted& wanted, std::span<Array> grads) {
        pass->engine->backward(*pass, dy, wanted, grads);
      });
}

}  // namespace tandem::parallel
