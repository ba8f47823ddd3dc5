// Autocast: which type each op computes in, the copies of weights, and the traps that PyTorch's
// copies set: each of those tests fails under PyTorch's rule.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include <tandem/amp/autocast.h>
#include <tandem/amp/grad_scaler.h>
#include <tandem/core/autograd.h>
#include <tandem/core/function.h>
#include <tandem/core/memory.h>
#include <tandem/core/ops/attention.h>
#include <tandem/core/ops/conv.h>
#include <tandem/core/ops/factories.h>
#include <tandem/core/ops/linalg.h>
#include <tandem/core/ops/norm.h>
#include <tandem/core/ops/pointwise.h>
#include <tandem/core/ops/reduce.h>
#include <tandem/core/ops/softmax.h>
#include <tandem/core/ops/views.h>
#include <tandem/core/random.h>
#include <tandem/nn/activations.h>
#include <tandem/nn/linear.h>
#include <tandem/nn/loss.h>
#include <tandem/nn/sequential.h>
#include <tandem/optim/adam.h>

#include "tests/amp/golden_amp.h"
#include "tests/support/check.h"

using namespace tandem;
using namespace tandem::amp;
using namespace tandem::test;

namespace {

constexpr DType kFast[] = {float16, bfloat16};

/// An op of some tensors, with what it is called on.
struct Call {
  std::string name;
  std::vector<Shape> shapes;
  std::function<Tensor(const std::vector<Tensor>&)> op;
};
using Args = const std::vector<Tensor>&;

const std::vector<Call> kLow{
    {"matmul", {{3, 4}, {4, 5}}, [](Args x) { return matmul(x[0], x[1]); }},
    {"matmul of batches", {{2, 3, 4}, {4, 5}}, [](Args x) { return matmul(x[0], x[1]); }},
    {"matmul of a vector", {{4}, {4, 5}}, [](Args x) { return matmul(x[0], x[1]); }},
    {"linear", {{3, 4}, {5, 4}, {5}}, [](Args x) { return linear(x[0], x[1], x[2]); }},
    {"linear without bias", {{3, 4}, {5, 4}}, [](Args x) { return linear(x[0], x[1]); }},
    {"conv2d",
     {{2, 3, 6, 6}, {4, 3, 3, 3}, {4}},
     [](Args x) { return conv2d(x[0], x[1], x[2], {.padding = 1}); }},
};

Tensor classes() {
  return from_vector(std::vector<std::int64_t>{1, 0, 3});
}

const std::vector<Call> kFull{
    {"exp", {{3, 4}}, [](Args x) { return exp(x[0]); }},
    {"log", {{3, 4}}, [](Args x) { return log(x[0]); }},
    {"pow", {{3, 4}, {4}}, [](Args x) { return pow(x[0], x[1]); }},
    {"pow to a number", {{3, 4}}, [](Args x) { return pow(x[0], 1.5); }},
    {"pow of a number", {{3, 4}}, [](Args x) { return pow(1.5, x[0]); }},
    {"layer_norm", {{3, 4}, {4}, {4}}, [](Args x) { return layer_norm(x[0], {4}, x[1], x[2]); }},
    {"cross_entropy", {{3, 4}}, [](Args x) { return nn::cross_entropy(x[0], classes()); }},
    {"cross_entropy of probabilities",
     {{3, 4}, {3, 4}},
     [](Args x) { return nn::cross_entropy(x[0], x[1]); }},
    {"nll_loss", {{3, 4}}, [](Args x) { return nn::nll_loss(x[0], classes()); }},
    {"mse_loss", {{3, 4}, {3, 4}}, [](Args x) { return nn::mse_loss(x[0], x[1]); }},
    {"l1_loss", {{3, 4}, {3, 4}}, [](Args x) { return nn::l1_loss(x[0], x[1]); }},
    {"binary_cross_entropy_with_logits",
     {{3, 4}, {3, 4}},
     [](Args x) { return nn::binary_cross_entropy_with_logits(x[0], x[1]); }},
    // S: those that take a dtype in PyTorch
    {"softmax", {{3, 4}}, [](Args x) { return softmax(x[0], 1); }},
    {"log_softmax", {{3, 4}}, [](Args x) { return log_softmax(x[0], 1); }},
    {"sum", {{3, 4}}, [](Args x) { return sum(x[0]); }},
    {"sum of rows", {{3, 4}}, [](Args x) { return sum(x[0], {1}, true); }},
};

const std::vector<Call> kWidest{
    {"cat", {{3, 4}, {2, 4}}, [](Args x) { return cat(x, 0); }},
    {"stack", {{3, 4}, {3, 4}}, [](Args x) { return stack(x, 1); }},
};

/// Leaves that require a gradient, positive as log wants it.
std::vector<Tensor> arguments(const Call& call, DType dtype) {
  std::vector<Tensor> list;
  for (std::size_t i = 0; i < call.shapes.size(); ++i) {
    const Tensor x = random_tensor(call.shapes[i], i + 1, float32, dev(0), 0.25, 1);
    list.push_back(x.to(dtype).detach().requires_grad_());
  }
  return list;
}

std::vector<Tensor> converted(const std::vector<Tensor>& xs, DType dtype) {
  std::vector<Tensor> list;
  for (const Tensor& x : xs) list.push_back(x.to(dtype));
  return list;
}

Tensor seed_for(const Tensor& y) {
  return random_tensor(y.shape(), 77, float32).to(y.dtype());
}

/// The call on arguments of `given` under autocast has the bits, forward and backward, of the call
/// on arguments converted to `computed`; gradients have the arguments' own type.
void check_same_as_converted(const Call& call, DType fast, DType given, DType computed) {
  CAPTURE(call.name);
  const std::vector<Tensor> xs = arguments(call, given), twins = arguments(call, given);
  Tensor y;
  {
    const Autocast autocast(dev(0).kind, fast);
    y = call.op(xs);
  }
  const Tensor expected = call.op(converted(twins, computed));
  CHECK(y.dtype() == computed);
  CHECK(bits_equal(y, expected));
  y.backward(seed_for(y));
  expected.backward(seed_for(y));
  for (std::size_t i = 0; i < xs.size(); ++i) {
    CHECK(xs[i].grad().dtype() == given);
    CHECK(bits_equal(xs[i].grad(), twins[i].grad()));
  }
}

Tensor weight(const std::vector<double>& values, const Shape& shape) {
  return tensor_of(values, shape).requires_grad_();
}

std::size_t copies() {
  const CastCache* cache = thread_state().autocast.casts;
  return cache == nullptr ? 999 : cache->size();
}

}  // namespace

