// Several threads per device: whatever their number, every kernel gives the same bits; errors come
// back to the caller; and the setting itself.
#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <iterator>
#include <latch>
#include <string>
#include <thread>

#include <tandem/tandem.h>

#include "tests/core/cpu_arrays.h"

using namespace tandem;
using namespace tandem::test;

namespace {

// Sanitizers look for races, at a hundredth of the speed: one count, and every fifth product.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool kSanitized = true;
constexpr int kCounts[] = {3};
#else
constexpr bool kSanitized = false;
constexpr int kCounts[] = {2, 3, 5};
#endif

struct Threads {
  explicit Threads(int n) : before(threads_per_device()) { set_threads_per_device(n); }
  ~Threads() { set_threads_per_device(before); }
  int before;
};

std::vector<bool> both_libraries() {
  return onednn_available() ? std::vector{false, true} : std::vector{false};
}

/// f() gives the same bits with 1, 2, 3 and 5 threads. Its results start as garbage.
Verdict same_bits(const std::function<std::vector<Array>()>& f) {
  std::vector<Array> alone;
  {
    const Threads one(1);
    alone = f();
  }
  for (int n : kCounts) {
    const Threads several(n);
    const std::vector<Array> shared = f();
    for (std::size_t i = 0; i < alone.size(); ++i) {
      Verdict v = bits_equal(dense_copy(alone[i]), dense_copy(shared[i]));
      if (!v.ok) v.why = str("result ", i, " with ", n, " threads: ", v.why);
      if (!v.ok) return v;
    }
  }
  return {};
}

Array random_array(const Shape& shape, std::uint64_t seed, DType dtype = float32,
                   Lie lie = Lie::row_major) {
  return lying(lie, random_doubles(shape.numel(), seed), shape, dtype);
}

Array product(const Array& a, const Array& b, bool accumulate) {
  Array c = accumulate ? random_array({a.size(0), a.size(1), b.size(2)}, 3, a.dtype())
                       : garbage({a.size(0), a.size(1), b.size(2)}, a.dtype());
  cpu_backend().gemm(a, b, c, accumulate);
  return c;
}

std::int64_t threads_of_process() {
  return std::int64_t(std::distance(std::filesystem::directory_iterator("/proc/self/task"), {}));
}

/// Work for every thread of a device.
Array large_work(Device device = cpu(0)) {
  Array y = Array::zeros({1 << 20}, float32, device);
  backend(device).map(map_op<Exp>, {}, y, y);
  return y;
}

}  // namespace

TEST_CASE("threads: a matrix product's bits do not depend on their number") {
  struct Sizes {
    std::int64_t m, n, k;
  };
  // Thin and thick for oneDNN (see onednn_is_thin), panels that fill and panels that do not, parts
  // by rows and by columns, vectors, and depths in one and in several blocks.
  const Sizes sizes[] = {{64, 257, 784},   {1024, 256, 100}, {257, 96, 300},   {97, 1001, 65},
                         {300, 300, 64},   {3, 2000, 700},   {2000, 10, 256},  {193, 145, 260},
                         {1, 1500, 1200},  {1500, 1, 1200},  {1100, 1000, 40}, {801, 1603, 20},
                         {128, 1024, 30},  {520, 530, 70},   {49, 51, 2000},   {2100, 384, 33},
                         {512, 512, 64},   {256, 1500, 300}, {64, 784, 1100},  {64, 7000, 256},
                         {200, 7000, 100}, {461, 7685, 2},   {96, 14129, 50}};
  for (const bool library : both_libraries()) {
    const UseOneDnn use(library);
    for (std::size_t i = 0; i < std::size(sizes); i += kSanitized ? 5 : 1) {
      const Sizes& s = sizes[i];
      for (int way = 0; way < 8; ++way) {
        CAPTURE(library);
        CAPTURE(s.m);
        CAPTURE(s.n);
        CAPTURE(s.k);
        CAPTURE(way);
        const Array a = way & 1 ? random_array({1, s.k, s.m}, 1).transpose(1, 2)
                                : random_array({1, s.m, s.k}, 1);
        const Array b = way & 2 ? random_array({1, s.n, s.k}, 2).transpose(1, 2)
                                : random_array({1, s.k, s.n}, 2);
        CHECK(same_bits([&] { return std::vector{product(a, b, way & 4)}; }));
      }
    }
  }
}

TEST_CASE("threads: so do those of products in batches, in float64 and in 16 bits") {
  for (const bool library : both_libraries()) {
    const UseOneDnn use(library);
    for (const DType dtype : {float32, float64, float16, bfloat16}) {
      for (const Shape& s : {Shape{2, 130, 150, 210}, Shape{13, 50, 60, 100}}) {
        CAPTURE(dtype);
        CAPTURE(library);
        const Array a = random_array({s[0], s[1], s[2]}, 1, dtype);
        const Array b = random_array({s[0], s[3], s[2]}, 2, dtype).transpose(1, 2);
        CHECK(same_bits([&] { return std::vector{product(a, b, false)}; }));
      }
    }
  }
}

