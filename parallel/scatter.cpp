#include <tandem/parallel/scatter.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include <tandem/core/array_ops.h>
#include <tandem/core/autograd.h>
#include <tandem/parallel/gather.h>

namespace tandem::parallel {
namespace {

// Boundaries at the rounded shares of the weights: rank r ends at round(N (w_0 + .. + w_r) / W).
std::vector<std::int64_t> weighted_sizes(std::int64_t rows, const std::vector<double>& weights) {
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (double w : weights) {
    check(w >= 0 && std::isfinite(w), "[scatter] a chunk weight is ", w,
          ". Weights are finite and not negative");
  }
  check(total > 0, "[scatter] all chunk weights are 0. One at least is positive");
  std::vector<std::int64_t> sizes;
  double sum = 0;
  std::int64_t end = 0;
  for (double w : weights) {
    sum += w;
    const std::int64_t next = std::llround(double(rows) * (sum / total));
    sizes.push_back(next - end);
    end = next;
  }
  return sizes;
}

std::vector<std::int64_t> chunk_sizes(std::int64_t rows, int devices, const ChunkOptions& o) {
  check(o.sizes.empty() || int(o.sizes.size()) == devices, "[scatter] ", o.sizes.size(),
        " chunk sizes for ", devices, " devices. Give one for each device");
  check(o.weights.empty() || int(o.weights.size()) == devices, "[scatter] ", o.weights.size(),
        " chunk weights for ", devices, " devices. Give one for each device");
  if (!o.sizes.empty()) {
    std::int64_t sum = 0;
    for (std::int64_t s : o.sizes) {
      check(s >= 0, "[scatter] a chunk size is ", s);
      sum += s;
    }
    check(sum == rows, "[scatter] chunk sizes add up to ", sum, ", the batch has ", rows, " rows");
    return o.sizes;
  }
  if (!o.weights.empty()) return weighted_sizes(rows, o.weights);
  std::vector<std::int64_t> sizes;
  std::int64_t left = rows;
  for (int r = 0; r < devices; ++r) {
    const std::int64_t ceil_of_all = (rows + devices - 1) / devices;
    const std::int64_t balanced = (left + devices - r - 1) / (devices - r);
    sizes.push_back(o.rule == ChunkRule::ceil ? std::min(ceil_of_all, left) : balanced);
    left -= sizes.back();
  }
  return sizes;
}

}  // namespace

std::vector<int> Split::active() const {
  std::vector<int> list;
  for (int r = 0; r < ranks(); ++r) {
    if (rows(r) > 0) list.push_back(r);
  }
  if (list.empty()) list.push_back(0);
  return list;
}

Split split_rows(std::int64_t rows, int devices, const ChunkOptions& options) {
  check(devices >= 1, "[scatter] needs at least one device");
  Split split{{0}};
  for (std::int64_t size : chunk_sizes(rows, devices, options)) {
    split.first.push_back(split.first.back() + size);
  }
  return split;
}

std::vector<Array> scatter(const Array& x, std::span<const Device> devices, const Split& split,
                           int dim) {
  std::vector<Array> chunks;
  for (int r : split.active()) {
    chunks.push_back(
        x.narrow(dim, split.first[std::size_t(r)], split.rows(r)).to(devices[std::size_t(r)]));
  }
  return chunks;
}

std::vector<Tensor> scatter(const Tensor& x, const std::vector<Device>& devices,
                            const ScatterOptions& options) {
  check(!devices.empty(), "[scatter] needs at least one device");
  check(x.dim() > 0, "[scatter] a 0-dim tensor has no rows to split. Copy it with replicated(t)");
  const int dim = wrap_dim("scatter", options.dim, x.dim());
  const Split split = split_rows(x.size(dim), int(devices.size()), options.chunks);
  std::vector<Array> chunks = scatter(x.array(), devices, split, dim);
  const bool differentiable = thread_state().grad_enabled && x.requires_grad();
  const std::size_t n = chunks.size();
  return record_many(
      "scatter", std::move(chunks), {gradient_edge(x)}, std::vector<bool>(n, differentiable),
      [split, dim, shape = x.shape(), format = nearest_format(x.array()), dtype = x.dtype(),
       home = x.device()](std::span<const Array> dy, const Wanted&, std::span<Array> grads) {
        Array dx = Array::empty(shape, dtype, home, format);
        fill(dx, 0);
        const std::vector<int> active = split.active();
        for (std::size_t i = 0; i < dy.size(); ++i) {
          if (!dy[i].defined()) continue;
          Array part = dx.narrow(dim, split.first[std::size_t(active[i])], split.rows(active[i]));
          copy(part, dy[i]);
        }
        grads[0] = std::move(dx);
      },
      Keeps::nothing);
}

std::int64_t batch_rows(const Arguments& arguments, int dim) {
  std::int64_t rows = -1;
  std::size_t who = 0;
  for (std::size_t i = 0; i < arguments.tensors.size(); ++i) {
    if (!arguments.is_batch[i]) continue;
    const Tensor& t = arguments.tensors[i];
    const int d = wrap_dim("scatter", dim, t.dim());
    if (rows < 0) {
      rows = t.shape()[d];
      who = i;
    }
    check(t.shape()[d] == rows, "[scatter] ", arguments.names[who], " has ", rows, " rows but ",
          arguments.names[i], " has ", t.shape()[d], " (dimension ", d,
          "). Mark what every replica needs whole: replicated(t)");
  }
  return rows;
}

}  // namespace tandem::parallel
