#include <tandem/parallel/gather.h>

#include <tandem/core/array_ops.h>
#include <tandem/core/autograd.h>

namespace tandem::parallel {
namespace {

// "(3, 5)" against "(2, 4)" along dim 0: which other dimension differs, or -1.
int differing_dim(const Shape& a, const Shape& b, int dim) {
  for (int i = 0; i < a.dim(); ++i) {
    if (i != dim && a[i] != b[i]) return i;
  }
  return -1;
}

}  // namespace

Gathering plan_gather(std::span<const Array> parts, Device device, int dim) {
  check(!parts.empty(), "[gather] nothing to gather");
  const Array& a = parts[0];
  check(a.dim() > 0, "[gather] 0-dim outputs have no rows to join");
  dim = wrap_dim("gather", dim, a.dim());
  Gathering g{{}, dim, {0}};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Shape& s = parts[i].shape();
    check(s.dim() == a.dim(), "[gather] part ", i, " has ", s.dim(), " dimensions, part 0 has ",
          a.dim());
    const int d = differing_dim(a.shape(), s, dim);
    check(d < 0, "[gather] part ", i, " has shape ", s, ", part 0 ", a.shape(), ": dimension ", d,
          " differs. Only dimension ", dim, " may; pad the others to a common size");
    check(parts[i].dtype() == a.dtype(), "[gather] part ", i, " is ", parts[i].dtype(), ", part 0 ",
          a.dtype());
    g.first.push_back(g.first.back() + s[dim]);
  }
  Shape shape = a.shape();
  shape[dim] = g.first.back();
  if (parts.size() > 1) {
    g.whole = Array::empty(shape, a.dtype(), device, common_format(parts));
  }
  return g;
}

Array gather(std::span<const Array> parts, Device device, int dim) {
  const Gathering g = plan_gather(parts, device, dim);
  if (parts.size() == 1) return parts[0].to(device);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    Array place = g.place(i);
    copy(place, parts[i]);
  }
  return g.whole;
}

Array gather_scalars(std::span<const Array> parts, Device device, ScalarRule rule,
                     std::span<const double> weights) {
  if (rule == ScalarRule::stack) {
    std::vector<Array> rows;
    for (const Array& p : parts) rows.push_back(p.unsqueeze(0));
    return gather(rows, device, 0);
  }
  Array sum;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    Array x = parts[i].to(device);
    if (rule == ScalarRule::mean) x = scale(x, weights[i]);
    sum = sum.defined() ? zip<Add>(sum, x) : x;
  }
  return sum;
}

Tensor gather(const std::vector<Tensor>& parts, Device device, int dim) {
  check(!parts.empty(), "[gather] nothing to gather");
  const bool scalars = parts[0].dim() == 0;
  std::vector<Array> arrays;
  std::vector<Edge> edges;
  std::vector<std::int64_t> sizes;
  std::vector<Device> homes;
  bool differentiable = false;
  const int d = scalars ? 0 : wrap_dim("gather", dim, parts[0].dim());
  for (const Tensor& t : parts) {
    check((t.dim() == 0) == scalars, "[gather] some parts have dimensions and some have none");
    arrays.push_back(scalars ? t.array().unsqueeze(0) : t.array());
    edges.push_back(gradient_edge(t));
    homes.push_back(t.device());
    differentiable |= t.requires_grad();
  }
  Array whole = gather(arrays, device, d);
  for (const Array& a : arrays) sizes.push_back(a.size(d));
  return record_many(
      "gather", {std::move(whole)}, std::move(edges),
      {differentiable && thread_state().grad_enabled},
      [d, sizes, homes, scalars](std::span<const Array> dy, const Wanted& wanted,
                                 std::span<Array> grads) {
        std::int64_t start = 0;
        for (std::size_t i = 0; i < sizes.size(); ++i) {
          if (wanted[i]) {
            const Array part = dy[0].narrow(d, start, sizes[i]).to(homes[i]);
            grads[i] = scalars ? part.squeeze(0) : part;
          }
          start += sizes[i];
        }
      },
      Keeps::nothing)[0];
}

void check_outputs(std::span<const Outputs> outputs, std::span<const int> ranks,
                   std::span<const Device> devices, int dim) {
  const Outputs& first = outputs[0];
  for (std::size_t r = 0; r < outputs.size(); ++r) {
    for (std::size_t s = 0; s < outputs[r].tensors.size(); ++s) {
      const Tensor& t = outputs[r].tensors[s];
      check(!t.defined() || t.device() == devices[std::size_t(ranks[r])], "[gather] output '",
            outputs[r].names[s], "' of replica ", ranks[r], " is on ",
            t.defined() ? t.device() : Device{}, ". Return it on the replica's device");
    }
  }
  for (std::size_t r = 1; r < outputs.size(); ++r) {
    const Outputs& other = outputs[r];
    check(other.names == first.names, "[gather] replica ", ranks[r], " returned ",
          other.names.size(), " tensors, replica ", ranks[0], " returned ", first.names.size(),
          ", or their fields differ. All replicas must return the same structure");
    for (std::size_t s = 0; s < first.tensors.size(); ++s) {
      const Tensor &a = first.tensors[s], &b = other.tensors[s];
      const std::string& name = first.names[s];
      check(a.defined() == b.defined(), "[gather] output '", name, "' is ",
            a.defined() ? "defined" : "undefined", " on replica ", ranks[0], " but not on replica ",
            ranks[r]);
      if (!a.defined()) continue;
      check(a.dim() == b.dim() && a.dtype() == b.dtype(), "[gather] output '", name, "': replica ",
            ranks[r], " returned ", b.dtype(), " ", b.shape(), ", replica ", ranks[0], " ",
            a.dtype(), " ", a.shape());
      if (a.dim() == 0) continue;
      const int d = differing_dim(a.shape(), b.shape(), wrap_dim("gather", dim, a.dim()));
      check(d < 0, "[gather] output '", name, "': replica ", ranks[r], " returned ", b.shape(),
            ", replica ", ranks[0], " ", a.shape(), "; dimension ", d,
            " differs. Pad it to a common size, or keep outputs apart with scattered()");
    }
  }
}

}  // namespace tandem::parallel