// ---- the groups

TEST_CASE("autocast L: products and convolutions compute in the fast type") {
  for (DType fast : kFast) {
    for (const Call& call : kLow) {
      check_same_as_converted(call, fast, float32, fast);
      // the other 16-bit type is cast as well
      check_same_as_converted(call, fast, fast == float16 ? bfloat16 : float16, fast);
    }
  }
}

TEST_CASE("autocast L: attention takes 16 bits, sums its softmax in float32, and gives 16 bits") {
  const Tensor q = random_tensor({2, 3, 4}, 1), k = random_tensor({2, 5, 4}, 2);
  const Tensor v = random_tensor({2, 5, 6}, 3), mask = random_tensor({3, 5}, 4);
  const Tensor exact = scaled_dot_product_attention(q, k, v, {.attn_mask = mask});
  for (DType fast : kFast) {
    const Autocast autocast(dev(0).kind, fast);
    const Tensor y = scaled_dot_product_attention(q, k, v, {.attn_mask = mask});
    CHECK(y.dtype() == fast);
    // a handful of roundings of numbers below 2
    const double eps = fast == float16 ? 0x1p-10 : 0x1p-7;
    CHECK(close(y.to(float32), exact, {0, 4 * eps}));
  }
}

TEST_CASE("autocast F, S: what needs range or precision computes in float32") {
  for (DType fast : kFast) {
    for (const Call& call : kFull) check_same_as_converted(call, fast, fast, float32);
  }
}

