// Batches and their order. Orders are golden: torch.utils.data.DataLoader of PyTorch 1.13.1 with
// no workers, over a data set whose row i holds the number i.
#include <doctest/doctest.h>

#include <vector>

#include <tandem/core/error.h>
#include <tandem/core/ops/factories.h>
#include <tandem/core/random.h>
#include <tandem/data/loader.h>

#include "tests/support/check.h"

using namespace tandem;
using namespace tandem::test;
using tandem::test::throws;

namespace {

using Epoch = std::vector<std::vector<std::int64_t>>;

/// Row i holds 2 i and 2 i + 1, its target is i.
data::TensorDataset numbers(std::int64_t rows) {
  return {arange(2 * rows).view({rows, 2}), arange(rows)};
}

Epoch targets(const data::DataLoader& loader) {
  Epoch epoch;
  for (auto&& [x, y] : loader) epoch.push_back(y.to_vector<std::int64_t>());
  return epoch;
}

}  // namespace

TEST_CASE("DataLoader: epochs are shuffled as PyTorch's under seed 0") {
  const data::DataLoader loader(numbers(10), {.batch_size = 4, .shuffle = true});
  manual_seed(0);
  CHECK(targets(loader) == Epoch{{6, 7, 1, 4}, {2, 0, 9, 8}, {3, 5}});
  CHECK(targets(loader) == Epoch{{2, 4, 7, 0}, {8, 9, 5, 3}, {6, 1}});
  CHECK(targets(loader) == Epoch{{7, 4, 5, 1}, {9, 3, 8, 2}, {0, 6}});
  CHECK(rand({2}).to_vector<float>() ==
        std::vector<float>{0.022325754165649414f, 0.16885894536972046f});
}

TEST_CASE("DataLoader: drop_last leaves the small batch out, shuffled as PyTorch's under seed 7") {
  const data::DataLoader loader(numbers(10), {.batch_size = 3, .shuffle = true, .drop_last = true});
  manual_seed(7);
  CHECK(targets(loader) == Epoch{{3, 2, 7}, {8, 6, 1}, {5, 9, 0}});
  CHECK(targets(loader) == Epoch{{1, 3, 5}, {2, 8, 9}, {6, 7, 4}});
  CHECK(randint(0, 1000, {4}).to_vector<std::int64_t>() ==
        std::vector<std::int64_t>{988, 761, 158, 631});
}

TEST_CASE("DataLoader: without shuffle rows come in order, and an epoch draws once, as PyTorch's") {
  const data::DataLoader loader(numbers(10), {.batch_size = 4});
  manual_seed(3);
  CHECK(targets(loader) == Epoch{{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9}});
  CHECK(targets(loader) == Epoch{{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9}});
  CHECK(randint(0, 1000, {4}).to_vector<std::int64_t>() ==
        std::vector<std::int64_t>{360, 280, 840, 525});
}

TEST_CASE("DataLoader: a hundred rows, the second epoch under seed 5") {
  const data::DataLoader loader(numbers(100), {.batch_size = 10, .shuffle = true});
  manual_seed(5);
  targets(loader);
  CHECK(targets(loader).front() == std::vector<std::int64_t>{25, 71, 1, 49, 75, 4, 41, 83, 86, 15});
}

TEST_CASE("DataLoader: samples stay with their targets") {
  manual_seed(1);
  for (auto&& [x, y] : data::DataLoader(numbers(7), {.batch_size = 3, .shuffle = true})) {
    CHECK(x.shape() == Shape{y.size(0), 2});
    const auto samples = x.to_vector<std::int64_t>();
    const auto labels = y.to_vector<std::int64_t>();
    for (std::size_t i = 0; i < labels.size(); ++i) {
      CHECK(samples[2 * i] == 2 * labels[i]);
      CHECK(samples[2 * i + 1] == 2 * labels[i] + 1);
    }
  }
}

TEST_CASE("DataLoader: size counts batches with and without the small one") {
  CHECK(data::DataLoader(numbers(10), {.batch_size = 4}).size() == 3);
  CHECK(data::DataLoader(numbers(10), {.batch_size = 4, .drop_last = true}).size() == 2);
  CHECK(data::DataLoader(numbers(3), {.batch_size = 4, .drop_last = true}).size() == 0);
  CHECK(data::DataLoader(numbers(8), {.batch_size = 4}).size() == 2);
  CHECK(targets(data::DataLoader(numbers(3), {.batch_size = 4, .drop_last = true})).empty());
}

TEST_CASE("DataLoader: batches are on the data set's device and count as input") {
  const auto [x, y] = numbers(6);
  const data::DataLoader loader({x.to(dev(1)), y.to(dev(1))}, {.batch_size = 3});
  const data::Batch batch = *loader.begin();
  CHECK(batch.x.device() == dev(1));
  CHECK(batch.y.device() == dev(1));
  CHECK(batch.x.array().storage()->category() == Category::input);
}

TEST_CASE("DataLoader: an empty data set and a batch of nothing are refused") {
  CHECK(throws<UsageError>([] { data::DataLoader loader(numbers(0)); }, {"[DataLoader]", "empty"}));
  CHECK(throws<UsageError>([] { data::DataLoader loader(numbers(2), {.batch_size = 0}); },
                           {"[DataLoader]", "batch_size is 0"}));
}

TEST_CASE("TensorDataset: samples and targets must agree in number") {
  CHECK(throws<UsageError>(
      [] {
        data::TensorDataset(zeros({3, 2}), zeros({2}));
      },
      {"[TensorDataset]", "3 and 2"}));
  CHECK(throws<UsageError>([] { data::TensorDataset(zeros({3}), tensor(1.0)); }, {"no rows"}));
  CHECK(throws<UsageError>([] { data::TensorDataset(Tensor(), zeros({1})); }, {"undefined"}));
}

TEST_CASE("TensorDataset: rows come in the order asked for, from any strides") {
  const Tensor x = arange(6).view({2, 3}).transpose(0, 1);  // row i holds i and i + 3
  const data::TensorDataset dataset(x, arange(3));
  const auto [rows, y] = dataset.rows({2, 0, 2});
  CHECK(rows.to_vector<std::int64_t>() == std::vector<std::int64_t>{2, 5, 0, 3, 2, 5});
  CHECK(y.to_vector<std::int64_t>() == std::vector<std::int64_t>{2, 0, 2});
  CHECK(throws<UsageError>([&] { dataset.rows({3}); }, {"no row 3", "3"}));
  CHECK(throws<UsageError>([&] { dataset.rows({-1}); }, {"no row -1"}));
}
