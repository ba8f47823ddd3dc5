// Convolution under DataParallel: the rows of PyTorch's tests that need it, and N replicas are one.
#include <tandem/core/array_ops.h>

#include <thread>

#include "tests/parallel/models.h"

namespace tandem::test {

namespace {

/// Row D15's model: images (2, 3, 3) to two logarithms of probabilities.
nn::Sequential d15_model() {
  return nn::Sequential{nn::Conv2d(2, 2, 2), nn::ReLU(), nn::Flatten(), nn::Linear(8, 2)};
}
Tensor d15_loss(const Tensor& logits) {
  const Tensor y = log_softmax(logits, 1);
  return nn::mse_loss(y, zeros(y.shape(), {.device = y.device()}));
}

/// One iteration of plain gradient descent.
template <class M, class Net>
void d15_step(M& model, Net& net, const Tensor& x) {
  d15_loss(net(x)).backward();
  sgd(model.parameters(), 0.1);
}

/// The layers of Conv-ReLU-Pool-Conv-ReLU-Pool-Flatten-Linear on images (1, 8, 8).
nn::Sequential small_cnn() {
  return nn::Sequential{nn::Conv2d(1, 4, 3, {.padding = 1}),
                        nn::ReLU(),
                        nn::MaxPool2d(2),
                        nn::Conv2d(4, 6, 3, {.padding = 1}),
                        nn::ReLU(),
                        nn::AvgPool2d(2),
                        nn::Flatten(),
                        nn::Linear(24, 3)};
}

}  // namespace

TEST_CASE("D15 step: after each of three iterations all parameters agree with one device's") {
  for (int n : {1, 2, 3}) {
    nn::Sequential one = d15_model();
    nn::Sequential many = nn::clone(one);
    DataParallel net(many, on(n));
    for (int i = 0; i < 3; ++i) {
      const Tensor x = ones({16, 2, 3, 3}) + i;
      d15_step(one, one, x);
      d15_step(many, net, x);
      CHECK(all_close(many.parameters(), one.parameters()));
    }
  }
}

TEST_CASE("X14 step: ten steps of D15's net agree for K = 1, 2, 3, 4 and 13 rows") {
  for (int n : {1, 2, 3, 4}) {
    nn::Sequential one = d15_model();
    nn::Sequential many = nn::clone(one);
    DataParallel net(many, on(n));
    for (int i = 0; i < 10; ++i) {
      const Tensor x = values({13, 2, 3, 3}, 20 + std::uint64_t(i));
      d15_step(one, one, x);
      d15_step(many, net, x);
    }
    CHECK(all_close(many.parameters(), one.parameters()));
  }
}

namespace {

Tensor channels_last(const Tensor& t) {
  return Tensor(t.array().permute({0, 2, 3, 1}).contiguous().permute({0, 3, 1, 2}));
}
bool is_channels_last(const Tensor& t) {
  return t.is_contiguous(MemoryFormat::channels_last) && !t.is_contiguous();
}

/// Four 2x2 convolutions 8-16-32-16-8; the weights of the first `last` of them channels-last.
nn::Sequential d10_model(int last) {
  nn::Sequential model;
  const std::int64_t channels[] = {8, 16, 32, 16, 8};
  for (std::size_t i = 0; i < 4; ++i) {
    nn::Conv2d layer(channels[i], channels[i + 1], 2);
    if (int(i) < last) layer.weight.set_array(channels_last(layer.weight).array());
    model.push_back(layer);
  }
  return model;
}

}  // namespace

TEST_CASE("D10 step: gradients have the layout of their parameters, and agree in float32") {
  for (int last : {0, 2, 4}) {
    for (int n : {2, 3}) {
      CAPTURE(last);
      nn::Sequential one = d10_model(last);
      nn::Sequential many = nn::clone(one);
      DataParallel net(many, on(n));
      Tensor x = values({8 * n, 8, 8, 8}, 1), target = values({8 * n, 8, 4, 4}, 2);
      if (last > 0) x = channels_last(x);
      for (int step = 0; step < 2; ++step) {
        nn::mse_loss(one(x), target).backward();
        nn::mse_loss(net(x), target).backward();
        CHECK(all_close(grads(many), grads(one), {0, 1e-5}));
        for (nn::Sequential* model : {&one, &many}) {
          int layer = 0;
          for (const Tensor& p : model->parameters()) {
            CHECK(p.grad().array().strides() == p.array().strides());
            if (p.dim() == 4) CHECK(is_channels_last(p.grad()) == (layer++ < last));
          }
        }
        sgd(one.parameters(), 0.1), sgd(many.parameters(), 0.1);
      }
    }
  }
}

TEST_CASE("convolution: N replicas equal one, for every N, batch and step") {
  for (int n : {1, 2, 3, 4, 8}) {
    for (std::int64_t rows : {1, 3, 10, 13}) {
      CAPTURE(n);
      CAPTURE(rows);
      nn::Sequential one = small_cnn();
      nn::Sequential many = nn::clone(one);
      DataParallel net(many, on(n, {.bucket_bytes = 1024}));
      check_equal_steps(one, net, {rows, 1, 8, 8}, 3, 2);
    }
  }
}

TEST_CASE("convolution: a replica computes the bits that one device computes for its rows") {
  nn::Sequential model{nn::Conv2d(3, 8, 3, {.padding = 1}), nn::ReLU(), nn::MaxPool2d(2)};
  const Tensor x = values({7, 3, 9, 9}, 1);
  const NoGrad no_grad;
  const Tensor expected = model(x);
  for (int n : {2, 3, 4}) {
    DataParallel net(model, on(n));
    CHECK(bits_equal(net(x), expected));
  }
}

TEST_CASE("convolution: a stride that changes between steps reaches the replicas") {
  nn::Conv2d layer(1, 1, 2);
  DataParallel net(layer, on(2));
  const Tensor x = values({4, 1, 6, 6}, 1);
  CHECK(net(x).shape() == Shape{4, 1, 5, 5});
  net.module().stride = {2, 1};
  CHECK(net(x).shape() == Shape{4, 1, 3, 5});
}

TEST_CASE("data_parallel: two engines with convolutions share devices from two threads") {
  const auto work = [](std::uint64_t seed) {
    const DeviceScope scope(dev(0));
    nn::Sequential one{nn::Conv2d(2, 4, 3), nn::ReLU(), nn::Flatten(), nn::Linear(64, 4)};
    nn::Sequential m = nn::clone(one);
    DataParallel net(m, on(2));
    bool good = true;
    for (std::uint64_t i = 0; i < 20; ++i) {
      // Many sizes: kernels are made for each while the other engine runs its own.
      const Tensor x = values({std::int64_t(2 + (seed + i) % 7), 2, 6, 6}, seed + i);
      good &= close(net(x), one(x), {2e-5, 2e-6}).ok;
    }
    CHECK(good);
  };
  std::thread a(work, 1), b(work, 4);
  a.join(), b.join();
}

}  // namespace tandem::test
