// BatchNorm1d, BatchNorm2d and LayerNorm against PyTorch's numbers; state, modes and errors.
#include <doctest/doctest.h>

#include <span>
#include <sstream>

#include <tandem/core/ops/factories.h>
#include <tandem/core/ops/reduce.h>
#include <tandem/core/thread_state.h>
#include <tandem/nn/norm.h>

#include "tests/nn/golden_norm.h"
#include "tests/support/check.h"

using namespace tandem;
using namespace tandem::test;

namespace {

using Golden = std::span<const double>;

// Sums in another order, and alpha rounded once instead of twice: a few units in the last place of
// numbers up to ten.
constexpr Tolerance kLastPlaces{3e-6, 3e-6};

// The numbers of make_norm.py; exact in float32.
Tensor pattern(const Shape& shape, int a, int b) {
  std::vector<double> values;
  for (int i = 0; i < shape.numel(); ++i) values.push_back(((i * a + b) % 64) / 16.0 - 2);
  return tensor_of(values, shape);
}

Verdict is(const Tensor& t, Golden expected) {
  return close(t, std::vector<double>(expected.begin(), expected.end()), kLastPlaces);
}

template <class M>
void set_affine(M& layer) {
  const NoGrad no_grad;
  layer.weight.copy_(pattern(layer.weight.shape(), 13, 40));
  layer.bias.copy_(pattern(layer.bias.shape(), 29, 7));
}

struct Gradients {
  Golden dx, dweight, dbias;
};

template <class M>
void check_gradients(M& layer, Tensor x, const Tensor& y, const Gradients& golden) {
  x.zero_grad();
  layer.zero_grad();
  y.backward(pattern(y.shape(), 27, 5));
  CHECK(is(x.grad(), golden.dx));
  CHECK(is(layer.weight.grad(), golden.dweight));
  CHECK(is(layer.bias.grad(), golden.dbias));
}

struct BatchNormGolden {
  Golden y[3], mean[3], var[3];
  Gradients train;
  Golden eval_y;
  Gradients eval;
};

template <class M>
void check_batch_norm(M& layer, const Shape& shape, const BatchNormGolden& golden) {
  set_affine(layer);
  Tensor x, y;
  for (int step = 0; step < 3; ++step) {
    CAPTURE(step);
    x = pattern(shape, 37 + 2 * step, 11 * step).requires_grad_();
    y = layer(x);
    CHECK(is(y, golden.y[step]));
    CHECK(is(layer.running_mean, golden.mean[step]));
    CHECK(is(layer.running_var, golden.var[step]));
    CHECK(layer.num_batches_tracked.template item<int>() == step + 1);
  }
  check_gradients(layer, x, y, golden.train);
  layer.eval();
  y = layer(x);
  CHECK(is(y, golden.eval_y));
  check_gradients(layer, x, y, golden.eval);
  CHECK(is(layer.running_mean, golden.mean[2]));
  CHECK(layer.num_batches_tracked.template item<int>() == 3);
}

std::string printed(const nn::Module& m) {
  std::ostringstream out;
  out << m;
  return out.str();
}

std::vector<std::string> keys(nn::Module& m) {
  std::vector<std::string> names;
  for (const auto& entry : m.state_dict()) names.push_back(entry.first);
  return names;
}

}  // namespace

TEST_CASE("BatchNorm1d: (N, C) has PyTorch's outputs, statistics and gradients") {
  nn::BatchNorm1d layer(3);
  check_batch_norm(layer, {5, 3},
                   {{kRowsY0, kRowsY1, kRowsY2},
                    {kRowsMean0, kRowsMean1, kRowsMean2},
                    {kRowsVar0, kRowsVar1, kRowsVar2},
                    {kRowsDx, kRowsDweight, kRowsDbias},
                    kRowsEvalY,
                    {kRowsEvalDx, kRowsEvalDweight, kRowsEvalDbias}});
}

TEST_CASE("BatchNorm1d: (N, C, L) without momentum averages over all batches, as PyTorch's") {
  nn::BatchNorm1d layer(2, {.momentum = std::nullopt});
  check_batch_norm(layer, {3, 2, 4},
                   {{kLinesY0, kLinesY1, kLinesY2},
                    {kLinesMean0, kLinesMean1, kLinesMean2},
                    {kLinesVar0, kLinesVar1, kLinesVar2},
                    {kLinesDx, kLinesDweight, kLinesDbias},
                    kLinesEvalY,
                    {kLinesEvalDx, kLinesEvalDweight, kLinesEvalDbias}});
}

TEST_CASE("BatchNorm2d: (N, C, H, W) has PyTorch's outputs, statistics and gradients") {
  nn::BatchNorm2d layer(2, {.eps = 1e-3, .momentum = 0.3});
  check_batch_norm(layer, {2, 2, 3, 2},
                   {{kImagesY0, kImagesY1, kImagesY2},
                    {kImagesMean0, kImagesMean1, kImagesMean2},
                    {kImagesVar0, kImagesVar1, kImagesVar2},
                    {kImagesDx, kImagesDweight, kImagesDbias},
                    kImagesEvalY,
                    {kImagesEvalDx, kImagesEvalDweight, kImagesEvalDbias}});
}

