// MultiheadAttention against PyTorch's numbers, and what masks must do whatever the numbers.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include <tandem/core/autograd.h>
#include <tandem/core/ops/attention.h>
#include <tandem/core/ops/factories.h>
#include <tandem/core/ops/pointwise.h>
#include <tandem/core/ops/reduce.h>
#include <tandem/core/ops/views.h>
#include <tandem/core/random.h>
#include <tandem/nn/attention.h>

#include "tests/nn/golden_words.h"
#include "tests/nn/pattern.h"
#include "tests/support/bits.h"

using namespace tandem;
using namespace tandem::test;

namespace {

/// With the parameters that the golden numbers were made with.
nn::MultiheadAttention golden_attention(bool batch_first = false) {
  nn::MultiheadAttention m(6, 2, {.batch_first = batch_first});
  const NoGrad no_grad;
  const std::int64_t steps[] = {23, 31, 11, 19};
  std::vector<Tensor> parameters = m.parameters();
  for (std::size_t i = 0; i < 4; ++i) {
    parameters[i].copy_(pattern(parameters[i].shape(), steps[i]) / 2);
  }
  return m;
}

nn::AttentionMasks masks_of(const std::string& name) {
  nn::AttentionMasks masks{.is_causal = contains(name, "causal")};
  if (contains(name, "padding")) {
    masks.key_padding_mask =
        tensor_of({0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0}, {3, 5}, boolean);
  }
  if (name == "cross mask") masks.attn_mask = pattern({4, 5}, 7);
  if (contains(name, "each head")) masks.attn_mask = pattern({6, 4, 5}, 7) > 1.2;
  return masks;
}

std::vector<Tensor> inputs_of(const std::string& name) {
  if (contains(name, "self")) return {pattern({4, 3, 6}, 37).requires_grad_()};
  std::vector<Tensor> in{pattern({4, 3, 6}, 37), pattern({5, 3, 6}, 17), pattern({5, 3, 6}, 41)};
  if (name == "one sample") in = {pattern({4, 6}, 37), pattern({5, 6}, 17), pattern({5, 6}, 41)};
  for (Tensor& t : in) t.requires_grad_();
  return in;
}

Tensor turned(const Tensor& t) {
  return transpose(t, 0, 1);
}

// Sums of dozens of products of numbers around 1.
constexpr Tolerance kFloat{1e-5, 4e-6};

}  // namespace

TEST_CASE("MultiheadAttention: first weights are PyTorch's, bit for bit") {
  manual_seed(5);
  nn::MultiheadAttention m(6, 2);
  CHECK(fnv1a<float>({m.in_proj_weight.array()}) == kInProjHash);
  CHECK(fnv1a<float>({m.out_proj.weight.array()}) == kOutProjHash);
  CHECK(close(m.in_proj_bias, std::vector<double>(18, 0), {0, 0}));
  CHECK(close(m.out_proj.bias, std::vector<double>(6, 0), {0, 0}));
  std::vector<std::string> names;
  for (const auto& [name, t] : m.named_parameters()) names.push_back(name);
  CHECK(names == std::vector<std::string>{"in_proj_weight", "in_proj_bias", "out_proj.weight",
                                          "out_proj.bias"});
}

TEST_CASE("MultiheadAttention: outputs and all gradients are PyTorch's") {
  for (const AttentionGolden& golden : kAttention) {
    INFO(golden.name);
    nn::MultiheadAttention m = golden_attention();
    std::vector<Tensor> in = inputs_of(golden.name);
    const Tensor y = in.size() == 1 ? m(in[0], in[0], in[0], masks_of(golden.name))
                                    : m(in[0], in[1], in[2], masks_of(golden.name));
    CHECK(close(y, golden.output, kFloat));
    y.backward(pattern(y.shape(), 29));
    std::vector<Tensor> leaves = m.parameters();
    leaves.insert(leaves.end(), in.begin(), in.end());
    REQUIRE(leaves.size() == golden.gradients.size());
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      CAPTURE(i);
      CHECK(close(leaves[i].grad(), golden.gradients[i], kFloat));
    }
  }
}

TEST_CASE("MultiheadAttention: batch_first means the same with batches first") {
  for (const char* name : {"self causal", "cross padding", "cross mask of each head"}) {
    const std::vector<Tensor> in = inputs_of(name);
    nn::MultiheadAttention a = golden_attention(), b = golden_attention(true);
    const Tensor x = turned(in[0]);
    const Tensor y = in.size() == 1 ? b(x, x, x, masks_of(name))
                                    : b(x, turned(in[1]), turned(in[2]), masks_of(name));
    const Tensor expected = in.size() == 1 ? a(in[0], in[0], in[0], masks_of(name))
                                           : a(in[0], in[1], in[2], masks_of(name));
    CHECK(close(turned(y), expected));
  }
}

