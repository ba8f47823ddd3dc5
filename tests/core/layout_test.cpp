// Channels-last: which ops keep it, that it changes no number, and what counts as a conversion.
// Values against float64 references are the op table's affair (its layout "rotated"); here results
// of the two layouts meet each other. Networks: tests/nn/layout.cpp.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>

#include <tandem/core/array_ops.h>
#include <tandem/core/autograd.h>
#include <tandem/core/backend.h>
#include <tandem/core/ops/conv.h>
#include <tandem/core/ops/dropout.h>
#include <tandem/core/ops/factories.h>
#include <tandem/core/ops/linalg.h>
#include <tandem/core/ops/norm.h>
#include <tandem/core/ops/pool.h>
#include <tandem/core/ops/reduce.h>
#include <tandem/core/ops/views.h>
#include <tandem/core/random.h>
#include <tandem/core/trace.h>

#include "tests/support/check.h"
#include "tests/support/op_checks.h"

using namespace tandem;
using namespace tandem::test;

namespace {

constexpr MemoryFormat kRows = MemoryFormat::contiguous, kLast = MemoryFormat::channels_last;

/// Random images in a layout; made without Array::to(format).
Tensor images(const Shape& shape, std::uint64_t seed, MemoryFormat format, DType dtype = float32,
              Device device = dev(0)) {
  Dense x{shape, random_doubles(shape.numel(), seed)};
  const Layout layout = format == kLast ? Layout::rotated : Layout::row_major;
  return Tensor(in_layout(layout, x, dtype, device));
}

bool is_last(const Tensor& t) {
  return format_of(t.array()) == kLast;
}

trace::LayoutCopies copies_of(const std::function<void()>& f) {
  const trace::LayoutCopies before = trace::layout_copies();
  f();
  return trace::layout_copies() - before;
}

/// Gradients of the inputs of `f`, started with a random gradient in `format`.
struct Pass {
  Tensor y;
  std::vector<Tensor> gradients;
};
Pass forward_backward(const std::function<Tensor(const std::vector<Tensor>&)>& f,
                      std::vector<Tensor> inputs, MemoryFormat format) {
  for (Tensor& x : inputs) x.requires_grad_();
  Pass pass{f(inputs), {}};
  Tensor seed = images(pass.y.shape(), 99, format, pass.y.dtype(), pass.y.device());
  pass.y.backward(seed);
  for (Tensor& x : inputs) pass.gradients.push_back(x.grad());
  return pass;
}

}  // namespace

// ---- what an array is

TEST_CASE("layout: channels-last is read from the strides, and those of sizes of 1 do not count") {
  const Array a = Array::empty({2, 3, 4, 5}, float32, dev(0), kLast);
  CHECK(a.strides() == Shape{60, 1, 15, 3});
  CHECK(a.is_contiguous(kLast));
  CHECK(!a.is_contiguous());
  CHECK(a.is_dense());
  CHECK(format_of(a) == kLast);
  CHECK(format_of(a.permute({0, 2, 3, 1})) == kRows);
  const Array rows = Array::empty({2, 3, 4, 5}, float32, dev(0));
  CHECK(rows.is_contiguous(kRows));
  CHECK(!rows.is_contiguous(kLast));
  for (const Shape& both : {Shape{2, 1, 4, 5}, Shape{2, 3, 1, 1}, Shape{0, 3, 4, 5}}) {
    for (MemoryFormat format : {kRows, kLast}) {
      const Array b = Array::empty(both, float32, dev(0), format);
      CHECK(b.is_contiguous(kRows));
      CHECK(b.is_contiguous(kLast));
      CHECK(format_of(b) == kRows);
    }
  }
  CHECK(!Array::empty({2, 3, 4}, float32, dev(0)).is_contiguous(kLast));
}

