#include <tandem/parallel/reduce.h>

#include <algorithm>
#include <optional>

#include <tandem/core/array_ops.h>
#include <tandem/core/autograd.h>
#include <tandem/core/stream.h>

namespace tandem::parallel {
namespace {

constexpr std::int64_t kCpuPiece = 256 << 10;  // bytes: what arrives is added while in the cache

}  // namespace

Array reduce(std::span<const Array> parts, Device device) {
  check(!parts.empty(), "[reduce] nothing to add up");
  Array sum;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    check(parts[i].shape() == parts[0].shape() && parts[i].dtype() == parts[0].dtype(),
          "[reduce] part ", i, " is ", parts[i].dtype(), " ", parts[i].shape(), ", part 0 ",
          parts[0].dtype(), " ", parts[0].shape());
    const Array here = parts[i].to(device);
    sum = sum.defined() ? zip<Add>(sum, here) : here;
  }
  return sum;
}

Tensor reduce(const std::vector<Tensor>& parts, Device device) {
  std::vector<Array> arrays;
  std::vector<Edge> edges;
  std::vector<Device> homes;
  bool differentiable = false;
  for (const Tensor& t : parts) {
    arrays.push_back(t.array());
    edges.push_back(gradient_edge(t));
    homes.push_back(t.device());
    differentiable |= t.requires_grad();
  }
  return record_many(
      "reduce", {reduce(arrays, device)}, std::move(edges),
      {differentiable && thread_state().grad_enabled},
      [homes](std::span<const Array> dy, const Wanted& wanted, std::span<Array> grads) {
        for (std::size_t i = 0; i < homes.size(); ++i) {
          if (wanted[i]) grads[i] = dy[0].to(homes[i]);
        }
      },
      Keeps::nothing)[0];
}

Reduction::Reduction(const FlatLayout& layout, const std::vector<Bucket>& buckets,
                     std::span<const Device> devices, std::span<const int> ranks,
                     const std::vector<bool>& wanted)
    : layout_(layout),
      buckets_(buckets),
      home_(devices[0]),
      members_(ranks.size()),
      any_(std::size_t(layout.size()), 0),
      arrived_(buckets.size()),
      bucket_of_(std::size_t(layout.size()), 0) {
  std::vector<int> left(buckets.size(), 0);
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    for (int i = buckets[b].first; i < buckets[b].last; ++i) {
      bucket_of_[std::size_t(i)] = int(b);
      left[b] += int(wanted[std::size_t(i)]);
    }
  }
  for (std::size_t m = 0; m < ranks.size(); ++m) {
    members_[m].device = devices[std::size_t(ranks[m])];
    members_[m].has.assign(std::size_t(layout.size()), 0);
    members_[m].left = left;
    members_[m].waiting.resize(buckets.size());
  }
  if (ranks[0] != 0) {
    const CategoryScope scope(Category::gradient);
    total_ = layout.make_blocks(home_);
  }
  if (home_.kind != DeviceKind::cpu) open_side_streams();
}

// Unless rank 0 is alone: it packs straight into the result.
void Reduction::open_side_streams() {
  std::vector<Device> beside{home_};
  for (const Member& m : members_) {
    if (m.device != home_) beside.push_back(m.device);
  }
  if (beside.size() == 1) return;
  std::int64_t most = 0;  // bytes of a bucket
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const auto [first, last] = buckets_[b];
    const DType dtype = layout_.dtype_of_block(layout_.block_of(first));
    const std::int64_t n = layout_.end(last - 1) - layout_.begin(first);
    if (members_[0].left[b] > 0) most = std::max(most, n * std::int64_t(size_of(dtype)));
  }
  if (members_.size() > 1) {
    const CategoryScope scope(Category::staging);
    room_ = Array::empty({most}, uint8, home_);
  }
  backend(home_).fork_side_stream();  // sums begin after what used this memory before
  beside_ = std::move(beside);
}

void Reduction::join() noexcept {
  for (const Device d : beside_) existing_backend(d).join_side_stream();
  beside_.clear();
}

void Reduction::open(int member) {
  Member& me = members_[std::size_t(member)];
  const CategoryScope scope(Category::gradient);
  me.blocks = layout_.make_blocks(me.device);
  if (me.device == home_) total_ = me.blocks;  // rank 0 packs straight into the result
}