TEST_CASE("autocast F: exp(12) and 300^2 do not overflow in a float16 region") {
  const Tensor x = tensor_of({12, 300}, {2}, float16);
  const Autocast autocast(dev(0).kind, float16);
  CHECK(close(exp(x.narrow(0, 0, 1)), {162754.79}, {1e-6, 0}));
  CHECK(close(pow(x, 2).narrow(0, 1, 1), {90000.0}, {1e-6, 0}));
  CHECK(close(sum(tensor_of(std::vector<double>(70000, 1), {70000}, float16)), {70000.0}, {0, 0}));
}

TEST_CASE("autocast P: float32 wins over the fast type, equal types stay") {
  for (DType fast : kFast) {
    for (const Call& call : kWidest) {
      CAPTURE(call.name);
      check_same_as_converted(call, fast, fast, fast);
      std::vector<Tensor> xs = arguments(call, fast);
      xs[1] = xs[1].to(float32);
      const Autocast autocast(dev(0).kind, fast);
      CHECK(call.op(xs).dtype() == float32);
      CHECK(bits_equal(call.op(xs), call.op(converted(xs, float32))));
    }
  }
}

TEST_CASE("autocast P: float16 with bfloat16 is an error that names both") {
  for (const Call& call : kWidest) {
    std::vector<Tensor> xs = arguments(call, float16);
    xs[1] = xs[1].to(bfloat16);
    CHECK(call.op(xs).dtype() == float32);  // without autocast they promote
    const Autocast autocast(dev(0).kind, float16);
    CHECK(throws<UsageError>([&] { call.op(xs); }, {"[autocast]", "float16", "bfloat16", "to("}));
  }
}

TEST_CASE("autocast: ops of no group follow their arguments") {
  const Tensor narrow = random_tensor({2, 3}, 1, bfloat16), wide = random_tensor({2, 3}, 2);
  const Autocast autocast(dev(0).kind, bfloat16);
  CHECK(relu(narrow).dtype() == bfloat16);
  CHECK(relu(wide).dtype() == float32);
  CHECK(gelu(narrow).dtype() == bfloat16);
  CHECK((narrow + narrow).dtype() == bfloat16);
  CHECK((narrow + wide).dtype() == float32);
  CHECK((narrow * 2.0).dtype() == bfloat16);
  CHECK(mean(narrow).dtype() == bfloat16);
  CHECK(max(narrow).dtype() == bfloat16);
  CHECK(narrow.to(float32).dtype() == float32);
}

TEST_CASE("autocast: float64, int64 and bool are not eligible" * doctest::skip(!has_float64())) {
  const Tensor d = random_tensor({3, 3}, 1, float64), i = ones({3, 3}, {.dtype = int64});
  const Autocast autocast(dev(0).kind, bfloat16);
  CHECK(matmul(d, d).dtype() == float64);
  CHECK(exp(d).dtype() == float64);
  CHECK(softmax(d, 1).dtype() == float64);
  CHECK(nn::mse_loss(d, d).dtype() == float64);
  CHECK(cat({d, d}, 0).dtype() == float64);
  CHECK(matmul(i, i).dtype() == int64);
  CHECK(sum(i).dtype() == int64);
  CHECK(sum(i == 1).dtype() == int64);
}

TEST_CASE("autocast: an op in place keeps the type of what it writes") {
  Tensor narrow = tensor_of({1, 2}, {2}, bfloat16), wide = tensor_of({1, 2}, {2});
  const Autocast autocast(dev(0).kind, bfloat16);
  narrow.add_(wide);
  wide.mul_(narrow);
  CHECK(narrow.dtype() == bfloat16);
  CHECK(wide.dtype() == float32);
  CHECK(close(wide, {2, 8}, {0, 0}));
}

