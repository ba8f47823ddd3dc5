// Channels-last images under DataParallel: every chapter keeps the layout and converts nothing. Row
// D10 of PyTorch's tests, layouts per layer, is in conv_test.cpp.
#include <tandem/core/trace.h>

#include "tests/parallel/models.h"

namespace tandem::test {

namespace {

constexpr MemoryFormat kLast = MemoryFormat::channels_last;

Tensor last_images(const Shape& shape, std::uint64_t seed) {
  return values(shape, seed).to(kLast).detach();
}

bool is_last(const Tensor& t) {
  return t.is_contiguous(kLast) && !t.is_contiguous();
}

trace::LayoutCopies copies_of(const std::function<void()>& f) {
  const trace::LayoutCopies before = trace::layout_copies();
  f();
  return trace::layout_copies() - before;
}

/// Images in, images out.
nn::Sequential image_net() {
  return nn::Sequential{nn::Conv2d(3, 8, 3, {.padding = 1}), parallel::SyncBatchNorm(8), nn::ReLU(),
                        nn::MaxPool2d(2), nn::Conv2d(8, 6, 3, {.padding = 1})};
}

}  // namespace

TEST_CASE("layout: scatter, gather, broadcast and reduce keep channels-last, there and back") {
  for (int dim : {0, 1, 2}) {
    Tensor x = last_images({6, 6, 6, 5}, 1), y;
    x.requires_grad_();
    const auto made = copies_of([&] {
      const std::vector<Tensor> parts = parallel::scatter(x, devs(3), {.dim = dim});
      for (const Tensor& part : parts) CHECK(is_last(part.clone()));
      y = parallel::gather(parts, dev(1), dim);
      y.backward(last_images({6, 6, 6, 5}, 2).to(dev(1)));
    });
    CHECK(made.conversions == 1);  // the seed's, above
    CHECK(is_last(y));
    CHECK(close(y, x, {0, 0}));
    CHECK(is_last(x.grad()));
    CHECK(close(x.grad(), values({6, 6, 6, 5}, 2), {0, 0}));
  }
  Tensor w = last_images({4, 3, 3, 3}, 3);
  w.requires_grad_();
  const std::vector<Tensor> copies = parallel::broadcast(w, devs(2));
  for (const Tensor& copy : copies) CHECK(is_last(copy));
  const Tensor sum = parallel::reduce(copies, dev(0));
  CHECK(is_last(sum));
  const auto made = copies_of([&] { (sum * sum).sum().backward(); });
  CHECK(made.conversions == 0);
  CHECK(is_last(w.grad()));
}

TEST_CASE(
    "layout: a step on channels-last images converts nothing, whatever the number of devices") {
  for (int n : {1, 2, 3}) {
    for (const bool weights_too : {false, true}) {
      CAPTURE(n);
      manual_seed(0);
      nn::Sequential one = image_net();
      nn::Sequential many = nn::clone(one);
      if (weights_too) many.to(kLast);
      DataParallel net(many, on(n));
      for (int step = 0; step < 3; ++step) {
        Tensor rows = values({7, 3, 6, 8}, std::uint64_t(step)), last = rows.to(kLast).detach();
        const Tensor seed = values({7, 6, 3, 4}, 20), last_seed = seed.to(kLast);
        rows.requires_grad_(), last.requires_grad_();
        one(rows).backward(seed);
        Tensor y;
        const auto made = copies_of([&] {
          y = net(last);
          y.backward(last_seed);
        });
        CHECK(made.conversions + made.reshapes == 0);
        CHECK(is_last(y));
        CHECK(is_last(last.grad()));
        CHECK(close(last.grad(), rows.grad(), {1e-4, 1e-4}));
        CHECK(all_close(grads(many), grads(one), {1e-4, 1e-4}));  // sums of 100 terms and more
        for (const Tensor& p : many.parameters()) {
          CHECK(p.grad().array().strides() == p.array().strides());
        }
        sgd(one.parameters(), 0.01), sgd(many.parameters(), 0.01);
      }
    }
  }
}

TEST_CASE("layout: replicas follow a module that becomes channels-last") {
  nn::Sequential one = image_net();
  nn::Sequential many = nn::clone(one);
  DataParallel net(many, on(2));
  const Tensor x = last_images({4, 3, 6, 8}, 1);
  net(x);
  net.module().to(kLast);
  const auto made = copies_of([&] { (net(x) * net(x)).mean().backward(); });
  CHECK(made.conversions == 0);
  (one(x) * one(x)).mean().backward();
  CHECK(all_close(grads(net.module()), grads(one), {1e-4, 1e-5}));
}

}  // namespace tandem::test