TEST_CASE("layout: a slice of channels-last images is copied as such, whatever its gaps") {
  const Array a = images({2, 6, 4, 5}, 1, kLast).array();
  CHECK(format_of(a.narrow(0, 1, 1)) == kLast);
  const Array some = a.narrow(1, 2, 3);
  CHECK(format_of(some) == kRows);  // not dense
  CHECK(nearest_format(some) == kLast);
  CHECK(format_of(some.clone()) == kLast);
  CHECK(format_of(some.to(float64)) == kLast);
  CHECK(format_of(some.to(dev(1))) == kLast);
  CHECK(format_of(scale(some, 2)) == kLast);
  CHECK(nearest_format(a.narrow(2, 1, 2).narrow(3, 0, 4)) == kLast);
  CHECK(nearest_format(images({2, 6, 4, 5}, 1, kRows).array().narrow(1, 2, 3)) == kRows);
  CHECK(nearest_format(Array::zeros({1, 1, 1, 1}, float32, dev(0)).expand({2, 3, 4, 5})) == kRows);
}

TEST_CASE("layout: to(format) keeps the values, and is counted once if it copies") {
  for (DType dtype : {float32, float64, bfloat16, int64, uint8}) {
    const Array x = images({2, 37, 5, 33}, 1, kRows, dtype).array();
    Array last;
    CHECK(copies_of([&] { last = x.to(kLast); }).conversions == 1);
    CHECK(format_of(last) == kLast);
    CHECK(bits_equal(last, x));
    CHECK(copies_of([&] { CHECK(last.to(kLast).same_as(last)); }).conversions == 0);
    Array back;
    CHECK(copies_of([&] { back = last.contiguous(); }).conversions == 1);
    CHECK(back.is_contiguous());
    CHECK(bits_equal(back, x));
  }
  CHECK(throws<UsageError>([] { zeros({2, 3}).to(kLast); }, {"[channels_last]", "(2, 3)"}));
}

TEST_CASE("layout: reading values, packing slices and reshaping are not conversions") {
  const Tensor x = images({2, 3, 4, 5}, 1, kLast);
  const auto reading = copies_of([&] { x.to_vector<float>(); });
  CHECK(reading.conversions + reading.reshapes == 0);
  const auto packing = copies_of([&] { x.array().narrow(1, 0, 2).to(kLast); });
  CHECK(packing.conversions == 0);
  for (const bool flat : {true, false}) {
    Tensor y;
    const auto shaping = copies_of([&] { y = flat ? x.flatten(1) : x.view({2, 60}); });
    CHECK(shaping.conversions == 0);
    CHECK(shaping.reshapes == 1);
    CHECK(close(y, doubles(x), {0, 0}));
    CHECK(y.is_contiguous());
  }
  CHECK(copies_of([&] { x.contiguous().flatten(1); }).reshapes == 0);
  CHECK(copies_of([&] { images({2, 9, 1, 1}, 1, kLast).flatten(1); }).reshapes == 0);
}

TEST_CASE(
    "layout: copying between arrays of different layouts is a conversion, between equal ones not") {
  const Array rows = images({2, 3, 4, 5}, 1, kRows).array(),
              last = images({2, 3, 4, 5}, 1, kLast).array();
  const Array all[] = {rows, last};
  for (Device device : {dev(0), dev(1)}) {
    for (const Array& from : all) {
      for (const Array& to : all) {
        Array target = to.to(device);
        if (device == dev(0)) target = to.clone();
        const auto made = copies_of([&] { copy(target, from); });
        CHECK(made.conversions == (format_of(from) == format_of(to) ? 0 : 1));
        CHECK(bits_equal(target, from));
      }
    }
  }
}

TEST_CASE(
    "layout: the gradient of to(format), contiguous() and reshape() comes back in x's layout") {
  for (MemoryFormat from : {kRows, kLast}) {
    const MemoryFormat to = from == kRows ? kLast : kRows;
    using One = const std::vector<Tensor>&;
    const std::function<Tensor(One)> ops[] = {[&](One x) { return x[0].to(to); },
                                              [&](One x) { return x[0].contiguous(to); },
                                              [&](One x) {
                                                return x[0].reshape({6, 1, 4, 5});
                                              },
                                              [&](One x) {
                                                return x[0].flatten(1).view({2, 3, 4, 5});
                                              }};
    for (const auto& op : ops) {
      for (MemoryFormat seed : {kRows, kLast}) {
        const Pass pass = forward_backward(op, {images({2, 3, 4, 5}, 1, from)}, seed);
        CHECK(format_of(pass.gradients[0].array()) == from);
        CHECK(close(pass.gradients[0], doubles(images(pass.y.shape(), 99, kRows)), {0, 0}));
      }
    }
  }
}

