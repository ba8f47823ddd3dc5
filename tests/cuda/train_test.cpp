// Whole training steps on simulated CUDA devices: they equal the CPU's, on one device and on
// several.
#include <doctest/doctest.h>

#include "runtime/cudasim.h"
#include "tests/cuda/steps.h"

using namespace tandem;
using namespace tandem::test;

namespace {

// Adam divides by the square root of a mean square: small gradients make rounding visible.
Verdict all_close(const std::vector<std::vector<double>>& a,
                  const std::vector<std::vector<double>>& b) {
  if (a.size() != b.size()) return {false, "different numbers of tensors"};
  for (std::size_t i = 0; i < a.size(); ++i) {
    const Verdict v = close(a[i], b[i], {1e-4, 2e-5});
    if (!v.ok) return {false, "tensor " + std::to_string(i) + ": " + v.why};
  }
  return {};
}

}  // namespace

TEST_CASE("train: five steps of a small net equal the CPU's") {
  CHECK(all_close(train<Mlp>({cuda(0)}, {7, 6}, 5), train<Mlp>({cpu(0)}, {7, 6}, 5)));
}

TEST_CASE("train: a small net on two devices equals one, and the same again is bit-equal") {
  const auto two = train<Mlp>(gpus(2), {7, 6}, 4);
  CHECK(all_close(two, train<Mlp>({cpu(0)}, {7, 6}, 4)));
  CHECK(train<Mlp>(gpus(2), {7, 6}, 4) == two);
}

TEST_CASE("train: five steps of a convolutional net equal the CPU's") {
  CHECK(all_close(train<Cnn>({cuda(0)}, {4, 2, 6, 6}, 5), train<Cnn>({cpu(0)}, {4, 2, 6, 6}, 5)));
}

TEST_CASE("train: a convolutional net on two devices equals two CPUs, and is bit-equal again") {
  const auto two = train<Cnn>(gpus(2), {4, 2, 6, 6}, 3);
  CHECK(all_close(two, train<Cnn>({cpu(0), cpu(1)}, {4, 2, 6, 6}, 3)));
  CHECK(train<Cnn>(gpus(2), {4, 2, 6, 6}, 3) == two);
}

TEST_CASE("train: a GPU and a CPU together equal the CPU alone, whichever is first") {
  const auto alone = train<Mlp>({cpu(0)}, {7, 6}, 3);
  CHECK(all_close(train<Mlp>({cuda(0), cpu(0), cuda(1)}, {7, 6}, 3), alone));
  CHECK(all_close(train<Mlp>({cpu(0), cuda(0), cuda(1)}, {7, 6}, 3), alone));
}

TEST_CASE("train: the bytes in use on every device return to what they were") {
  std::vector<std::int64_t> before;
  for (const Device d : gpus(2)) before.push_back(bytes_in_use(d));
  train<Cnn>(gpus(2), {4, 2, 6, 6}, 1);
  for (std::size_t i = 0; i < 2; ++i) CHECK(bytes_in_use(gpus(2)[i]) == before[i]);
  CHECK(cudasim::violations() == std::vector<std::string>{});
}
