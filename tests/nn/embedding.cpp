// Embedding and the ops with an index, against PyTorch's numbers.
#include <doctest/doctest.h>

#include <tandem/core/autograd.h>
#include <tandem/core/ops/factories.h>
#include <tandem/core/ops/indexing.h>
#include <tandem/core/ops/reduce.h>
#include <tandem/core/random.h>
#include <tandem/nn/embedding.h>

#include "tests/nn/golden_words.h"
#include "tests/nn/pattern.h"

using namespace tandem;
using namespace tandem::test;

namespace {

Tensor ints(const std::vector<std::int64_t>& values, const Shape& shape) {
  return from_vector(values, shape);
}

}  // namespace

TEST_CASE("index_select and gather: values and gradients are PyTorch's") {
  Tensor x = pattern({4, 3, 5}, 37).requires_grad_();
  const Tensor y = index_select(x, 1, tensor({2, 0, 2}));
  CHECK(y.shape() == Shape{4, 3, 5});
  CHECK(close(y, kIndexSelect, {0, 1e-8}));  // nine digits were kept
  y.backward(pattern(y.shape(), 29));
  CHECK(close(x.grad(), kIndexSelectGrad));

  x.zero_grad();
  std::vector<std::int64_t> index;
  for (const double v : doubles(pattern({2, 4, 5}, 13))) index.push_back(std::int64_t(v + 3) % 3);
  const Tensor z = gather(x, 1, ints(index, {2, 4, 5}));
  CHECK(close(z, kGather, {0, 1e-8}));
  z.backward(pattern(z.shape(), 29));
  CHECK(close(x.grad(), kGatherGrad));
}

TEST_CASE("index ops: what does not fit is refused with position, value and the way out") {
  const Tensor x = zeros({4, 3});
  CHECK(throws<UsageError>(
      [&] {
        index_select(x, 0, tensor({0, 1, 4}));
      },
      {"[index_select] index 4 at position 2 is outside [0, 4)"}));
  CHECK(throws<UsageError>([&] { index_select(x, 1, tensor({-1})); }, {"index -1 at position 0"}));
  CHECK(throws<UsageError>(
      [&] {
        gather(x, 1, ints({0, 1, 2, 3}, {2, 2}));
      },
      {"[gather] index 3 at position 3 is outside [0, 3)"}));
  CHECK(throws<UsageError>(
      [&] {
        embedding(x, ints({0, 3, 1, 9}, {2, 2}));
      },
      {"[embedding] index 9 at position 3 is outside [0, 4)"}));
  CHECK(throws<UsageError>([&] { embedding(x, zeros({2})); }, {"float32", "to(int64)"}));
  CHECK(throws<UsageError>([&] { gather(x, 0, ints({0}, {1})); }, {"(1,)", "(4, 3)"}));
  CHECK(throws<UsageError>(
      [&] {
        gather(x, 0, zeros({1, 4}, {.dtype = int64}));
      },
      {"larger", "dimension 1"}));
  CHECK(throws<UsageError>([&] { index_select(x, 0, ints({0, 1}, {1, 2})); }, {"one dimension"}));
  CHECK(throws<UsageError>([&] { index_select(x, 2, tensor({0})); }, {"index_select"}));
  CHECK(throws<UsageError>([&] { embedding(x, tensor({0}), 4); }, {"padding_idx 4", "4 rows"}));
  CHECK(throws<UsageError>([&] { embedding(x, zeros({1}, {int64, dev(1)})); }, {dev_name(1)}));
  CHECK(throws<UsageError>([&] { embedding(Tensor(), tensor({0})); }, {"weight"}));
}

TEST_CASE("index ops: an index written before backward is noticed") {
  Tensor x = zeros({4, 3}).requires_grad_(), index = tensor({1, 2});
  const Tensor y = sum(index_select(x, 0, index));
  index.fill_(0);
  CHECK(throws<StaleGraphError>([&] { y.backward(); }));
}

// log and cos of the normal draws may differ in the last bits.
TEST_CASE(
    "Embedding: first weights and gradient are PyTorch's; the padding row is zero and stays") {
  manual_seed(3);
  nn::Embedding table(7, 5, {.padding_idx = 2});
  CHECK(close(table.weight, kEmbeddingWeight, {1e-5, 1e-6}));
  CHECK(close(table.weight[2], std::vector<double>(5, 0), {0, 0}));
  const Tensor y = table(ints({2, 0, 6, 0, 0, 1}, {2, 3}));
  CHECK(y.shape() == Shape{2, 3, 5});
  CHECK(bits_equal(y[1][0], table.weight[0]));
  y.backward(pattern(y.shape(), 29));
  CHECK(close(table.weight.grad(), kEmbeddingGrad));
  CHECK(close(table.weight.grad()[2], std::vector<double>(5, 0), {0, 0}));
}

TEST_CASE("Embedding: padding from the end, printing, and sizes that are refused") {
  CHECK(nn::Embedding(7, 5, {.padding_idx = -1}).padding_idx == 6);
  CHECK(str(nn::Embedding(7, 5), nn::Embedding(7, 5, {.padding_idx = 0})) ==
        "Embedding(7, 5)Embedding(7, 5, padding_idx=0)");
  CHECK(nn::Embedding(7, 5).parameters().size() == 1);
  CHECK(throws<UsageError>([] { nn::Embedding(7, 5, {.padding_idx = 7}); }, {"padding_idx 7"}));
  CHECK(throws<UsageError>([] { nn::Embedding(-7, 5); }, {"[Embedding]", "-7"}));
}