TEST_CASE("autocast: batch norm takes 16-bit values beside float32 weights and statistics") {
  for (DType fast : kFast) {
    Tensor gamma = ones({3}).requires_grad_(), beta = zeros({3}).requires_grad_();
    const Tensor mean = zeros({3}), var = ones({3});
    const Tensor x = random_tensor({8, 3}, 1, fast);
    x.impl()->requires_grad = true;
    const Autocast autocast(dev(0).kind, fast);
    const Tensor y = batch_norm(x, mean, var, gamma, beta, {.training = true});
    CHECK(y.dtype() == fast);
    CHECK(mean.dtype() == float32);
    y.backward(seed_for(y));
    CHECK(x.grad().dtype() == fast);
    CHECK(gamma.grad().dtype() == float32);
    CHECK(beta.grad().dtype() == float32);
  }
}

// ---- the guard

TEST_CASE("autocast: off by default; guards nest, and each restores what was before") {
  const auto product = [] { return matmul(ones({2, 2}), ones({2, 2})).dtype(); };
  CHECK(!Autocast::dtype(dev(0).kind));
  CHECK(product() == float32);
  {
    const Autocast outer(dev(0).kind, bfloat16);
    CHECK(product() == bfloat16);
    {
      const Autocast inner(dev(0).kind, float16);
      CHECK(product() == float16);
      {
        const Autocast off(dev(0).kind, float16, {.enabled = false});
        CHECK(!Autocast::dtype(dev(0).kind));
        CHECK(product() == float32);
        const Autocast on(dev(0).kind, bfloat16);
        CHECK(product() == bfloat16);
      }
      {
        const NoAutocast off;
        CHECK(product() == float32);
      }
      CHECK(product() == float16);
    }
    CHECK(Autocast::dtype(dev(0).kind) == bfloat16);
  }
  CHECK(product() == float32);
}

TEST_CASE("autocast: a guard that an exception leaves restores what was before") {
  try {
    const Autocast autocast(dev(0).kind, bfloat16);
    matmul(ones({2, 3}), ones({2, 3}));
    FAIL("nothing was thrown");
  } catch (const UsageError&) {
  }
  CHECK(!Autocast::dtype(dev(0).kind));
  CHECK(thread_state().autocast.casts == nullptr);
}

TEST_CASE("autocast: it concerns one kind of device only") {
  const DeviceKind other = dev(0).kind == DeviceKind::cpu ? DeviceKind::cuda : DeviceKind::cpu;
  const Autocast autocast(other, float16);
  CHECK(matmul(ones({2, 2}), ones({2, 2})).dtype() == float32);
  CHECK(Autocast::dtype(other) == float16);
  const Autocast both(dev(0).kind, bfloat16);
  CHECK(matmul(ones({2, 2}), ones({2, 2})).dtype() == bfloat16);
  CHECK(Autocast::dtype(other) == float16);
}

TEST_CASE("autocast: the fast type is float16 or bfloat16") {
  for (DType wrong : {float32, float64, int64}) {
    CHECK(throws<UsageError>([&] { Autocast(dev(0).kind, wrong); },
                             {"[Autocast]", "float16", "bfloat16"}));
  }
  CHECK(!Autocast::dtype(dev(0).kind));
}

TEST_CASE("autocast: another thread starts without it") {
  const Autocast autocast(dev(0).kind, bfloat16);
  DType there{};
  bool on = true;
  std::thread([&] {
    const DeviceScope scope(dev(0));
    there = matmul(ones({2, 2}), ones({2, 2})).dtype();
    on = thread_state().autocast.on || thread_state().autocast.casts != nullptr;
  }).join();
  CHECK(there == float32);
  CHECK(!on);
  CHECK(matmul(ones({2, 2}), ones({2, 2})).dtype() == bfloat16);
}