TEST_CASE("MultiheadAttention: causal means that later inputs change nothing before them") {
  nn::MultiheadAttention m = golden_attention();
  const NoGrad no_grad;
  const Tensor x = pattern({4, 3, 6}, 37);
  Tensor changed = x.clone();
  changed.narrow(0, 2, 2).fill_(9);
  const Tensor y = m(x, x, x, {.is_causal = true});
  const Tensor z = m(changed, changed, changed, {.is_causal = true});
  CHECK(bits_equal(y.narrow(0, 0, 2), z.narrow(0, 0, 2)));
  CHECK(!bits_equal(y.narrow(0, 2, 2), z.narrow(0, 2, 2)).ok);
}

TEST_CASE("MultiheadAttention: without bias; dropout only while training") {
  nn::MultiheadAttention plain(6, 3, {.bias = false});
  CHECK(plain.parameters().size() == 2);
  CHECK(plain(ones({4, 3, 6}), ones({5, 3, 6}), ones({5, 3, 6})).shape() == Shape{4, 3, 6});
  nn::MultiheadAttention m(6, 3, {.dropout = 0.5});
  const Tensor x = pattern({4, 3, 6}, 37);
  CHECK(!bits_equal(m(x, x, x), m(x, x, x)).ok);
  m.eval();
  CHECK(bits_equal(m(x, x, x), m(x, x, x)));
}

TEST_CASE("MultiheadAttention: what does not fit is refused") {
  nn::MultiheadAttention m(6, 3);
  const Tensor x = zeros({4, 3, 6});
  CHECK(throws<UsageError>([] { nn::MultiheadAttention(6, 4); }, {"4", "6", "divide"}));
  CHECK(throws<UsageError>([] { nn::MultiheadAttention(6, 2, {.dropout = 2}); }, {"dropout"}));
  CHECK(throws<UsageError>([&] { m(x, x, zeros({5, 3, 6})); }, {"(L, N, E)", "(5, 3, 6)"}));
  CHECK(throws<UsageError>([&] { m(x, zeros({5, 2, 6}), zeros({5, 2, 6})); }, {"(5, 2, 6)"}));
  CHECK(throws<UsageError>([&] { m(x, Tensor(), x); }, {"undefined key"}));
  CHECK(throws<UsageError>([&] { m(zeros({4, 3, 5}), x, x); }, {"E = 6", "(4, 3, 5)"}));
}

TEST_CASE(
    "MultiheadAttention: masks of integers, and of shapes that merely broadcast, are refused") {
  nn::MultiheadAttention m(6, 3);
  const Tensor q = zeros({4, 2, 6}), k = zeros({5, 2, 6});
  const auto attend = [&](const Shape& shape, DType dtype) {
    return [&m, &q, &k, mask = zeros(shape, {.dtype = dtype})] { m(q, k, k, {.attn_mask = mask}); };
  };
  const auto pad = [&](const Shape& shape, DType dtype) {
    return [&m, &q, &k, mask = zeros(shape, {.dtype = dtype})] {
      m(q, k, k, {.key_padding_mask = mask});
    };
  };
  CHECK(throws<UsageError>(attend({4, 5}, int64), {"[MultiheadAttention] attn_mask", "int64"}));
  CHECK(throws<UsageError>(pad({2, 5}, uint8), {"[MultiheadAttention] key_padding_mask", "uint8"}));
  for (const Shape& shape : {Shape{5}, Shape{1, 5}, Shape{5, 4}, Shape{2, 4, 5}, Shape{6, 1, 5}}) {
    CAPTURE(shape);
    CHECK(throws<UsageError>(attend(shape, float32), {"attn_mask", "(4, 5) or (6, 4, 5)"}));
  }
  for (const Shape& shape : {Shape{5}, Shape{1, 5}, Shape{5, 2}}) {
    CAPTURE(shape);
    CHECK(throws<UsageError>(pad(shape, boolean), {"key_padding_mask", "(2, 5)"}));
  }
}

TEST_CASE("scaled_dot_product_attention: bool masks and shapes that do not fit are refused") {
  const Tensor q = zeros({3, 4}), k = zeros({5, 4}), v = zeros({5, 6});
  CHECK(throws<UsageError>(
      [&] {
        scaled_dot_product_attention(q, k, v, {.attn_mask = zeros({3, 5}, {.dtype = boolean})});
      },
      {"floating", "bool", "where"}));
  CHECK(throws<UsageError>(
      [&] {
        scaled_dot_product_attention(q, zeros({5, 3}), v);
      },
      {"(3, 4)", "(5, 3)"}));
  CHECK(throws<UsageError>(
      [&] {
        scaled_dot_product_attention(q, k, zeros({4, 6}));
      },
      {"(5, 4)", "(4, 6)"}));
  CHECK(throws<UsageError>([&] { scaled_dot_product_attention(q, zeros({4}), v); }, {"(4,)"}));
}

TEST_CASE("scaled_dot_product_attention: a query that sees no key gives NaN, and only that one") {
  const double inf = std::numeric_limits<double>::infinity();
  const Tensor mask = tensor_of({0, 0, -inf, -inf}, {2, 2});
  const Tensor y =
      scaled_dot_product_attention(zeros({2, 3}), zeros({2, 3}), ones({2, 1}), {.attn_mask = mask});
  CHECK(close(y, {1, std::nan("")}));
}
