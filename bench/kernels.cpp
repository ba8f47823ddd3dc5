// The CPU's kernels beside what limits them: a copy of as many bytes, or Eigen doing the same.
//
//   kernels [part of a name]
//
// A ratio of 1 is as fast as the limit. Times are processor times, the shortest of many runs, which
// a busy machine disturbs least. Arrays of 4 M numbers do not fit into a cache.
#include <Eigen/Core>
#include <cstdio>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <unsupported/Eigen/SpecialFunctions>
#include <vector>

#include <tandem/core/array_ops.h>
#include <tandem/tandem.h>

#include "measure.h"

using namespace tandem;

namespace {

using bench::cpu_seconds;

double shortest(const std::function<void()>& f) {
  double best = std::numeric_limits<double>::infinity(), spent = 0;
  for (int i = 0; i < 200 && spent < 0.3; ++i) {
    const double start = cpu_seconds();
    f();
    const double time = cpu_seconds() - start;
    best = std::min(best, time);
    spent += time;
  }
  return best;
}

std::string wanted;

bool asked_for(const char* name) {
  return std::string(name).find(wanted) != std::string::npos;
}

void report(const char* name, const std::function<void()>& kernel, const char* limit,
            const std::function<void()>& peer) {
  if (!asked_for(name)) return;
  const double theirs = shortest(peer), ours = shortest(kernel);
  std::printf("%-34s %9.1f us   %6.2f times %s\n", name, 1e6 * ours, ours / theirs, limit);
}

/// The limit of a kernel that moves `bytes` in all: half of them in, half of them out.
std::function<void()> copy_of(std::int64_t bytes) {
  static std::vector<char> from(std::size_t(1) << 28, 1), to(std::size_t(1) << 28, 2);
  return [n = std::size_t(bytes / 2)] { std::memcpy(to.data(), from.data(), n); };
}

constexpr std::int64_t kN = std::int64_t(1) << 22;
constexpr std::int64_t kFloats = 4 * kN;  // bytes

/// Bytes per second that this core can move: the best of STREAM's four loops over arrays as large
/// as those of the kernels. Counted as STREAM does: what is read and what is written.
double stream_bandwidth() {
  std::vector<float> a(kN, 1.0f), b(kN, 2.0f), c(kN, 0.0f);
  float *p = a.data(), *q = b.data(), *__restrict r = c.data();
  const auto loop = [&](int arrays, auto element) {
    const double seconds = shortest([&] {
#pragma GCC ivdep
      for (std::int64_t i = 0; i < kN; ++i) r[i] = element(i);
      asm volatile("" : : "r"(r) : "memory");
    });
    return double(arrays * kFloats) / seconds;
  };
  return std::max({loop(2, [p](std::int64_t i) { return p[i]; }),
                   loop(2, [p](std::int64_t i) { return 3.0f * p[i]; }),
                   loop(3, [p, q](std::int64_t i) { return p[i] + q[i]; }),
                   loop(3, [p, q](std::int64_t i) { return p[i] + 3.0f * q[i]; })});
}

/// The share of that bandwidth which ops on 16 MB reach, as their users call them: allocation
/// included.
void bandwidth() {
  if (!wanted.empty() && wanted != "bandwidth") return;
  const double limit = stream_bandwidth();
  double least = std::numeric_limits<double>::infinity();
  const auto share = [&](const char* name, int arrays, const std::function<void()>& f) {
    const double reached = double(arrays * kFloats) / shortest(f) / limit;
    std::printf("%-34s %6.1f GB/s, %.2f of STREAM's %.1f\n", name, 1e-9 * reached * limit, reached,
                1e-9 * limit);
    return reached;
  };
  const Tensor x = randn({kN}), z = randn({kN});
  least = std::min(least, share("x + z, 16 MB", 3, [&] { x + z; }));
  least = std::min(least, share("x * z, 16 MB", 3, [&] { x* z; }));
  least = std::min(least, share("x * 2, 16 MB", 2, [&] { x * 2; }));
  least = std::min(least, share("relu(x), 16 MB", 2, [&] { relu(x); }));
  least = std::min(least, share("maximum(x, z), 16 MB", 3, [&] { maximum(x, z); }));
  bench::print_ratio("pointwise_of_limit", least);
  Tensor p = randn({kN});
  p.requires_grad_();
  p.set_grad(randn({kN}));
  optim::Adam adam({p});
  bench::print_ratio("adam_of_limit", share("Adam, 16 MB", 7, [&] { adam.step(); }));
}

Array random_array(const Shape& shape, DType dtype = float32) {
  return randn(shape).array().to(dtype);
}

void pointwise() {
  const Array x = random_array({kN}), z = random_array({kN});
  Array y = Array::empty_like(x);
  Backend& b = backend(cpu(0));
  const auto map = [&](MapOp op) { return [&b, &x, &y, op] { b.map(op, {}, x, y); }; };
  const auto zip = [&](ZipOp op) { return [&b, &x, &z, &y, op] { b.zip(op, x, z, y); }; };
  report("relu", map(map_op<Relu>), "a copy", copy_of(2 * kFloats));
  report("sqrt", map(map_op<Sqrt>), "a copy", copy_of(2 * kFloats));
  report("add", zip(zip_op<Add>), "a copy", copy_of(3 * kFloats));
  report("mul", zip(zip_op<Mul>), "a copy", copy_of(3 * kFloats));
  report("maximum", zip(zip_op<Maximum>), "a copy", copy_of(3 * kFloats));
  report(
      "relu gradient", [&] { b.map_grad(map_op<Relu>, {}, x, z, y); }, "a copy",
      copy_of(3 * kFloats));
  using Column = Eigen::Array<float, Eigen::Dynamic, 1>;
  const Eigen::Map<const Column> ex(x.data<float>(), kN);
  Eigen::Map<Column> ey(y.mutable_data<float>(), kN);
  report("exp", map(map_op<Exp>), "Eigen", [&] { ey = ex.exp(); });
  report("log", map(map_op<Log>), "Eigen", [&] { ey = ex.log(); });
  report("tanh", map(map_op<Tanh>), "Eigen", [&] { ey = ex.tanh(); });
  report("sigmoid", map(map_op<Sigmoid>), "Eigen", [&] { ey = 1.0f / (1.0f + (-ex).exp()); });
  report("gelu", map(map_op<Gelu>), "Eigen",
         [&] { ey = ex * 0.5f * (1.0f + (ex * 0.70710678f).erf()); });
}

void broadcast() {
  Backend& b = backend(cpu(0));
  const auto bias = [&](const char* name, const Shape& shape, const Shape& small) {
    const Array x = random_array(shape), z = random_array(small).expand(shape);
    Array y = Array::empty_like(x);
    report(
        name, [&] { b.zip(zip_op<Add>, x, z, y); }, "a copy", copy_of(2 * kFloats));
  };
  bias("bias, 1024 columns", {kN / 1024, 1024}, {1024});
  bias("bias, 32 columns", {kN / 32, 32}, {32});
  bias("bias, 10 columns", {kN / 10, 10}, {10});
  bias("bias, channels of 1024", {kN / 65536, 64, 1024}, {64, 1});
  bias("bias, channels of 16", {kN / 1024, 64, 16}, {64, 1});
  bias("column, 10 columns", {kN / 10, 10}, {kN / 10, 1});
  bias("number", {kN}, {1});
}

void reductions() {
  Backend& b = backend(cpu(0));
  const auto sum = [&](const char* name, const Shape& shape, const Shape& result) {
    const Array x = random_array(shape);
    Array y = Array::empty(result, float32, cpu(0));
    report(
        name, [&] { b.reduce(reduce_op<SumRule>, x, y); }, "a copy", copy_of(kFloats));
  };
  sum("sum", {kN}, {1});
  sum("sum of rows of 1024", {kN / 1024, 1024}, {kN / 1024, 1});
  sum("sum of rows of 10", {kN / 10, 10}, {kN / 10, 1});
  sum("sum of 1024 columns", {kN / 1024, 1024}, {1, 1024});
  sum("sum of 10 columns", {kN / 10, 10}, {1, 10});
  sum("sum per channel", {kN / 65536, 64, 1024}, {1, 64, 1});
  for (std::int64_t n : {1000, 10}) {
    const Array x = random_array({kN / n, n});
    Array y = Array::empty_like(x), index = Array::empty({kN / n, 1}, int64, cpu(0));
    const std::string rows = " of rows of " + std::to_string(n);
    report(("softmax" + rows).c_str(), [&] { b.softmax(false, x, y); }, "a copy",
           copy_of(2 * kFloats));
    report(("log_softmax" + rows).c_str(), [&] { b.softmax(true, x, y); }, "a copy",
           copy_of(2 * kFloats));
    report(("argmax" + rows).c_str(), [&] { b.arg_reduce(true, x, 1, index); }, "a copy",
           copy_of(kFloats));
  }
}

void copies() {
  Backend& b = backend(cpu(0));
  const Array x = random_array({2048, 2048}), h = x.to(float16), bf = x.to(bfloat16);
  Array y = Array::empty({2048, 2048}, float32, cpu(0)), z = h.clone(), w = bf.clone();
  report(
      "transposed copy", [&] { b.copy(x.transpose(0, 1), y); }, "a copy", copy_of(2 * kFloats));
  report(
      "cast to float16", [&] { b.cast(x, z); }, "a copy", copy_of(kFloats * 3 / 2));
  report(
      "cast from float16", [&] { b.cast(h, y); }, "a copy", copy_of(kFloats * 3 / 2));
  report(
      "cast to bfloat16", [&] { b.cast(x, w); }, "a copy", copy_of(kFloats * 3 / 2));
  report(
      "add of float16", [&] { b.zip(zip_op<Add>, h, h, z); }, "a copy", copy_of(kFloats));
  report(
      "fill", [&] { b.fill(y, 1); }, "a copy", copy_of(kFloats));
  report(
      "dropout", [&] { b.dropout({.seed = 1, .call = 1, .first_row = 0, .p = 0.5f}, x, y); },
      "a copy", copy_of(2 * kFloats));
  const Array c = x.to(DType::boolean);
  report(
      "where", [&] { b.where(c, x, x, y); }, "a copy", copy_of(2 * kFloats + kN));
}

void updates() {
  const auto run = [](const char* name, UpdateOp op, int states, std::int64_t arrays,
                      std::array<double, kUpdateCoefficients> c) {
    std::vector<UpdateItem> items(1);
    items[0].param = random_array({kN});
    items[0].grad = random_array({kN});
    for (int k = 0; k < states; ++k) items[0].state[std::size_t(k)] = random_array({kN});
    items[0].c = c;
    report(
        name, [&] { backend(cpu(0)).update(op, items); }, "a copy", copy_of(arrays * kFloats));
  };
  run("SGD", update_op<SgdRule>, 0, 3, {0.0});
  run("SGD with momentum", update_op<SgdRule>, 1, 5, {0.0, 0.9});
  run("Adam", update_op<AdamRule>, 2, 7, {0.0, 0.9, 0.9, 1, 1e-8, 0, 1});
}

void products() {
  using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const auto run = [](const char* name, std::int64_t m, std::int64_t k, std::int64_t n,
                      bool transposed) {
    const Array a = random_array({1, m, k});
    const Array b = transposed ? random_array({1, n, k}).transpose(1, 2) : random_array({1, k, n});
    Array c = Array::empty({1, m, n}, float32, cpu(0));
    const Matrix p = Matrix::Random(m, k), q = Matrix::Random(k, n);
    Matrix r(m, n);
    report(
        name, [&] { backend(cpu(0)).gemm(a, b, c, false); }, "Eigen", [&] { r.noalias() = p * q; });
  };
  run("product 512 512 512", 512, 512, 512, false);
  run("product 512 512 512, transposed", 512, 512, 512, true);
  run("product 64 64 64", 64, 64, 64, false);
  run("product 32 784 128, transposed", 32, 784, 128, true);
  run("product 4 4 4", 4, 4, 4, false);
}

// Beside Eigen's products of the same sizes, one per sample.
void convolutions() {
  using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const auto run = [](const std::string& name, std::int64_t n, std::int64_t in, std::int64_t out,
                      std::int64_t size) {
    const Window2d window{.kernel = 3, .padding = 1};
    const Array x = random_array({n, in, size, size}), w = random_array({out, in, 3, 3});
    const Array dy = random_array({n, out, size, size});
    Array y = Array::empty_like(dy), dx = Array::empty_like(x), dw = Array::empty_like(w);
    const Matrix p = Matrix::Random(out, in * 9), q = Matrix::Random(in * 9, size * size);
    Matrix r(out, size * size);
    const auto products = [&] {
      for (std::int64_t i = 0; i < n; ++i) r.noalias() = p * q;
    };
    Backend& b = backend(cpu(0));
    report(
        name.c_str(), [&] { b.conv2d(window, 1, x, w, {}, y); }, "Eigen", products);
    report((name + ", dx").c_str(), [&] { b.conv2d_grad_input(window, 1, w, dy, dx); }, "Eigen",
           products);
    report((name + ", dw").c_str(), [&] { b.conv2d_grad_weight(window, 1, x, dy, dw); }, "Eigen",
           products);
  };
  run("conv 3x3, 32 of 64-128, 16 x 16", 32, 64, 128, 16);
  run("conv 3x3, 32 of 3-64, 32 x 32", 32, 3, 64, 32);
  run("conv 3x3, 128 of 32-64, 4 x 4", 128, 32, 64, 4);
}

void pooling(MemoryFormat format) {
  const Array x = random_array({32, 64, 32, 32}).to(format);
  const Shape half{32, 64, 16, 16};
  Array y = Array::empty(half, float32, cpu(0), format);
  Array index = Array::empty(half, int32, cpu(0), format);
  Array dx = Array::empty_like(x), mean = Array::empty({32, 64, 1, 1}, float32, cpu(0));
  const Window2d window{.kernel = 2, .stride = 2};
  const AverageRule rule{.window = window}, all{.adaptive = true};
  Backend& b = backend(cpu(0));
  const std::int64_t bytes = x.nbytes();
  const auto name = [format](const char* text) {
    return str(text, format == MemoryFormat::contiguous ? "" : ", channels-last");
  };
  report(
      name("max_pool 2x2").c_str(), [&] { b.max_pool2d(window, x, y, index); }, "a copy",
      copy_of(bytes * 3 / 2));
  report(
      name("max_pool 2x2, dx").c_str(), [&] { b.max_pool2d_grad(window, index, y, dx); }, "a copy",
      copy_of(bytes * 3 / 2));
  report(
      name("avg_pool 2x2").c_str(), [&] { b.avg_pool2d(rule, x, y); }, "a copy",
      copy_of(bytes * 5 / 4));
  report(
      name("avg_pool 2x2, dx").c_str(), [&] { b.avg_pool2d_grad(rule, y, dx); }, "a copy",
      copy_of(bytes * 5 / 4));
  report(
      name("avg_pool to 1x1").c_str(), [&] { b.avg_pool2d(all, x, mean); }, "a copy",
      copy_of(bytes));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) wanted = argv[1];
  bandwidth();
  pointwise();
  broadcast();
  reductions();
  copies();
  updates();
  products();
  convolutions();
  pooling(MemoryFormat::contiguous);
  pooling(MemoryFormat::channels_last);
}
