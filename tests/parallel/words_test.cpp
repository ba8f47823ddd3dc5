// Models of words under DataParallel, and losses with options: on gathered outputs they are the
// whole batch's, inside the replicas means need care.
#include <functional>

#include "tests/parallel/models.h"

namespace tandem::test {
namespace {

// (N, T) words -> (N, 4): looks up, attends, averages, decides. Index 0 pads.
struct Reader : nn::Module {
  nn::Embedding words{11, 8, {.padding_idx = 0}};
  nn::MultiheadAttention attention{8, 2, {.batch_first = true}};
  nn::Linear out{8, 4};
  bool causal = true;

  Tensor forward(const Tensor& tokens) {
    const Tensor x = words(tokens);
    return out(mean(x + attention(x, x, x, {.is_causal = causal}), {1}));
  }
  void visit(nn::Visitor& v) override {
    v("words", words), v("attention", attention), v("out", out), v("causal", causal);
  }
};

Tensor tokens(std::int64_t n, std::int64_t length) {
  std::vector<std::int64_t> v;
  for (std::int64_t i = 0; i < n * length; ++i) v.push_back((i * 7 + i / 5) % 11);
  return from_vector(v, {n, length});
}

// Chunks of 3, 2 and 2 rows; their weights and their ignored rows differ.
Tensor classes() {
  return from_vector(std::vector<std::int64_t>{0, 3, 1, -100, 2, 3, 0});
}
const nn::CrossEntropyOptions kOptions{.weight = tensor({0.5, 2.0, 1.25, 0.25}),
                                       .label_smoothing = 0.1};

using Loss = std::function<Tensor(const Tensor& out, const Tensor& target)>;

// Is the loss of gathered outputs, and its gradients, the same as on one device?
void check_gathered(const Loss& loss, const Tensor& target) {
  Mlp one;
  const Tensor x = values({7, 8}, 1);
  const Tensor expected = loss(one(x), target);
  expected.backward();
  for (const int devices : {2, 3, 4}) {
    Mlp many = nn::clone(one);
    DataParallel net(many, on(devices));
    const Tensor total = loss(net(x), target);
    total.backward();
    CHECK(close(total, expected));
    CHECK(all_close(grads(many), grads(one)));
  }
}

// Loss and gradients with the loss computed inside three replicas.
struct Inside {
  double loss;
  std::vector<Tensor> gradients;
};
Inside inside(const Mlp& model, const Loss& loss, const Tensor& target, double factor = 1,
              parallel::ScalarRule rule = parallel::ScalarRule::mean) {
  Mlp many = nn::clone(model);
  auto lossy = parallel::with_loss(many, loss);
  DataParallel net(lossy, on(3, {.scalars = rule}));
  const Tensor total = net(values({7, 8}, 1), target) * factor;
  total.backward();
  return {total.item<double>(), grads(many)};
}
Inside whole(const Mlp& model, const Loss& loss, const Tensor& target) {
  Mlp one = nn::clone(model);
  const Tensor total = loss(one(values({7, 8}, 1)), target);
  total.backward();
  return {total.item<double>(), grads(one)};
}

Loss weighted(nn::Reduction reduction) {
  return [reduction](const Tensor& out, const Tensor& target) {
    nn::CrossEntropyOptions options = kOptions;
    options.weight = options.weight.to(out.device());
    options.reduction = reduction;
    return nn::cross_entropy(out, target, options);
  };
}
Loss binary() {
  return [](const Tensor& out, const Tensor& target) { return nn::bce_with_logits(out, target); };
}
Loss distance() {
  return [](const Tensor& out, const Tensor& target) { return nn::l1_loss(out, target); };
}

}  // namespace

TEST_CASE("words: embedding, attention and a classifier have one device's gradients on 1 to 4") {
  Reader one;
  const Tensor x = tokens(7, 5), y = labels(7, 4);
  const Tensor expected = nn::cross_entropy(one.forward(x), y);
  expected.backward();
  for (const int devices : {1, 2, 3, 4}) {
    CAPTURE(devices);
    Reader many = nn::clone(one);
    DataParallel net(many, on(devices));
    const Tensor loss = nn::cross_entropy(net(x), y);
    loss.backward();
    CHECK(close(loss, expected));
    CHECK(all_close(grads(many), grads(one)));
    CHECK(close(many.words.weight.grad()[0], std::vector<double>(8, 0), {0, 0}));
  }
}

TEST_CASE("words: ten steps of training agree on 1 to 4 devices, and the padding row stays zero") {
  Reader start;
  std::vector<std::vector<Tensor>> results;
  for (const int devices : {1, 2, 3, 4}) {
    Reader m = nn::clone(start);
    DataParallel net(m, on(devices));
    for (int i = 0; i < 10; ++i) {
      nn::cross_entropy(net(tokens(7 + i % 3, 5)), labels(7 + i % 3, 4)).backward();
      sgd(m.parameters(), 0.1);
    }
    CHECK(close(m.words.weight[0], std::vector<double>(8, 0), {0, 0}));
    results.push_back(m.parameters());
  }
  for (const auto& r : results) CHECK(all_close(r, results[0]));
}

TEST_CASE("losses: on gathered outputs every option means the whole batch, for uneven chunks") {
  check_gathered(weighted(nn::Reduction::mean), classes());
  check_gathered(weighted(nn::Reduction::sum), classes());
  check_gathered(binary(), values({7, 4}, 2) / 2 + 0.5);
  check_gathered(distance(), values({7, 4}, 2));
}

TEST_CASE("losses: inside the replicas, means over elements are the whole batch's") {
  const Mlp m;
  for (const Loss& loss : {binary(), distance()}) {
    const Tensor target = values({7, 4}, 2) / 2 + 0.5;
    const Inside many = inside(m, loss, target), one = whole(m, loss, target);
    CHECK(close(many.loss, one.loss));
    CHECK(all_close(many.gradients, one.gradients));
  }
}

TEST_CASE("losses: inside the replicas, means over class weights are not the whole batch's") {
  const Mlp m;
  const Inside one = whole(m, weighted(nn::Reduction::mean), classes());
  const Inside naive = inside(m, weighted(nn::Reduction::mean), classes());
  CHECK(!close(naive.loss, one.loss, {1e-3, 0}).ok);
  CHECK(!all_close(naive.gradients, one.gradients, {1e-3, 0}).ok);

  // sums, divided by the weights of the whole batch: 0.5 + 0.25 + 2 + 1.25 + 0.25 + 0.5
  const Inside cured =
      inside(m, weighted(nn::Reduction::sum), classes(), 1 / 4.75, parallel::ScalarRule::sum);
  CHECK(close(cured.loss, one.loss));
  CHECK(all_close(cured.gradients, one.gradients));
}

}  // namespace tandem::test