// ---- ops

TEST_CASE("layout: what works element by element keeps channels-last, forward and backward") {
  using In = const std::vector<Tensor>&;
  const Tensor row = random_tensor({5}, 7), channel = random_tensor({3, 1, 1}, 8);
  const Tensor mask = images({2, 3, 4, 5}, 9, kLast) > 0;
  const std::pair<const char*, std::function<Tensor(In)>> ops[] = {
      {"relu", [](In x) { return relu(x[0]); }},
      {"exp", [](In x) { return exp(x[0]); }},
      {"neg", [](In x) { return -x[0]; }},
      {"clone", [](In x) { return x[0].clone(); }},
      {"cast", [](In x) { return x[0].to(bfloat16); }},
      {"to device", [](In x) { return x[0].to(dev(1)).to(dev(0)); }},
      {"scale", [](In x) { return 2 * x[0] + 1; }},
      {"clamp", [](In x) { return x[0].clamp(-0.5, 0.5); }},
      {"add", [](In x) { return x[0] + x[1]; }},
      {"mul", [](In x) { return x[0] * x[1]; }},
      {"square", [](In x) { return x[0] * x[0]; }},
      {"row", [&](In x) { return x[0] * row; }},
      {"channel", [&](In x) { return channel + x[0]; }},
      {"where", [&](In x) { return where(mask, x[0], x[1]); }},
      {"where number", [&](In x) { return where(mask, x[0], zeros({})); }},
      {"dropout", [](In x) { return dropout(x[0], 0.25); }},
      {"maximum", [](In x) { return maximum(x[0], x[1]); }},
      {"expand", [](In x) { return x[0] * x[1].select(0, 0); }}};
  for (const auto& [name, op] : ops) {
    CAPTURE(name);
    for (MemoryFormat seed : {kRows, kLast}) {
      const std::vector<Tensor> x{images({2, 3, 4, 5}, 1, kLast), images({2, 3, 4, 5}, 2, kLast)};
      manual_seed(0);
      const auto run = [&, &op = op] {
        const Pass pass = forward_backward(op, x, seed);
        CHECK(is_last(pass.y));
        for (const Tensor& g : pass.gradients) CHECK((!g.defined() || is_last(g)));
      };
      CHECK(copies_of(run).conversions <= (seed == kRows ? 2 : 0));
    }
    // sum() hands back a gradient without elements of its own.
    std::vector<Tensor> x{images({2, 3, 4, 5}, 1, kLast), images({2, 3, 4, 5}, 2, kLast)};
    for (Tensor& t : x) t.requires_grad_();
    op(x).sum().backward();
    CHECK(is_last(x[0].grad()));
  }
}

TEST_CASE("layout: writing in place changes no layout") {
  Tensor x = images({2, 3, 4, 5}, 1, kLast);
  const std::vector<double> before = doubles(x);
  const Tensor b = images({2, 3, 4, 5}, 2, kRows);
  x.add_(b).mul_(2);
  CHECK(is_last(x));
  const std::vector<double> other = doubles(b);
  for (std::size_t i = 0; i < before.size(); ++i) {
    CHECK(close(doubles(x)[i], 2 * (before[i] + other[i]), {1e-6, 1e-6}));
  }
  x.copy_(b);
  CHECK(is_last(x));
  CHECK(bits_equal(x, b));
  x.zero_();
  CHECK(close(x, std::vector<double>(120, 0), {0, 0}));
}

TEST_CASE("layout: a gradient that comes twice is added up in one layout") {
  Tensor x = images({2, 3, 4, 5}, 1, kLast);
  x.requires_grad_();
  const Tensor rows = images({2, 3, 4, 5}, 2, kRows);
  (relu(x) * rows + x * rows).sum().backward();
  CHECK(is_last(x.grad()));
  (x * rows).sum().backward();
  CHECK(is_last(x.grad()));
  const std::vector<double> at = doubles(x), r = doubles(rows);
  std::vector<double> expected;
  for (std::size_t i = 0; i < at.size(); ++i) expected.push_back(r[i] * (at[i] > 0 ? 3 : 2));
  CHECK(close(x.grad(), expected));
}

