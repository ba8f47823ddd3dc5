#include <tandem/parallel/sync_batch_norm.h>

#include <atomic>
#include <utility>

#include <tandem/core/ops/norm.h>
#include <tandem/parallel/worker_group.h>

namespace tandem::parallel {
namespace {

constexpr const char* kName = "SyncBatchNorm";

std::atomic<std::uint64_t> next_layer{1};

/// One call of the layer, on one rank. Its backward happens in another run of the same group.
class Call final : public WholeBatch {
 public:
  Call(const WorkerGroup* group, std::uint64_t layer) : group_(group), layer_(layer) {}

  std::vector<Numbers> forward(Numbers mine) override {
    Meeting::Exchanged exchanged = meet({layer_, false, 0}, std::move(mine));
    round_ = exchanged.round;
    return std::move(exchanged.all);
  }
  // The round tells two calls of one layer apart.
  std::vector<Numbers> backward(Numbers mine) override {
    check(WorkerGroup::current() == group_, "[", kName,
          "] this forward ran inside DataParallel, its backward does not. Return the output and "
          "call backward() on what DataParallel gives back");
    return meet({layer_, true, round_}, std::move(mine)).all;
  }

 private:
  static Meeting::Exchanged meet(const Meeting::Place& place, Numbers mine) {
    const int rank = current_replica().rank;
    return WorkerGroup::current()->meeting().exchange(rank, kName, place, std::move(mine));
  }

  const WorkerGroup* group_;
  std::uint64_t layer_;
  std::int64_t round_ = 0;
};

}  // namespace

SyncBatchNorm::SyncBatchNorm(std::int64_t features, const nn::BatchNormOptions& options)
    : BatchNorm(kName, 2, 4, features, options),
      layer_(next_layer.fetch_add(1, std::memory_order_relaxed)) {}

// Without rows there is no batch to share: parallel_apply(), or an empty batch on the first device.
std::shared_ptr<WholeBatch> SyncBatchNorm::whole_batch() {
  if (current_replica().rows == 0) return nullptr;
  return std::make_shared<Call>(WorkerGroup::current(), layer_);
}

}  // namespace tandem::parallel