TEST_CASE("LayerNorm: over one and two dimensions as PyTorch's") {
  nn::LayerNorm rows(6), planes({2, 3}, {.eps = 1e-3});
  set_affine(rows);
  set_affine(planes);
  const Tensor a = pattern({4, 6}, 37, 0).requires_grad_();
  const Tensor b = pattern({3, 2, 3}, 37, 0).requires_grad_();
  const Tensor y = rows(a), z = planes(b);
  CHECK(is(y, kLayerY));
  CHECK(is(z, kPlanesY));
  check_gradients(rows, a, y, {kLayerDx, kLayerDweight, kLayerDbias});
  check_gradients(planes, b, z, {kPlanesDx, kPlanesDweight, kPlanesDbias});
}

TEST_CASE("BatchNorm: the state is PyTorch's, and survives a round trip") {
  nn::BatchNorm2d a(3), b(3);
  CHECK(keys(a) == std::vector<std::string>{"bias", "num_batches_tracked", "running_mean",
                                            "running_var", "weight"});
  CHECK(a.parameters().size() == 2);
  CHECK(a.buffers().size() == 3);
  CHECK(a.num_batches_tracked.dtype() == int64);
  CHECK(a.num_batches_tracked.shape() == Shape{});
  CHECK(close(a.weight, {1, 1, 1}));
  CHECK(close(a.running_var, {1, 1, 1}));
  a(pattern({4, 3, 2, 2}, 37, 0));
  b.load_state_dict(a.state_dict());
  CHECK(bits_equal(b.running_var, a.running_var));
  CHECK(b.num_batches_tracked.item<int>() == 1);
  b(pattern({4, 3, 2, 2}, 37, 0));
  CHECK(a.num_batches_tracked.item<int>() == 1);
}

TEST_CASE("BatchNorm: without affine and without tracking there is no state") {
  nn::BatchNorm1d layer(3, {.affine = false, .track_running_stats = false});
  CHECK(keys(layer).empty());
  const Tensor x = pattern({4, 3}, 37, 0);
  const Tensor trained = layer(x);
  layer.eval();  // uses the batch's statistics all the same
  CHECK(bits_equal(layer(x), trained));
  // Columns have mean 0 and variance v / (v + eps).
  CHECK(close(mean(trained, {0}), {0, 0, 0}, {0, 1e-6}));
  CHECK(close(mean(trained * trained, {0}), {1, 1, 1}, {1e-4, 0}));
}

TEST_CASE("BatchNorm: converting leaves the counter an integer, and float16 trains") {
  nn::BatchNorm1d layer(3);
  layer.to(float16);
  CHECK(layer.running_var.dtype() == float16);
  CHECK(layer.num_batches_tracked.dtype() == int64);
  const Tensor x = pattern({4, 3}, 37, 0).to(float16).requires_grad_();
  sum(layer(x)).backward();
  CHECK(close(layer.bias.grad(), {4, 4, 4}));
  CHECK(layer.num_batches_tracked.item<int>() == 1);
}

TEST_CASE("BatchNorm: under NoGrad the running statistics still move") {
  const NoGrad no_grad;
  nn::BatchNorm1d layer(1);
  CHECK(!layer(tensor_of({0, 2}, {2, 1})).requires_grad());
  CHECK(close(layer.running_mean, {0.1}));
  CHECK(close(layer.running_var, {1.1}));
}

TEST_CASE("BatchNorm, LayerNorm: print as PyTorch's") {
  CHECK(printed(nn::BatchNorm1d(5)) ==
        "BatchNorm1d(5, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True)");
  CHECK(printed(nn::BatchNorm2d(3, {.momentum = std::nullopt, .affine = false})) ==
        "BatchNorm2d(3, eps=1e-05, momentum=None, affine=False, track_running_stats=True)");
  CHECK(printed(nn::LayerNorm(4)) == "LayerNorm((4,), eps=1e-05, elementwise_affine=True)");
  CHECK(printed(nn::LayerNorm({2, 3}, {.elementwise_affine = false})) ==
        "LayerNorm((2, 3), eps=1e-05, elementwise_affine=False)");
}

TEST_CASE("BatchNorm: refuses other shapes, and one value per channel, changing nothing") {
  nn::BatchNorm1d rows(3);
  nn::BatchNorm2d images(3);
  CHECK(throws<UsageError>([&] { rows(ones({2, 3, 4, 5})); }, {"[BatchNorm1d]", "(2, 3, 4, 5)"}));
  CHECK(throws<UsageError>([&] { images(ones({2, 3})); }, {"[BatchNorm2d]", "4 dimensions"}));
  CHECK(throws<UsageError>([&] { rows(ones({2, 4})); }, {"(N, 3", "(2, 4)"}));
  CHECK(throws<UsageError>([&] { rows({}); }, {"[BatchNorm1d]", "undefined"}));
  CHECK(throws<UsageError>([&] { rows(ones({1, 3})); }, {"more than one value per channel"}));
  CHECK(close(rows.running_mean, {0, 0, 0}));
  CHECK(rows.num_batches_tracked.item<int>() == 0);
  rows.eval();
  CHECK(rows(ones({1, 3})).shape() == Shape{1, 3});
}