namespace {
// Backward multiplies float32 matrices: under autocast it would do that in 16 bits.
struct Twice : Function<Twice> {
  static Tensor forward(FunctionContext*, const Tensor& x) { return x + x; }
  static std::vector<Tensor> backward(FunctionContext*, const std::vector<Tensor>& dy) {
    seen = matmul(ones({2, 2}), ones({2, 2})).dtype();
    return {dy[0] + dy[0]};
  }
  static inline DType seen{};
};
}  // namespace

TEST_CASE("autocast: backward inside the region computes as it would outside") {
  Tensor w = weight({1, 2}, {2});
  DType in_hook{};
  w.register_hook([&](const Tensor&) { in_hook = matmul(ones({2, 2}), ones({2, 2})).dtype(); });
  const Autocast autocast(dev(0).kind, bfloat16);
  sum(Twice::apply(w)).backward();
  CHECK(Twice::seen == float32);
  CHECK(in_hook == float32);
  CHECK(close(w.grad(), {2, 2}, {0, 0}));
  CHECK(matmul(w, w).dtype() == bfloat16);  // still on
  const Tensor y = sum(Twice::apply(w));
  grad({&y, 1}, {&w, 1});
  CHECK(Twice::seen == float32);
}

TEST_CASE("autocast: types that do not meet are named with the ops they come from") {
  nn::Linear a(3, 4), b(4, 2);
  Tensor h;
  {
    const Autocast autocast(dev(0).kind, bfloat16);
    h = a(random_tensor({2, 3}, 1));
  }
  CHECK(throws<UsageError>([&] { b(relu(h)); }, {"[linear]", "x is bfloat16 (from relu)",
                                                 "weight is float32", "to(dtype)", "Autocast"}));
  CHECK(throws<UsageError>([&] { matmul(h, b.weight.t()); },
                           {"[matmul]", "a is bfloat16 (from linear)", "b is float32"}));
}

// ---- copies of weights

TEST_CASE("autocast copies: one for each weight and type, until the outermost guard ends") {
  Tensor w = weight({1, 2, 3, 4}, {2, 2}), v = weight({1, 2, 3, 4}, {2, 2});
  const Tensor x = ones({3, 2});
  const std::int64_t before = bytes_in_use(dev(0));
  {
    const Autocast autocast(dev(0).kind, bfloat16);
    CHECK(copies() == 0);
    matmul(x, w);
    matmul(x, w);
    CHECK(copies() == 1);
    matmul(x, v);
    CHECK(copies() == 2);
    {
      const Autocast same(dev(0).kind, bfloat16);
      matmul(x, w);
      CHECK(copies() == 2);
    }
    {
      const Autocast other(dev(0).kind, float16);
      matmul(x, w);
      CHECK(copies() == 3);
    }
    CHECK(bytes_in_use(dev(0)) > before);
  }
  CHECK(thread_state().autocast.casts == nullptr);
  CHECK(bytes_in_use(dev(0)) == before);
  const Autocast again(dev(0).kind, bfloat16);
  CHECK(copies() == 0);
}

TEST_CASE("autocast copies: the second use makes none") {
  Tensor w = weight(random_doubles(64 * 64, 1), {64, 64});
  const Tensor x = random_tensor({1, 64}, 2);
  const Autocast autocast(dev(0).kind, bfloat16);
  const auto allocations = [&] {
    const std::int64_t before = memory::stats(dev(0)).allocation_count;
    matmul(x, w);
    return memory::stats(dev(0)).allocation_count - before;
  };
  const std::int64_t first = allocations(), second = allocations();
  CHECK(second == first - 1);
  Autocast::clear_cache();
  CHECK(copies() == 0);
  CHECK(allocations() == first);
}

TEST_CASE("autocast copies: of float32 leaves that require a gradient only") {
  Tensor w = weight({1, 2, 3, 4}, {2, 2});
  const Tensor frozen = ones({2, 2}), narrow = ones({2, 2}).to(float16);
  const Autocast autocast(dev(0).kind, bfloat16);
  matmul(frozen, frozen);
  matmul(narrow, narrow);
  matmul(frozen, (w * 2.0));
  matmul(frozen, w.t());
  matmul(frozen, w.detach());
  CHECK(copies() == 0);
}

