#include <algorithm>
#include <numeric>
#include <utility>

#include <tandem/core/error.h>
#include <tandem/core/memory.h>
#include <tandem/core/random.h>
#include <tandem/data/loader.h>

namespace tandem::data {

DataLoader::DataLoader(TensorDataset dataset, const LoaderOptions& options)
    : dataset_(std::move(dataset)), options_(options) {
  check(options.batch_size >= 1, "[DataLoader] batch_size is ", options.batch_size,
        ", it must be at least 1");
  check(dataset_.size() > 0, "[DataLoader] the data set is empty");
}

std::int64_t DataLoader::size() const {
  const std::int64_t rows = dataset_.size(), batch = options_.batch_size;
  return options_.drop_last ? rows / batch : (rows + batch - 1) / batch;
}

// Note [What an epoch draws], in loader.h
DataLoader::Iterator DataLoader::begin() const {
  default_generator().random_int64();  // PyTorch's seed for workers
  if (options_.shuffle) {
    Generator shuffler(std::uint64_t(default_generator().random_int64()));
    return Iterator(*this, shuffler.permutation(dataset_.size()));
  }
  std::vector<std::int64_t> in_order(std::size_t(dataset_.size()));
  std::iota(in_order.begin(), in_order.end(), 0);
  return Iterator(*this, std::move(in_order));
}

DataLoader::Iterator::Iterator(const DataLoader& loader, std::vector<std::int64_t> order)
    : loader_(&loader), order_(std::move(order)) {}

Batch DataLoader::Iterator::operator*() const {
  const CategoryScope scope(Category::input);
  const std::int64_t batch = loader_->options_.batch_size;
  const auto begin = order_.begin() + batch_ * batch;
  const auto end = begin + std::min(batch, order_.end() - begin);
  Batch rows = loader_->dataset_.rows({begin, end});
  if (loader_->options_.pin_memory) rows = {rows.x.pin_memory(), rows.y.pin_memory()};
  return rows;
}

}  // namespace tandem::data