void Reduction::final(int member, int parameter, const Array& gradient) {
  Member& me = members_[std::size_t(member)];
  const int b = bucket_of_[std::size_t(parameter)];
  if (gradient.defined()) {
    Waiting& waiting = me.waiting[std::size_t(b)];
    waiting.parameters.push_back(parameter);
    waiting.gradients.push_back(gradient);
    me.has[std::size_t(parameter)] = 1;
    if (me.device.kind == DeviceKind::cpu) pack(me, b);  // while it is in the cache
  }
  if (--me.left[std::size_t(b)] == 0) arrive(member, b);
}

void Reduction::pack(Member& me, int bucket) const {
  Waiting& waiting = me.waiting[std::size_t(bucket)];
  layout_.fill_slots(me.blocks, waiting.parameters, waiting.gradients);
  waiting = {};
}

void Reduction::close(int member) {
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    if (members_[std::size_t(member)].left[b] >= 0) arrive(member, int(b));
  }
}

// Once per rank and bucket. The acquire-release counter hands all ranks' gradients to the last one,
// and with them the certainty that their side streams wait for what was packed.
void Reduction::arrive(int member, int bucket) {
  Member& me = members_[std::size_t(member)];
  pack(me, bucket);
  me.left[std::size_t(bucket)] = -1;
  if (!beside_.empty()) backend(me.device).fork_side_stream();
  const int before = arrived_[std::size_t(bucket)].fetch_add(1, std::memory_order_acq_rel);
  if (before + 1 < int(members_.size())) return;
  std::unique_lock<std::mutex> one_at_a_time;
  std::optional<SideStreams> aside;
  if (!beside_.empty()) {
    one_at_a_time = std::unique_lock(summing_);
    aside.emplace(beside_);
  }
  Stopwatch watch(home_);
  sum(bucket);
  me.laps.push_back(watch.stop());
}

// In rank order. Neighbours with the same history are added in one go.
void Reduction::sum(int bucket) {
  const auto [first, last] = buckets_[std::size_t(bucket)];
  const auto at = [](int i) { return std::size_t(i); };
  for (const Member& from : members_) {
    for (int i = first; i < last;) {
      if (!from.has[at(i)]) {
        ++i;
        continue;
      }
      int j = i;
      while (j < last && from.has[at(j)] && any_[at(j)] == any_[at(i)]) ++j;
      if (from.device != home_) add_run(from, i, j, any_[at(i)] != 0);
      for (int k = i; k < j; ++k) any_[at(k)] = 1;
      i = j;
    }
  }
}

// total (+)= the rank's slots first .. last-1; on a CPU in pieces that stay in the cache on their
// way, on a GPU through the room that was taken for it.
void Reduction::add_run(const Member& from, int first, int last, bool accumulate) {
  const int block = layout_.block_of(first);
  const Array& source = from.blocks[std::size_t(block)];
  const Array& target = total_[std::size_t(block)];
  const std::int64_t end = layout_.end(last - 1);
  const std::int64_t piece =
      home_.kind == DeviceKind::cpu ? kCpuPiece / std::int64_t(size_of(source.dtype())) : end;
  const CategoryScope scope(Category::staging);
  for (std::int64_t at = layout_.begin(first); at < end; at += piece) {
    const std::int64_t n = std::min(piece, end - at);
    const Array sent = source.narrow(0, at, n);
    Array slot = target.narrow(0, at, n);
    if (!accumulate) {
      copy(slot, sent);
    } else if (!room_.defined()) {
      zip_<Add>(slot, sent.to(home_));
    } else {
      Array arrived = room_.carve(0, sent.shape(), sent.dtype());
      copy(arrived, sent);
      zip_<Add>(slot, arrived);
    }
  }
}

std::int64_t Reduction::bytes(int member) const {
  const Member& m = members_[std::size_t(member)];
  std::int64_t bytes = 0;
  for (int i = 0; i < layout_.size() && m.device != home_; ++i) {
    if (!m.has[std::size_t(i)]) continue;
    const DType dtype = layout_.dtype_of_block(layout_.block_of(i));
    bytes += (layout_.end(i) - layout_.begin(i)) * std::int64_t(size_of(dtype));
  }
  return bytes;
}

Array Reduction::take(int parameter) const {
  return any_[std::size_t(parameter)] ? layout_.carve(total_, parameter) : Array{};
}

}  // namespace tandem::parallel
