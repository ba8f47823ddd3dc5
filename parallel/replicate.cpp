#include <tandem/parallel/replicate.h>

#include <algorithm>
#include <numeric>

#include <tandem/core/array_ops.h>
#include <tandem/core/autograd.h>
#include <tandem/parallel/reduce.h>

namespace tandem::parallel {

Packed pack(std::span<const Array> arrays) {
  const CategoryScope scope(Category::staging);
  Packed packed{FlatLayout(arrays), {}};
  packed.blocks = packed.layout.make_blocks(arrays[0].device());
  std::vector<int> slots(arrays.size());
  std::iota(slots.begin(), slots.end(), 0);
  packed.layout.fill_slots(packed.blocks, slots, arrays);
  return packed;
}

std::vector<Array> send(const Packed& packed, Device device, std::int64_t bucket_bytes) {
  std::vector<Array> arrived = packed.layout.make_blocks(device);
  for (std::size_t b = 0; b < arrived.size(); ++b) {
    const std::int64_t n = arrived[b].numel();
    const std::int64_t size = std::int64_t(size_of(arrived[b].dtype()));
    const std::int64_t piece = std::max<std::int64_t>(1, bucket_bytes / size);
    for (std::int64_t at = 0; at < n; at += piece) {
      Array to = arrived[b].narrow(0, at, std::min(piece, n - at));
      copy(to, packed.blocks[b].narrow(0, at, std::min(piece, n - at)));
    }
  }
  return arrived;
}

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
  Packed packed;  // once, for all devices
  for (std::size_t r = 0; r < devices.size(); ++r) {
    if (devices[r] == arrays[0].device()) {
      result[r].assign(arrays.begin(), arrays.end());
      continue;
    }
    if (packed.blocks.empty()) packed = pack(arrays);
    const std::vector<Array> blocks = send(packed, devices[r], bucket_bytes);
    for (int i = 0; i < packed.layout.size(); ++i) {
      result[r].push_back(packed.layout.carve(blocks, i));
    }
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
                   std::vector<std::string> tensor_names, int parameter_count,
                   const ReplicateOptions& options)
    : devices(std::move(devs)),
      master(std::move(tensors)),
      names(std::move(tensor_names)),
      parameters(parameter_count),
      local(devices.size()),
      options_(options),
      home_(devices.size()),
      sent_(devices.size()) {
  check_placed();
  std::vector<Array> like;
  for (int i = 0; i < parameters; ++i) like.push_back(master[std::size_t(i)].array());
  layout = FlatLayout(like);
  buckets = make_buckets(layout, options.bucket_bytes);
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
      place = i < parameters ? layout.carve(blocks, i)
                             : Array::empty(m.shape(), m.dtype(), devices[r], nearest_format(m));
      home_[r].push_back(place);
    }
    local[r].push_back(Tensor(std::move(place)));
  }
}

bool Replicas::fits() const {
  for (int i = 0; i < size(); ++i) {
    const Array& m = master[std::size_t(i)].array();
    const Array& l = local[0][std::size_t(i)].array();
    const bool alike =
        m.shape() == l.shape() && m.dtype() == l.dtype() && nearest_format(m) == nearest_format(l);
    if (!alike) return false;
  }
  return true;
}

bool Replicas::lacks(int rank, int slot) const {
  const Array& m = master[std::size_t(slot)].array();
  const Sent& sent = sent_[std::size_t(rank)][std::size_t(slot)];
  return !sent.array.defined() || sent.version != m.version() || !sent.array.same_as(m) ||
         sent.own != local[std::size_t(rank)][std::size_t(slot)].version();
}

// Where to write slot `slot` of `rank`: its home, unless a live graph still reads that.
Array Replicas::free_home(int rank, int slot) {
  const Array& home = home_[std::size_t(rank)][std::size_t(slot)];
  const Array& current = local[std::size_t(rank)][std::size_t(slot)].array();
  const long known = current.storage() == home.storage() ? 2 : 1;  // home_ itself, and the leaf
  if (home.storage().use_count() <= known) return home;
  const CategoryScope scope(Category::parameter);
  return Array::empty_like(home);
}