TEST_CASE("threads: convolutions and their gradients have the same bits, however images lie") {
  struct Case {
    Shape x, w;  // (N, C, H, W), (O, C / groups, KH, KW)
    std::int64_t groups, stride, padding;
  };
  const Case cases[] = {
      {{32, 3, 32, 32}, {64, 3, 3, 3}, 1, 1, 1},  {{11, 16, 33, 31}, {24, 16, 3, 3}, 1, 1, 1},
      {{5, 24, 30, 29}, {40, 24, 1, 1}, 1, 1, 0}, {{9, 17, 41, 23}, {13, 17, 3, 3}, 1, 2, 1},
      {{7, 16, 28, 28}, {32, 8, 3, 3}, 2, 1, 1},  {{3, 8, 61, 67}, {16, 8, 5, 5}, 1, 1, 2},
      {{64, 32, 16, 16}, {32, 32, 3, 3}, 1, 1, 1}};
  for (const bool library : both_libraries()) {
    const UseOneDnn use(library);
    for (std::size_t i = 0; i < std::size(cases); i += kSanitized ? 4 : 1) {
      const Case& c = cases[i];
      const Window2d window{{c.w[2], c.w[3]}, {c.stride}, {c.padding}, {1}};
      const Shape out{c.x[0], c.w[0], count_windows(c.x[2], c.w[2], c.stride, c.padding, 1),
                      count_windows(c.x[3], c.w[3], c.stride, c.padding, 1)};
      for (const Lie lie : {Lie::row_major, Lie::rotated}) {
        CAPTURE(library);
        CAPTURE(c.x);
        CAPTURE(c.w);
        CAPTURE(int(lie));
        const Array x = random_array(c.x, 1, float32, lie), w = random_array(c.w, 2),
                    bias = random_array({c.w[0]}, 3), dy = random_array(out, 4, float32, lie);
        CHECK(same_bits([&] {
          Array y = garbage(out, float32, lie), dx = garbage(c.x, float32, lie),
                dw = garbage(c.w, float32);
          cpu_backend().conv2d(window, c.groups, x, w, bias, y);
          cpu_backend().conv2d_grad_input(window, c.groups, w, dy, dx);
          cpu_backend().conv2d_grad_weight(window, c.groups, x, dy, dw);
          return std::vector{y, dx, dw};
        }));
      }
    }
  }
}

TEST_CASE("threads: kernels that go element by element, row by row or channel by channel") {
  for (const DType dtype : {float32, bfloat16, float64}) {
    if (kSanitized && dtype != float32) continue;
    for (const Lie lie : {Lie::row_major, Lie::rotated, Lie::gaps}) {
      CAPTURE(dtype);
      CAPTURE(int(lie));
      const Array x = random_array({7, 65, 33, 29}, 1, dtype, lie),
                  z = random_array({7, 65, 33, 29}, 2, dtype),
                  row = random_array({1, 1, 1, 29}, 3, dtype).expand(x.shape());
      Backend& b = cpu_backend();
      CHECK(same_bits([&] {
        std::vector<Array> y;
        const auto next = [&](DType of) -> Array& {
          return y.emplace_back(garbage(x.shape(), of));
        };
        b.map(map_op<Tanh>, {}, x, next(dtype));
        b.map_grad(map_op<Relu>, {}, x, z, next(dtype));
        b.zip(zip_op<Mul>, x, row, next(dtype));
        b.zip(zip_op<Lt>, x, z, next(DType::boolean));
        b.copy(x, next(dtype));
        b.copy(z, next(dtype));
        b.cast(x, next(float16));
        b.fill(next(dtype), 1.5);
        b.softmax(true, x, next(dtype));
        const Array probabilities = y.back();
        b.softmax_grad(true, probabilities, x, next(dtype));
        b.dropout({.seed = 1, .call = 2, .p = 0.5}, z, next(dtype));
        Array sums = garbage({7, 65, 1, 1}, dtype), columns = garbage({1, 65, 33, 29}, dtype);
        b.reduce(reduce_op<SumRule>, x, sums);
        b.reduce(reduce_op<SumRule>, x, columns);
        y.push_back(sums), y.push_back(columns);
        return y;
      }));
    }
  }
}

TEST_CASE("threads: normalization and pooling in both layouts") {
  for (const Lie lie : {Lie::row_major, Lie::rotated}) {
    CAPTURE(int(lie));
    const auto format =
        lie == Lie::rotated ? MemoryFormat::channels_last : MemoryFormat::contiguous;
    CHECK(same_bits([&] {
      manual_seed(1);
      nn::BatchNorm2d norm(129);
      Tensor x = random_tensor({6, 129, 19, 23}, 1).to(format);
      x.requires_grad_();
      const Tensor y = norm(x);
      const Tensor pooled = max_pool2d(y, 2);
      const Tensor mean = avg_pool2d(y, 3);
      (sum(pooled * pooled) + sum(mean * mean)).backward();
      return std::vector{y.array(), pooled.array(), mean.array(), x.grad().array()};
    }));
  }
}