TEST_CASE(
    "layout: conv2d gives channels-last if x or the weight is, or always where that is quicker") {
  for (std::int64_t groups : {1, 2}) {
    const auto op = [groups](const std::vector<Tensor>& in) {
      return conv2d(in[0], in[1], in[2], {.stride = {1, 2}, .padding = {1, 0}, .groups = groups});
    };
    const Shape sx{3, 8, 9, 7}, sw{10, 8 / groups, 3, 3};
    const auto inputs = [&](MemoryFormat x, MemoryFormat w, DType dtype, Device device = dev(0)) {
      return std::vector{images(sx, 1, x, dtype, device), images(sw, 2, w, dtype, device),
                         random_tensor({10}, 3, dtype, device)};
    };
    const Pass exact = forward_backward(op, inputs(kRows, kRows, float64, cpu(0)), kRows);
    for (MemoryFormat fx : {kRows, kLast}) {
      for (MemoryFormat fw : {kRows, kLast}) {
        for (MemoryFormat seed : {kRows, kLast}) {
          Pass pass;
          const auto made =
              copies_of([&] { pass = forward_backward(op, inputs(fx, fw, float32), seed); });
          // x is converted once where convolutions are channels-last anyway. A GPU's library takes
          // nothing else, so a row-major dy is converted for both gradients.
          const bool anyway = backend(dev(0)).conv_format() == kLast;
          const int copied = (anyway && fx == kRows) + (on_gpu() && seed == kRows ? 2 : 0);
          CHECK(made.conversions + made.reshapes <= copied);
          CHECK(is_last(pass.y) == (anyway || fx == kLast || fw == kLast));
          CHECK(format_of(pass.gradients[0].array()) == fx);
          CHECK(format_of(pass.gradients[1].array()) == fw);
          // Sums of up to 200 products of numbers below 1, rounded at 2^-24.
          CHECK(close(pass.y, exact.y, {1e-5, 1e-5}));
          for (std::size_t i = 0; i < 3; ++i) {
            CHECK(close(pass.gradients[i], exact.gradients[i], {1e-5, 2e-5}));
          }
          const Pass half = forward_backward(op, inputs(fx, fw, bfloat16), seed);
          CHECK(format_of(half.y.array()) == format_of(pass.y.array()));
          CHECK(close(half.y, exact.y, {0.02, 0.1}));
        }
      }
    }
  }
}

TEST_CASE("layout: one image without a batch comes out as it came in") {
  const Tensor image = images({1, 4, 6, 5}, 1, kLast).squeeze(0),
               w = random_tensor({3, 4, 3, 3}, 2);
  const Tensor rows = image.contiguous();
  CHECK(conv2d(rows, w).is_contiguous());
  CHECK(close(conv2d(image, w), conv2d(rows, w), {1e-6, 1e-6}));  // 36 products, in any order
  CHECK(max_pool2d(rows, 2).is_contiguous());
  CHECK(bits_equal(max_pool2d(image, 2), max_pool2d(rows, 2)));
}

namespace {

struct PoolCase {
  const char* name;
  std::function<Tensor(const std::vector<Tensor>&)> op;
};
const PoolCase kPools[] = {
    {"max 2x2", [](auto& x) { return max_pool2d(x[0], 2); }},
    {"max overlapping", [](auto& x) { return max_pool2d(x[0], 3, {.stride = 2, .padding = 1}); }},
    {"max dilated",
     [](auto& x) {
       return max_pool2d(
           x[0], {2, 3},
           {.stride = Size2d(2, 1), .padding = {1, 1}, .dilation = {3, 2}, .ceil_mode = true});
     }},
    {"average 2x2", [](auto& x) { return avg_pool2d(x[0], 2); }},
    {"average overlapping",
     [](auto& x) {
       return avg_pool2d(x[0], 3, {.stride = Size2d(2, 1), .padding = 1, .ceil_mode = true});
     }},
    {"average of all", [](auto& x) { return adaptive_avg_pool2d(x[0], 1); }},
    {"adaptive", [](auto& x) {
       return adaptive_avg_pool2d(x[0], {3, 5});
     }}};

}  // namespace

