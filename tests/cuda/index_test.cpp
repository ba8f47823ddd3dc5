// Checking indices that live on a GPU, with and without waiting for it.
#include "runtime/cudasim.h"
#include "tests/cuda/families.h"
#include "tests/support/indices.h"

using namespace tandem;
using namespace tandem::test;

namespace {

// How often the host waited for a GPU in `f`.
int waits(const std::function<void()>& f) {
  const auto count = [] {
    return cudasim::calls("cudaStreamSynchronize") + cudasim::calls("cudaEventSynchronize") +
           cudasim::calls("cudaDeviceSynchronize");
  };
  const int before = count();
  f();
  return count() - before;
}

// The operands are made at once, since that may wait; the call is left to whoever counts.
std::function<void()> picking(const Array& index) {
  const Side side{index.device(), float32};
  const Array x = side.array(random_doubles(12, 1), {6, 2}, float32);
  Array y = side.garbage({index.size(0), 2}, float32);
  return
      [=]() mutable { side.kernels().gather("embedding", 0, x, as_rows(index, y.shape(), 0), y); };
}

std::function<void()> losing(const Array& target, std::int64_t ignored = -100) {
  const Side side{target.device(), float32};
  const std::int64_t n = target.size(0);
  const Array logp = side.array(random_doubles(n * 6, 2), {n, 6}, float32);
  Array loss = side.garbage({n}, float32), row_weight = side.garbage({n}, float32);
  return [=]() mutable { side.kernels().nll(logp, target, {}, ignored, loss, row_weight); };
}

Array index_of(const std::vector<double>& values, Device device = cuda(0)) {
  return array_of(values, {std::int64_t(values.size())}, int64, device);
}

}  // namespace

TEST_CASE("index: what the host has sent is checked without waiting for the GPU") {
  const std::vector<double> inside = {0, 5, 3, 2};
  const Array direct = index_of(inside), sent = index_of(inside, cpu(0)).to(cuda(0));
  const Array forwarded = sent.to(cuda(1)), part = sent.narrow(0, 1, 2).to(cuda(1));
  Array written = Array::empty({4}, int64, cuda(0));
  copy(written, index_of(inside, cpu(0)));
  for (const Array& index :
       {direct, sent, sent.narrow(0, 1, 2), sent.slice(0, 0, 4, 2), forwarded, part, written}) {
    CHECK(waits(picking(index)) == 0);
    CHECK(waits(losing(index)) == 0);
  }
}

TEST_CASE("index: what was written on the GPU since is looked at there") {
  Array index = index_of({0, 5, 3, 2}, cpu(0)).to(cuda(0));
  fill(index, 4);
  CHECK(waits(picking(index)) > 0);
  fill(index, 6);
  CHECK(throws<UsageError>(picking(index), {"[embedding] index 6 at position 0"}));
  CHECK(throws<UsageError>(losing(index), {"target 6 of row 0"}));
  copy(index, index_of({1, 2, 3, 7}).to(cuda(0)));  // on the device
  CHECK(throws<UsageError>(picking(index), {"index 7 at position 3"}));
  Array some = index.narrow(0, 0, 2);
  copy(some, index_of({8, 8}, cpu(0)));  // a part of it from the host
  CHECK(throws<UsageError>(picking(index), {"index 8 at position 0"}));
}

TEST_CASE("index: what is outside of the size, or ignored, is an error or none as ever") {
  for (const std::vector<double>& values :
       {std::vector<double>{0, 1, 6}, std::vector<double>{0, -1, 3}}) {
    const Array index = index_of(values, cpu(0)).to(cuda(0));
    CHECK(throws<UsageError>(picking(index), {"[embedding] index"}));
    CHECK(throws<UsageError>(losing(index), {"[cross_entropy] target"}));
  }
  losing(index_of({0, -100, 3}, cpu(0)).to(cuda(0)))();
  losing(index_of({0, 9, 3}, cpu(0)).to(cuda(0)), 9)();
  picking(index_of({}, cpu(0)).to(cuda(0)))();
}
