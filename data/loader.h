// DataLoader: batches of a data set, in order or shuffled as PyTorch shuffles.
//
//   data::DataLoader loader(train, {.batch_size = 64, .shuffle = true});
//   for (auto&& [x, y] : loader) ...                        // one epoch
//
// Note [What an epoch draws]
//   Starting an epoch takes one int64 from default_generator(), and a shuffled one a second, which
//   seeds a generator of its own for the permutation. So under the same seed the epochs, and all
//   random numbers after them, are those of PyTorch's DataLoader without workers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <vector>

#include <tandem/data/dataset.h>

namespace tandem::data {

struct LoaderOptions {
  std::int64_t batch_size = 1;
  bool shuffle = false;
  bool drop_last = false;   // leave out the last batch if it is smaller
  bool pin_memory = false;  // batches lie in pinned memory (Tensor::pin_memory), for to(gpu)
};

/// Shares the tensors of its data set. Not thread safe, and draws from the process-wide generator.
class DataLoader {
 public:
  /// REQUIRES: batch_size >= 1, and a data set that is not empty.
  explicit DataLoader(TensorDataset dataset, const LoaderOptions& options = {});

  const TensorDataset& dataset() const { return dataset_; }
  /// Batches in an epoch. (Rows: dataset().size().)
  std::int64_t size() const;

  class Iterator;
  /// Starts an epoch: draws its order.
  Iterator begin() const;
  std::default_sentinel_t end() const { return {}; }

 private:
  TensorDataset dataset_;
  LoaderOptions options_;
};

/// Walks through one epoch; a batch is made when it is asked for.
class DataLoader::Iterator {
 public:
  using iterator_concept = std::input_iterator_tag;
  using value_type = Batch;
  using difference_type = std::ptrdiff_t;

  Batch operator*() const;
  Iterator& operator++() {
    ++batch_;
    return *this;
  }
  void operator++(int) { ++batch_; }
  bool operator==(std::default_sentinel_t) const { return batch_ == loader_->size(); }

 private:
  friend class DataLoader;
  Iterator(const DataLoader& loader, std::vector<std::int64_t> order);

  const DataLoader* loader_;
  std::vector<std::int64_t> order_;
  std::int64_t batch_ = 0;
};

}  // namespace tandem::data
