// Dropout: the mask is a function of (seed, call, global sample row, element).
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "tests/support/check.h"

#include <tandem/core/ops/dropout.h>
#include <tandem/core/ops/factories.h>
#include <tandem/core/ops/pointwise.h>
#include <tandem/core/ops/reduce.h>
#include <tandem/core/ops/views.h>
#include <tandem/core/random.h>
#include <tandem/core/thread_state.h>

using namespace tandem;
using namespace tandem::test;

namespace {

// Runs `f` as replica `rank` that has `rows` rows of the batch from `first_row` on.
Tensor as_replica(int rank, std::int64_t first_row, std::int64_t rows, auto f) {
  static const int group = 0;
  const ThreadState before = thread_state();
  thread_state().replica = {&group, rank, 4, first_row, rows};
  const Tensor y = f();
  thread_state() = before;
  return y;
}

}  // namespace

TEST_CASE("dropout: zeros with probability p, the rest scaled, another mask at each call") {
  manual_seed(3);
  const Tensor x = ones({200, 500});
  const Tensor a = dropout(x, 0.3), b = dropout(x, 0.3);
  for (double v : doubles(a)) CHECK_MESSAGE((v == 0 || std::fabs(v - 1 / 0.7) < 1e-6), v);
  // 100000 draws: the share of zeros is 0.3 +- 5 sqrt(0.3 0.7 / 100000) = 0.0072
  const double zeros_share = (a == 0).to(float32).mean().item<double>();
  CHECK(std::fabs(zeros_share - 0.3) < 0.0072);
  CHECK(!bits_equal(a, b));
  manual_seed(3);
  CHECK(bits_equal(dropout(x, 0.3), a));
  CHECK(bits_equal(dropout(x, 0.3), b));
  manual_seed(4);
  CHECK(!bits_equal(dropout(x, 0.3), a));
}

TEST_CASE("dropout: draws nothing from the generator, and the call is counted") {
  manual_seed(0);
  dropout(ones({50}), 0.5);
  CHECK(thread_state().random_calls == 1);
  CHECK(rand({1}).item<float>() == .49625659f);  // the first draw of seed 0
}

TEST_CASE("dropout: not training or p = 0 gives x itself and counts nothing") {
  manual_seed(0);
  const Tensor x = ones({4});
  CHECK(dropout(x, 0.5, false).is_same(x));
  CHECK(dropout(x, 0).is_same(x));
  CHECK(thread_state().random_calls == 0);
}

TEST_CASE("dropout: p = 1 is a multiplication with 0") {
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> y = doubles(dropout(tensor({2.0, inf, -3.0}), 1));
  CHECK(y[0] == 0);
  CHECK(std::isnan(y[1]));
  CHECK(y[2] == 0);
}

TEST_CASE("dropout: backward uses the same mask, saves nothing, and stands a write of x") {
  manual_seed(7);
  const Tensor w = ones({6, 10}, {.requires_grad = true});
  Tensor x = w * 3.0;
  const std::int64_t before = bytes_in_use(dev(0));
  const Tensor y = dropout(x, 0.4);
  CHECK(bytes_in_use(dev(0)) - before < 2 * x.array().nbytes());  // y alone, rounded up
  {
    const NoGrad no_grad;
    x.fill_(100);
  }
  y.sum().backward();
  CHECK(bits_equal(w.grad(), y.detach()));  // y = 3 mask, d y / d w = 3 mask
}

TEST_CASE("dropout: a sample's mask does not depend on how the batch is split") {
  const Tensor x = ones({10, 3, 4});
  manual_seed(5);
  const Tensor whole = dropout(x, 0.5);
  for (const std::vector<std::int64_t>& sizes :
       {std::vector<std::int64_t>{10}, {5, 5}, {4, 3, 3}, {1, 9}}) {
    manual_seed(5);
    std::vector<Tensor> parts;
    std::int64_t first = 0;
    for (std::size_t rank = 0; rank < sizes.size(); ++rank) {
      const std::int64_t rows = sizes[rank];
      parts.push_back(as_replica(int(rank), first, rows,
                                 [&] { return dropout(x.narrow(0, first, rows), 0.5); }));
      first += rows;
    }
    CHECK(bits_equal(cat(parts), whole));
  }
}

TEST_CASE("dropout: rows that are a multiple of the replica's follow their samples") {
  manual_seed(5);
  const Tensor whole = dropout(ones({12, 4}), 0.5);  // 6 samples of 2 rows
  manual_seed(5);
  const Tensor second = as_replica(1, 3, 3, [] { return dropout(ones({6, 4}), 0.5); });
  CHECK(bits_equal(second, whole.narrow(0, 6, 6)));
}

TEST_CASE("dropout: other rows differ from rank to rank") {
  auto draw = [](int rank) {
    manual_seed(5);
    return as_replica(rank, rank * 3, 3, [] { return dropout(ones({7, 50}), 0.5); });
  };
  CHECK(!bits_equal(draw(0), draw(1)));
  CHECK(bits_equal(draw(1), draw(1)));
}

TEST_CASE("dropout: 0-dim, empty and refused input") {
  manual_seed(1);
  CHECK(dropout(tensor(1.0), 0.5).shape() == Shape{});
  CHECK(dropout(zeros({0, 3}), 0.5).shape() == Shape{0, 3});
  CHECK(throws<UsageError>([] { dropout(ones({2}), 1.5); }, {"[dropout]", "1.5", "0 to 1"}));
  CHECK(throws<UsageError>([] { dropout(ones({2}), -0.1, false); }, {"[dropout]", "-0.1"}));
  CHECK(throws<UsageError>([] { dropout(tensor({1, 2}), 0.5); }, {"[dropout]", "int64"}));
  CHECK(throws<UsageError>([] { dropout(Tensor()); }, {"[dropout] argument x is undefined"}));
}