TEST_CASE("layout: pooling gives the same numbers in both layouts, and keeps them") {
  for (const PoolCase& pool : kPools) {
    CAPTURE(pool.name);
    const bool exact = std::string(pool.name).starts_with("max");
    for (const Shape& shape : {Shape{2, 5, 9, 11}, Shape{3, 40, 8, 6}, Shape{1, 600, 5, 5}}) {
      for (DType dtype : float_types()) {
        const Pass rows = forward_backward(pool.op, {images(shape, 1, kRows, dtype)}, kRows);
        CHECK(!is_last(rows.y));
        for (MemoryFormat seed : {kRows, kLast}) {
          Pass last;
          const auto made = copies_of(
              [&] { last = forward_backward(pool.op, {images(shape, 1, kLast, dtype)}, seed); });
          CHECK(made.conversions == 0);
          CHECK((is_last(last.y) || last.y.size(2) * last.y.size(3) == 1));
          CHECK(is_last(last.gradients[0]));
          // The order of additions is the same but for windows of 16 columns and more.
          const double unit = size_of(dtype) == 2 ? 0x1p-7 : 1e-6;
          const Tolerance tolerance = exact ? Tolerance{0, 0} : Tolerance{unit, unit};
          CHECK(close(last.y, rows.y, tolerance));
          CHECK(close(last.gradients[0], rows.gradients[0], tolerance));
        }
      }
    }
  }
}

TEST_CASE("layout: max_pool2d picks the first of equals and the last NaN in both layouts") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double inf = std::numeric_limits<double>::infinity();
  std::vector<double> values;
  for (std::int64_t i = 0; i < 2 * 9 * 6 * 6; ++i) {
    const double u = hash_uniform(5, std::uint64_t(i));
    values.push_back(u < 0.1 ? nan : u < 0.2 ? -inf : u < 0.25 ? inf : std::floor(u * 4));
  }
  const Tensor rows = tensor_of(values, {2, 9, 6, 6}), last = rows.to(kLast);
  Backend& cpu0 = backend(dev(0));
  // The second sees windows of nothing but padding.
  const Window2d windows[] = {{3, 2, 1, 1}, {{2, 2}, {1, 1}, {1, 1}, {7, 7}}};
  for (const Window2d& window : windows) {
    const std::int64_t p =
        count_windows(6, window.kernel.h, window.stride.h, window.padding.h, window.dilation.h);
    if (p <= 0) continue;
    Array y[2], index[2];
    for (int i = 0; i < 2; ++i) {
      const MemoryFormat format = i == 0 ? kRows : kLast;
      y[i] = Array::empty({2, 9, p, p}, float32, dev(0), format);
      index[i] = Array::empty({2, 9, p, p}, int32, dev(0), format);
      cpu0.max_pool2d(window, (i == 0 ? rows : last).array(), y[i], index[i]);
      Array alone = Array::empty({2, 9, p, p}, float32, dev(0), format), none;
      cpu0.max_pool2d(window, (i == 0 ? rows : last).array(), alone, none);
      CHECK(bits_equal(alone, y[i]));
    }
    CHECK(bits_equal(y[1], y[0]));
    CHECK(bits_equal(index[1], index[0]));
  }
}

TEST_CASE("layout: a dropout mask depends on the position, not on the layout") {
  for (const Shape& shape : {Shape{3, 5, 7, 3}, Shape{2, 40, 13, 11}, Shape{2, 16, 8, 8}}) {
    for (DType dtype : float_types()) {
      Pass pass[2];
      for (int i = 0; i < 2; ++i) {
        const MemoryFormat format = i == 0 ? kRows : kLast;
        manual_seed(4);
        pass[i] = forward_backward([](const std::vector<Tensor>& x) { return dropout(x[0], 0.4); },
                                   {images(shape, 1, format, dtype)}, format);
      }
      CHECK(is_last(pass[1].y));
      CHECK(is_last(pass[1].gradients[0]));
      CHECK(bits_equal(pass[1].y, pass[0].y));
      CHECK(bits_equal(pass[1].gradients[0], pass[0].gradients[0]));
    }
  }
}