namespace {

// Weights after some steps on random data, and the last loss.
template <class Net>
std::vector<Array> trained(Net net, const Shape& input) {
  optim::Adam adam(net.parameters(), {.lr = 1e-3});
  std::vector<Array> results;
  for (int step = 0; step < 3; ++step) {
    const Tensor x = random_tensor(input, std::uint64_t(step));
    std::vector<double> classes;
    for (double u : random_doubles(input[0], 9, 0, 10)) classes.push_back(std::floor(u));
    const Tensor loss = nn::cross_entropy(net(x), tensor_of(classes, {input[0]}, int64));
    adam.zero_grad();
    loss.backward();
    adam.step();
    results.assign(1, loss.array());
  }
  for (const Tensor& p : net.parameters()) results.push_back(p.array());
  return results;
}

}  // namespace

TEST_CASE("threads: steps of training have the same bits") {
  for (const bool library : both_libraries()) {
    const UseOneDnn use(library);
    CAPTURE(library);
    CHECK(same_bits([] {
      manual_seed(1);
      return trained(nn::Sequential({nn::Linear(300, 500), nn::ReLU(), nn::Dropout(0.2),
                                     nn::Linear(500, 257), nn::Tanh(), nn::Linear(257, 10)}),
                     {1000, 300});
    }));
    CHECK(same_bits([] {
      manual_seed(2);
      return trained(
          nn::Sequential({nn::Conv2d(3, 24, 3, {.padding = 1}), nn::BatchNorm2d(24), nn::ReLU(),
                          nn::MaxPool2d(2), nn::Conv2d(24, 40, 3), nn::ReLU(), nn::MaxPool2d(2),
                          nn::Flatten(), nn::Linear(40 * 49, 10)}),
          {17, 3, 32, 32});
    }));
  }
}

TEST_CASE("threads: helpers come with the first large kernel and go with the setting") {
  const Threads one(1);
  large_work();
  std::thread([] {}).join();  // with the first one ThreadSanitizer starts a thread of its own
  const std::int64_t before = threads_of_process();
  set_threads_per_device(4);
  CHECK(threads_per_device() == 4);
  CHECK(threads_of_process() == before);
  large_work();
  CHECK(threads_of_process() == before + 3);
  set_threads_per_device(2);
  CHECK(threads_of_process() == before + 1);
  large_work(cpu(1));
  CHECK(threads_of_process() == before + 2);
  set_threads_per_device(1);
  CHECK(threads_of_process() == before);
}

TEST_CASE("threads: what a part throws comes to the caller, and the device stays usable") {
  const Threads three(3);
  const Device device = cpu(9);
  const UseOneDnn use(false);  // Eigen's parts allocate workspace
  const Array x = Array::zeros({16, 16, 40, 40}, float32, device);
  const Array w = Array::zeros({16, 16, 3, 3}, float32, device);
  Array y = Array::empty({16, 16, 40, 40}, float32, device);
  const Window2d window{{3}, {1}, {1}, {1}};
  memory::empty_cache(device);
  memory::set_limit(device, memory::stats(device).reserved + 1000);
  CHECK_THROWS_AS(backend(device).conv2d(window, 1, x, w, {}, y), OutOfMemory);
  memory::set_limit(device, 0);
  backend(device).conv2d(window, 1, x, w, {}, y);
  CHECK(values_of(y.narrow(0, 15, 1)) == std::vector<double>(16 * 1600, 0.0));
  CHECK(memory::stats(device).of(Category::workspace) == 0);
}

TEST_CASE("threads: devices compute at once, and so do two threads on one device") {
  const Threads two(2);
  const Array x = random_array({1 << 18}, 1);
  Array expected = garbage({1 << 18}, float32);
  cpu_backend().map(map_op<Exp>, {}, x, expected);
  constexpr int kThreads = 4;
  std::latch start(kThreads);
  std::vector<Verdict> verdicts(kThreads);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      const Device device = cpu(i / 2);
      const Array mine = x.to(device);
      start.arrive_and_wait();
      for (int repeat = 0; repeat < 20; ++repeat) {
        Array y = Array::empty({1 << 18}, float32, device);
        backend(device).map(map_op<Exp>, {}, mine, y);
        const Verdict v = bits_equal(y, expected);
        if (!v.ok) verdicts[std::size_t(i)] = v;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  for (const Verdict& v : verdicts) CHECK(v);
}

TEST_CASE("threads: the number may change while another thread computes") {
  const Threads one(1);
  std::thread other([] {
    for (int i = 0; i < 50; ++i) large_work();
  });
  for (int i = 0; i < 50; ++i) set_threads_per_device(1 + i % 4);
  other.join();
  CHECK(values_of(large_work()) == std::vector<double>(1 << 20, 1.0));
}

TEST_CASE("threads: the setting refuses what is no number of threads") {
  const Threads one(1);
  CHECK(throws<UsageError>([] { set_threads_per_device(0); },
                           {"[set_threads_per_device] 0 threads. Expected 1"}));
  CHECK(throws<UsageError>([] { set_threads_per_device(-3); }, {"-3"}));
  CHECK(throws<UsageError>([] { set_threads_per_device(257); }, {"256"}));
  CHECK(threads_per_device() == 1);
}