TEST_CASE("autocast copies: can be switched off") {
  Tensor w = weight({1, 2, 3, 4}, {2, 2});
  const Autocast autocast(dev(0).kind, bfloat16, {.cache = false});
  CHECK(matmul(w, w).dtype() == bfloat16);
  CHECK(thread_state().autocast.casts == nullptr);
  const Autocast inner(dev(0).kind, bfloat16);
  matmul(w, w);
  CHECK(copies() == 1);
}

TEST_CASE("autocast trap: a weight written in the region is cast again") {
  Tensor w = weight({1, 1, 1, 1}, {2, 2});
  const Tensor x = ones({1, 2});
  const Autocast autocast(dev(0).kind, bfloat16);
  CHECK(close(matmul(x, w), {2, 2}, {0, 0}));
  {
    const NoGrad no_grad;
    w.mul_(3.0);  // say, optimizer.step()
  }
  CHECK(close(matmul(x, w), {6, 6}, {0, 0}));  // PyTorch 1.13: 2
  CHECK(copies() == 1);
}

TEST_CASE("autocast trap: a weight that got another array of the same version is cast again") {
  Tensor w = weight({1, 1, 1, 1}, {2, 2});
  const Tensor x = ones({1, 2});
  const Array other = tensor_of({5, 5, 5, 5}, {2, 2}).array();
  REQUIRE(other.version() == w.array().version());
  const Autocast autocast(dev(0).kind, bfloat16);
  CHECK(close(matmul(x, w), {2, 2}, {0, 0}));
  w.set_array(other);
  CHECK(close(matmul(x, w), {10, 10}, {0, 0}));
}

TEST_CASE("autocast trap: a weight first used under NoGrad has its gradient later") {
  Tensor w = weight({1, 2, 3, 4}, {2, 2});
  const Tensor x = ones({1, 2});
  const Autocast autocast(dev(0).kind, bfloat16);
  {
    const NoGrad no_grad;
    CHECK(!matmul(x, w).requires_grad());
  }
  CHECK(copies() == 1);
  const Tensor y = matmul(x, w);
  REQUIRE(y.requires_grad());  // PyTorch 1.13: not
  sum(y).backward();
  CHECK(close(w.grad(), {1, 1, 1, 1}, {0, 0}));
}

TEST_CASE("autocast trap: gradients of several uses of a weight are summed in float32") {
  Tensor w = weight({1}, {1, 1});
  const Tensor one = tensor_of({1}, {1, 1}), small = tensor_of({0x1p-9}, {1, 1});
  const Autocast autocast(dev(0).kind, bfloat16);
  sum(cat({matmul(one, w), matmul(small, w)}, 0)).backward();
  // in bfloat16, as under PyTorch's shared copy, 1 + 2^-9 would be 1
  CHECK(close(w.grad(), {1 + 0x1p-9}, {0, 0}));
}

TEST_CASE("autocast copies: a write after forward does not make the graph stale") {
  Tensor w = weight({2}, {1, 1});
  const Tensor x = weight({3}, {1, 1});
  Tensor y;
  {
    const Autocast autocast(dev(0).kind, bfloat16);
    y = matmul(x, w);
    const NoGrad no_grad;
    w.fill_(100.0);
  }
  y.backward();
  CHECK(close(x.grad(), {2}, {0, 0}));  // of the weight that forward saw
}

// ---- training

