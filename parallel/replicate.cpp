#include <tandem/parallel/replicate.h>

#include <algorithm>

#include <tandem/core/array_ops.h>
#include <tandem/core/autograd.h>
#include <tandem/parallel/reduce.h>

namespace tandem::parallel {

std::vector<std::vector<Array>> broadcast(std::span<const Array> arrays,
                                          std::span<const Device> devices,
                                          std::int64_t bucket_bytes) {
  check(!devices.empty(), "[broadcast] needs at least one device");
  for (std::size_t i = 1; i < arrays.size(); ++i) {
    check(arrays[i].device() == arrays[0].device(), "[broadcast] array ", i, " is on ",
          arrays[i].device(), ", array 0 on ", arrays[0].device());
  }
  std::vector<std::vector<Array>> result(devices.size());
  if (arrays.empty()) return result;
  const Device home = arrays[0].device();
  const FlatLayout layout(arrays);
  std::vector<Array> staging;  // packed once, for all devices
  if (std::any_of(devices.begin(), devices.end(), [&](Device d) { return d != home; })) {
    const CategoryScope scope(Category::staging);
    staging = layout.make_blocks(home);
    for (int i = 0; i < layout.size(); ++i) {
      Array slot = layout.carve(staging, i);
      copy(slot, arrays[std::size_t(i)]);
    }
  }
  for (std::size_t r = 0; r < devices.size(); ++r) {
    if (devices[r] == home) {
      result[r].assign(arrays.begin(), arrays.end());
      continue;
    }
    std::vector<Array> blocks = layout.make_blocks(devices[r]);
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      const std::int64_t n = blocks[b].numel();
      const auto piece =
          std::max<std::int64_t>(1, bucket_bytes / std::int64_t(size_of(blocks[b].dtype())));
      for (std::int64_t at = 0; at < n; at += piece) {
        Array to = blocks[b].narrow(0, at, std::min(piece, n - at));
        copy(to, staging[b].narrow(0, at, std::min(piece, n - at)));
      }
    }
    for (int i = 0; i < layout.size(); ++i) result[r].push_back(layout.carve(blocks, i));
  }
  return result;
}

std::vector<Tensor> broadcast(const Tensor& x, const std::vector<Device>& devices) {
  check(!devices.empty(), "[broadcast] needs at least one device");
  std::vector<Array> copies;
  for (Device d : devices) copies.push_back(x.array().to(d));
  const bool differentiable = thread_state().grad_enabled && x.requires_grad();
  return record_many(
      "broadcast", std::move(copies), {gradient_edge(x)},
      std::vector<bool>(devices.size(), differentiable),
      [home = x.device()](std::span<const Array> dy, const Wanted&, std::span<Array> grads) {
        std::vector<Array> defined;
        for (const Array& g : dy) {
          if (g.defined()) defined.push_back(g);
        }
        grads[0] = reduce(defined, home);
      },
      Keeps::nothing);
}

Replicas::Replicas(std::vector<Device> devs, std::vector<Tensor> tensors,
                   std::vector<std::string> tensor_names, int parameter_count)
    : devices(std::move(devs)),
      master(std::move(tensors)),
      names(std::move(tensor_names)),
      parameters(parameter_count),
      local(devices.size()),
      home_(devices.size()),
      sent_(devices.size()),
      stale_(devices.size()) {
  check_placed();
  std::vector<Array> like;
  for (int i = 0; i < parameters; ++i) like.push_back(master[std::size_t(i)].array());
  layout = FlatLayout(like);
  for (std::size_t r = 0; r < devices.size(); ++r) make_local(int(r));
}

void Replicas::check_placed() const {
  for (int i = 0; i < size(); ++i) {
    const Tensor& t = master[std::size_t(i)];
    check(t.device() == devices[0], "[data_parallel] '", names[std::size_t(i)], "' is on ",
          t.device(), ", but the first device is ", devices[0],
          ". Move the module there: module.to(", devices[0], ")");
    check(t.is_leaf(), "[data_parallel] '", names[std::size_t(i)],
          "' was computed by an op. Parameters and buffers are leaves: detach() it");
  }
}

void Replicas::make_local(int rank) {
  const auto r = std::size_t(rank);
  sent_[r].resize(std::size_t(size()));
  std::vector<Array> blocks;
  const CategoryScope scope(Category::parameter);
  if (rank > 0) blocks = layout.make_blocks(devices[r]);
  for (int i = 0; i < size(); ++i) {
    const Array& m = master[std::size_t(i)].array();
    Array place = m;
    if (rank > 0) {
      place =
          i < parameters ? layout.carve(blocks, i) : Array::empty(m.shape(), m.dtype(), devices[r]);
      home_[r].push_back(place);
    }
    local[r].push_back(Tensor(std::move(place)));
  }
}

bool Replicas::fits() const {
  for (int i = 0; i < size(); ++i) {
    const Array& m = master[std::size_t(i)].array();
    const Array& l = local[0][std::size_t(i)].array();
    if (m.shape() != l.shape() || m.dtype() != l.dtype()) return false;
  }
  return true;
}

bool Replicas::plan(std::span<const int> ranks) {
  check_placed();
  bool any = false;
  for (int r : ranks) stale_[std::size_t(r)].clear();
  for (int i = 0; i < size(); ++i) {
    const auto at = std::size_t(i);
    const Array& m = master[at].array();
    const bool requires_grad = master[at].requires_grad();
    if (!local[0][at].array().same_as(m)) local[0][at].set_array(m);  // replaced: follow it
    for (int r : ranks) {
      const Tensor& mine = local[std::size_t(r)][at];
      if (mine.requires_grad() != requires_grad) Tensor(mine).requires_grad_(requires_grad);
      if (r == 0) continue;
      const Sent& sent = sent_[std::size_t(r)][at];
      if (sent.array.defined() && sent.version == m.version() &&
          sent.own == mine.array().version() && sent.array.same_as(m)) {
        continue;
      }
      stale_[std::size_t(r)].push_back(i);
      any = true;
    }
  }
  return any;
}

// Where to write slot `slot` of `rank`: its home, unless a live graph still reads that.
Array Replicas::free_home(int rank, int slot) {
  Array& home = home_[std::size_t(rank)][std::size_t(slot)];
  const Array& current = local[std::size_t(rank)][std::size_t(slot)].array();
  const long known = current.storage() == home.storage() ? 2 : 1;  // home_ itself, and the leaf
  if (home.storage().use_count() <= known) return home;
  const CategoryScope scope(Category::parameter);
  return Array::empty_like(home);
}

std::int64_t Replicas::refresh(int rank) {
  std::int64_t bytes = 0;
  for (int i : stale_[std::size_t(rank)]) {
    const auto at = std::size_t(i);
    const Array& m = master[at].array();
    Array place = free_home(rank, i);
    copy(place, m);
    bytes += m.nbytes();
    Tensor leaf = local[std::size_t(rank)][at];
    if (!leaf.array().same_as(place)) leaf.set_array(place);
    sent_[std::size_t(rank)][at] = {m, m.version(), place.version()};
  }
  return bytes;
}

}  // namespace tandem::parallel