TEST_CASE("layout: batch_norm of channels-last images equals that of row-major ones") {
  for (const bool training : {true, false}) {
    const auto op = [training](const std::vector<Tensor>& in) {
      const TensorOptions like{.dtype = in[1].dtype(), .device = in[1].device()};
      Tensor mean = full({in[0].size(1)}, 0.5, like), var = full({in[0].size(1)}, 2, like);
      const Tensor y = batch_norm(in[0], mean, var, in[1], in[2], {.training = training});
      return y + mean.view({-1, 1, 1}) + var.view({-1, 1, 1});  // the running statistics too
    };
    for (const Shape& shape : {Shape{3, 5, 4, 7}, Shape{2, 200, 3, 3}}) {
      const auto inputs = [&](MemoryFormat format, DType dtype, Device device) {
        return std::vector{images(shape, 1, format, dtype, device),
                           random_tensor({shape[1]}, 2, dtype, device),
                           random_tensor({shape[1]}, 3, dtype, device)};
      };
      const Pass exact = forward_backward(op, inputs(kRows, float64, cpu(0)), kRows);
      Pass last;
      const auto run = [&](MemoryFormat seed) {
        return copies_of(
            [&] { last = forward_backward(op, inputs(kLast, float32, dev(0)), seed); });
      };
      CHECK(run(kLast).conversions == 0);
      CHECK(is_last(last.y));
      CHECK(is_last(last.gradients[0]));
      CHECK(close(last.y, exact.y, {1e-5, 1e-5}));
      for (std::size_t i = 0; i < 3; ++i) {
        CHECK(close(last.gradients[i], exact.gradients[i], {2e-5, 2e-5}));
      }
      run(kRows);  // whatever the layout of the gradient that arrives
      CHECK(is_last(last.gradients[0]));
      CHECK(close(last.gradients[0], exact.gradients[0], {2e-5, 2e-5}));
    }
  }
}

TEST_CASE("layout: joining and cutting channels-last images gives such") {
  const std::vector<Tensor> parts{images({4, 6, 4, 6}, 1, kLast), images({4, 6, 4, 6}, 2, kLast)};
  for (int dim : {0, 1, 2, 3}) {
    const auto join = [dim](const std::vector<Tensor>& x) { return cat(x, dim); };
    const Pass pass = forward_backward(join, parts, kLast);
    CHECK(is_last(pass.y));
    CHECK(close(pass.y, cat({parts[0].contiguous(), parts[1].contiguous()}, dim), {0, 0}));
    for (const Tensor& g : pass.gradients) CHECK(is_last(g));
    const auto cut = [dim](const std::vector<Tensor>& x) {
      const std::vector<Tensor> pieces = x[0].split(2, dim);
      return cat({relu(pieces[1]), pieces[0]}, dim);
    };
    const auto made = copies_of([&] {
      const Pass cuts = forward_backward(cut, {parts[0]}, kLast);
      CHECK(is_last(cuts.y));
      CHECK(is_last(cuts.gradients[0]));
    });
    CHECK(made.conversions == 0);
  }
  const Tensor stacked = stack({parts[0].select(0, 0), parts[1].select(0, 1)}, 0);
  CHECK(is_last(stacked));
  CHECK(close(stacked[1], parts[1].contiguous()[1], {0, 0}));
  const Tensor other = parts[1].contiguous();
  const auto mixing = copies_of([&] { CHECK(!is_last(cat({parts[0], other}, 0))); });
  CHECK(mixing.conversions == 1);
  const auto some = [](const std::vector<Tensor>& x) { return x[0].narrow(1, 1, 2) * 1; };
  CHECK(is_last(forward_backward(some, {parts[0]}, kLast).gradients[0]));
}