TEST_CASE("autocast: a small net has PyTorch's numbers in bfloat16") {
  const auto pattern = [](const Shape& shape, std::int64_t seed) {
    std::vector<double> v;
    for (std::int64_t i = 0; i < shape.numel(); ++i) {
      v.push_back(double((i * 37 + seed * 11) % 101) / 64 - 0.78125);
    }
    return tensor_of(v, shape);
  };
  nn::Linear a(12, 16), b(16, 5);
  std::vector<Tensor> params{a.weight, a.bias, b.weight, b.bias};
  for (std::size_t i = 0; i < params.size(); ++i) {
    const NoGrad no_grad;
    params[i].copy_(pattern(params[i].shape(), std::int64_t(i)) / 2.0);
  }
  std::vector<std::int64_t> y;
  for (std::int64_t i = 0; i < 8; ++i) y.push_back(i * 3 % 5);
  Tensor logits, loss;
  {
    const Autocast autocast(dev(0).kind, bfloat16);
    logits = b(relu(a(pattern({8, 12}, 7))));
    loss = nn::cross_entropy(logits, from_vector(y));
  }
  CHECK(logits.dtype() == bfloat16);
  CHECK(loss.dtype() == float32);
  // 2^-7: sums of products that lie between two bfloat16 numbers may go either way, and PyTorch
  // rounds the product and the sum with the bias once, we twice
  const std::vector<double> expected(std::begin(kAmpLogits), std::end(kAmpLogits));
  CHECK(close(logits.narrow(0, 0, 2).flatten().to(float32), expected, {0x1p-7, 0x1p-7}));
  CHECK(close(loss.item<double>(), kAmpLoss, {2e-3, 0}));
  loss.backward();
  for (std::size_t i = 0; i < params.size(); ++i) {
    const Tensor g = params[i].grad();
    CHECK(g.dtype() == float32);
    CHECK(close(std::sqrt(sum(g * g).item<double>()), kAmpNorms[i], {0x1p-7, 0}));
    CHECK(close(doubles(g)[0], kAmpFirst[i], {0x1p-5, 0}));
  }
}

TEST_CASE("autocast: with GradScaler, 40 steps follow float32 within the type's precision") {
  const auto train = [](std::optional<DType> fast) {
    manual_seed(3);
    nn::Sequential net{nn::Linear(8, 32), nn::ReLU(), nn::Linear(32, 4)};
    optim::Adam optimizer(net.parameters(), {.lr = 5e-3});
    GradScaler scaler({.init_scale = 1024, .enabled = fast == float16});
    std::vector<std::int64_t> y;
    for (std::int64_t i = 0; i < 16; ++i) y.push_back(i * 5 % 4);
    double last = 0;
    for (int i = 0; i < 40; ++i) {
      optimizer.zero_grad();
      Tensor loss;
      {
        const Autocast autocast(dev(0).kind, fast.value_or(float16), {.enabled = fast.has_value()});
        loss = nn::cross_entropy(net(random_tensor({16, 8}, 9)), from_vector(y));
      }
      scaler.scale(loss).backward();
      CHECK(!scaler.step(optimizer).skipped);
      scaler.update();
      last = loss.item<double>();
    }
    return last;
  };
  const double exact = train({});
  CHECK(exact < 0.7);  // it learns: chance is 1.39
  CHECK(close(train(float16), exact, {1e-3, 0}));
  CHECK(close(train(bfloat16), exact, {2e-2, 0}));
}

TEST_CASE("autocast: float16 gradients that vanish unscaled survive with a scaler") {
  // d loss / d w = 2^-26 x is below float16's smallest number, 2^-24, on its way through matmul
  const auto gradient = [](GradScaler& scaler) {
    Tensor w = weight({1}, {1, 1});
    optim::Adam optimizer({w}, {});
    Tensor loss;
    {
      const Autocast autocast(dev(0).kind, float16);
      loss = sum(matmul(ones({1, 1}), w)) * 0x1p-26;
    }
    scaler.scale(loss).backward();
    scaler.unscale_(optimizer);
    return doubles(w.grad())[0];
  };
  GradScaler off({.enabled = false}), on;
  CHECK(gradient(off) == 0);
  CHECK(gradient(on) == 0x1p-26);
}
