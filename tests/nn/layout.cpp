// Networks of channels-last images: nothing is converted on the way, and the numbers are those of
// row-major images.
#include <doctest/doctest.h>

#include <functional>

#include <tandem/core/backend.h>
#include <tandem/core/ops/factories.h>
#include <tandem/core/ops/views.h>
#include <tandem/core/random.h>
#include <tandem/core/trace.h>
#include <tandem/nn/activations.h>
#include <tandem/nn/conv.h>
#include <tandem/nn/linear.h>
#include <tandem/nn/loss.h>
#include <tandem/nn/norm.h>
#include <tandem/nn/pooling.h>
#include <tandem/nn/sequential.h>
#include <tandem/optim/adam.h>
#include <tandem/optim/sgd.h>

#include "tests/support/check.h"

using namespace tandem;
using namespace tandem::test;

namespace {

constexpr MemoryFormat kLast = MemoryFormat::channels_last;

/// The layers of samples/quickstart_cnn.cpp, a quarter as wide.
nn::Sequential quickstart() {
  return {nn::Conv2d(3, 16, 3, {.padding = 1}),
          nn::ReLU(),
          nn::MaxPool2d(2),
          nn::Conv2d(16, 32, 3, {.padding = 1}),
          nn::ReLU(),
          nn::AdaptiveAvgPool2d(1),
          nn::Flatten(),
          nn::Linear(32, 10)};
}

/// Those of samples/train_cnn.cpp on images (3, 8, 8), with normalization and dropout besides.
nn::Sequential train_cnn() {
  return {nn::Conv2d(3, 16, 3, {.padding = 1}),
          nn::BatchNorm2d(16),
          nn::ReLU(),
          nn::MaxPool2d(2),
          nn::Conv2d(16, 32, 3, {.padding = 1}),
          nn::BatchNorm2d(32),
          nn::ReLU(),
          nn::Dropout(0.25),
          nn::MaxPool2d(2),
          nn::Flatten(),
          nn::Linear(128, 24),
          nn::ReLU(),
          nn::Linear(24, 10)};
}

Tensor labels(std::int64_t n) {
  std::vector<std::int64_t> v;
  for (std::int64_t i = 0; i < n; ++i) v.push_back(i * 7 % 10);
  return from_vector(v);
}

/// One step; what it copied to change a layout.
trace::LayoutCopies step(nn::Sequential& net, optim::Optimizer& optimizer, const Tensor& x) {
  manual_seed(1);  // dropout
  const trace::LayoutCopies before = trace::layout_copies();
  optimizer.zero_grad();
  nn::cross_entropy(net(x), labels(x.size(0))).backward();
  optimizer.step();
  return trace::layout_copies() - before;
}

/// Whatever images they get, as oneDNN and GPUs do.
bool convolutions_give(MemoryFormat format) {
  return backend(dev(0)).conv_format() == format;
}

}  // namespace

TEST_CASE(
    "layout: a training step on channels-last images converts nothing, and changes no number") {
  struct Case {
    std::function<nn::Sequential()> make;
    int reshapes;  // Flatten of images that are larger than a pixel, there and back
  };
  for (const Case& c : {Case{quickstart, 0}, Case{train_cnn, 2}}) {
    for (const bool weights_too : {false, true}) {
      CAPTURE(c.reshapes);
      manual_seed(0);
      nn::Sequential rows = c.make();
      nn::Sequential last = nn::clone(rows);
      if (weights_too) last.to(kLast);
      optim::SGD plain(rows.parameters(), {.lr = 0.1, .momentum = 0.9});
      optim::SGD other(last.parameters(), {.lr = 0.1, .momentum = 0.9});
      for (int i = 0; i < 4; ++i) {
        Tensor x = random_tensor({6, 3, 8, 8}, 10 + std::uint64_t(i));
        const trace::LayoutCopies none = step(rows, plain, x);
        // The images of the first layer, once for forward and backward.
        CHECK(none.conversions == (convolutions_give(kLast) ? 1 : 0));
        CHECK(none.reshapes == (convolutions_give(kLast) ? c.reshapes : 0));
        const Tensor fed = x.to(kLast);
        const trace::LayoutCopies made = step(last, other, fed);
        CHECK(made.conversions == 0);
        CHECK(made.reshapes == c.reshapes);
      }
      const auto a = rows.parameters(), b = last.parameters();
      for (std::size_t i = 0; i < a.size(); ++i) {
        CHECK(close(b[i], a[i], {1e-4, 2e-5}));  // four steps of float32 sums in another order
        CHECK(b[i].array().strides() == b[i].grad().array().strides());
      }
    }
  }
}

// PyTorch's example of model.to(memory_format=torch.channels_last): images of one channel are of
// both layouts, so that the first weight that is of one decides.
TEST_CASE("layout: a module that is channels-last makes its images so") {
  nn::Sequential net{nn::Conv2d(1, 4, 3), nn::Conv2d(4, 4, 3), nn::MaxPool2d(2)};
  const Tensor x = random_tensor({2, 1, 8, 8}, 1);
  const Tensor expected = net(x);
  CHECK(expected.is_contiguous() == !convolutions_give(kLast));
  net.to(kLast);
  const Tensor y = net(x);
  CHECK(y.is_contiguous(kLast));
  CHECK(!y.is_contiguous());
  CHECK(close(y, expected));
}

TEST_CASE(
    "Module::to(format): weights with four dimensions and their gradients change, bits do not") {
  nn::Sequential net{nn::Conv2d(3, 4, 3), nn::BatchNorm2d(4), nn::Flatten(), nn::Linear(16, 2)};
  nn::mse_loss(net(random_tensor({2, 3, 4, 4}, 1)), zeros({2, 2})).backward();
  const nn::Sequential before = nn::clone(net);
  std::vector<Tensor> gradients;
  for (const Tensor& p : net.parameters()) gradients.push_back(p.grad().clone());
  const std::vector<Tensor> handles = net.parameters();
  net.to(kLast);
  const auto now = net.parameters();
  auto then = nn::clone(before).parameters();
  for (std::size_t i = 0; i < now.size(); ++i) {
    CHECK(now[i].is_same(handles[i]));
    CHECK(bits_equal(now[i], then[i]));
    CHECK(bits_equal(now[i].grad(), gradients[i]));
    const bool image = now[i].dim() == 4;
    CHECK(now[i].is_contiguous() == !image);
    CHECK(now[i].grad().is_contiguous() == !image);
  }
  net.to(MemoryFormat::contiguous);
  for (const Tensor& p : net.parameters()) CHECK(p.is_contiguous());
}

TEST_CASE("load_state_dict: values go into the strides that are there") {
  nn::Sequential rows{nn::Conv2d(3, 4, 3)}, last{nn::Conv2d(3, 4, 3)};
  last.to(kLast);
  last.load_state_dict(rows.state_dict());
  CHECK(bits_equal(last.parameters()[0], rows.parameters()[0]));
  CHECK(!last.parameters()[0].is_contiguous());
  nn::Sequential again{nn::Conv2d(3, 4, 3)};
  again.load_state_dict(last.state_dict());
  CHECK(bits_equal(again.parameters()[0], rows.parameters()[0]));
  CHECK(again.parameters()[0].is_contiguous());
}