void Replicas::keep_buffers_of(int rank) {
  for (int slot = parameters; slot < size(); ++slot) {
    const Array& own = local[std::size_t(rank)][std::size_t(slot)].array();
    if (own.version() == sent_[std::size_t(rank)][std::size_t(slot)].own) continue;
    Array m = master[std::size_t(slot)].array();
    copy(m, own);
  }
}

// Only now, after the copy: one that failed must be asked for again.
void Replicas::note_sent(int rank, int slot, const Array& place) {
  const Array& m = master[std::size_t(slot)].array();
  Tensor leaf = local[std::size_t(rank)][std::size_t(slot)];
  if (!leaf.array().same_as(place)) leaf.set_array(place);
  sent_[std::size_t(rank)][std::size_t(slot)] = {m, m.version(), place.version()};
}

Refresh::Refresh(Replicas& replicas, std::span<const int> ranks)
    : replicas_(replicas),
      lacking_(replicas.devices.size()),
      sent_(std::count_if(ranks.begin(), ranks.end(), [](int r) { return r > 0; })) {
  replicas.check_placed();
  const bool coalesce =
      replicas.options_.coalesce.value_or(replicas.devices[0].kind != DeviceKind::cpu);
  std::vector<Array> to_pack;
  for (int slot = 0; slot < replicas.size(); ++slot) {
    const Tensor& master = replicas.master[std::size_t(slot)];
    Tensor& first = replicas.local[0][std::size_t(slot)];
    if (!first.array().same_as(master.array())) first.set_array(master.array());  // replaced
    bool lacks = false;
    for (int r : ranks) {
      Tensor& mine = replicas.local[std::size_t(r)][std::size_t(slot)];
      if (mine.requires_grad() != master.requires_grad()) {
        mine.requires_grad_(master.requires_grad());
      }
      if (r == 0 || !replicas.lacks(r, slot)) continue;
      lacking_[std::size_t(r)].push_back(slot);
      lacks = true;
    }
    any_ |= lacks;
    if (!lacks || !coalesce) continue;
    packed_slots_.push_back(slot);
    to_pack.push_back(master.array());
  }
  if (!to_pack.empty()) packed_ = pack(to_pack);
}

std::int64_t Refresh::send_to(int rank) {
  if (!any_) return 0;
  if (rank == 0) {  // may write its buffers, which are the master's, once all others have a copy
    sent_.wait();
    return 0;
  }
  struct CountDown {  // also when the copy fails
    std::latch& latch;
    ~CountDown() { latch.count_down(); }
  } count_down{sent_};
  if (lacking_[std::size_t(rank)].empty()) return 0;
  return packed_slots_.empty() ? send_pieces(rank) : send_packed(rank);
}

std::int64_t Refresh::send_pieces(int rank) {
  std::int64_t bytes = 0;
  for (int slot : lacking_[std::size_t(rank)]) {
    const Array& m = replicas_.master[std::size_t(slot)].array();
    Array place = replicas_.free_home(rank, slot);
    copy(place, m);
    replicas_.note_sent(rank, slot, place);
    bytes += m.nbytes();
  }
  return bytes;
}

std::int64_t Refresh::send_packed(int rank) {
  const Device here = replicas_.devices[std::size_t(rank)];
  const CategoryScope scope(Category::staging);
  const std::vector<Array> arrived = send(packed_, here, replicas_.options_.bucket_bytes);
  const std::vector<int>& lacking = lacking_[std::size_t(rank)];
  std::vector<Array> places, parts;  // of the slots that are lacking
  for (std::size_t i = 0; i < packed_slots_.size() && places.size() < lacking.size(); ++i) {
    if (packed_slots_[i] != lacking[places.size()]) continue;
    places.push_back(replicas_.free_home(rank, packed_slots_[i]));
    parts.push_back(packed_.layout.view(arrived, int(i)));
  }
  copy_all(places, parts);
  for (std::size_t i = 0; i < places.size(); ++i) {
    replicas_.note_sent(rank, lacking[i], places[i]);
  }
  std::int64_t bytes = 0;
  for (const Array& block : arrived) bytes += block.nbytes();
  return bytes;
}

}  // namespace tandem::parallel
