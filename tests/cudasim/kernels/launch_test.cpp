// The launchers, compiled by nvcc into real objects, on the simulated runtime: streams, copies and
// kernels together. That the kernels compute the right thing is shown in the other tests.
#include "kernels/kernels.h"
#include "kernels/test_support.h"
#include "runtime/cudasim.h"

#include <numeric>

namespace k = cudasim::kernels;

namespace {

// A session that ends without violations and leaks.
struct Run {
  cudasim::Session session;
  cudaStream_t stream = nullptr;
  std::vector<void*> buffers;

  Run() { REQUIRE_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess); }
  ~Run() {
    for (void* b : buffers) CHECK_EQ(cudaFree(b), cudaSuccess);
    CHECK_EQ(cudaStreamDestroy(stream), cudaSuccess);
    for (const std::string& text : cudasim::violations()) FAIL_CHECK(text);
    for (const std::string& text : cudasim::leaks()) FAIL_CHECK(text);
  }
  template <class T>
  T* empty(std::size_t n) {
    void* p = nullptr;
    REQUIRE_EQ(cudaMalloc(&p, n * sizeof(T)), cudaSuccess);
    buffers.push_back(p);
    return static_cast<T*>(p);
  }
  template <class T>
  T* upload(const std::vector<T>& values) {
    T* p = empty<T>(values.size());
    REQUIRE_EQ(cudaMemcpyAsync(p, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice,
                               stream),
               cudaSuccess);
    return p;
  }
  template <class T>
  std::vector<T> download(const T* p, std::size_t n) {
    std::vector<T> values(n);
    CHECK_EQ(cudaMemcpyAsync(values.data(), p, n * sizeof(T), cudaMemcpyDeviceToHost, stream),
             cudaSuccess);
    CHECK_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    return values;
  }
};

using cudasim::ptx::difference;
using cudasim::ptx::random_floats;

}  // namespace

TEST_CASE("launch: pointwise kernels follow each other on a stream") {
  Run run;
  const auto x = random_floats(1000, 1);
  float *dx = run.upload(x), *dy = run.empty<float>(1000);
  CHECK_EQ(k::relu(dx, dy, 1000, run.stream), cudaSuccess);
  CHECK_EQ(k::axpy(2.f, dx, dy, 1000, run.stream), cudaSuccess);
  CHECK_EQ(k::scale4(0.5f, dy, 1000, run.stream), cudaSuccess);
  std::vector<float> expected;
  for (float v : x) expected.push_back(((v > 0 ? v : 0) + 2 * v) * 0.5f);
  SAME(run.download(dy, 1000), expected);
}

TEST_CASE("launch: a sum in two passes uses dynamic shared memory") {
  Run run;
  std::vector<float> x(30'000);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 7);
  float *partial = run.empty<float>(k::kSumBlocks), *result = run.empty<float>(1);
  CHECK_EQ(k::sum(run.upload(x), partial, result, x.size(), run.stream), cudaSuccess);
  CHECK_EQ(run.download(result, 1)[0], std::accumulate(x.begin(), x.end(), 0.f));
}

TEST_CASE("launch: structures travel by value") {
  Run run;
  k::TensorList list = {};
  list.count = 3;
  std::vector<std::vector<float>> expected;
  for (int i = 0; i < list.count; ++i) {
    auto p = random_floats(100 + i, 1 + i);
    const auto g = random_floats(100 + i, 11 + i);
    list.p[i] = run.upload(p);
    list.g[i] = run.upload(g);
    list.n[i] = p.size();
    for (std::size_t j = 0; j < p.size(); ++j) p[j] -= 0.25f * g[j];
    expected.push_back(p);
  }
  CHECK_EQ(k::sgd_many(list, 0.25f, run.stream), cudaSuccess);
  for (int i = 0; i < list.count; ++i) SAME(run.download(list.p[i], list.n[i]), expected[i]);
}

TEST_CASE("launch: softmax, arg_max and transpose of one matrix agree") {
  Run run;
  const int rows = 6, cols = 50;
  auto x = random_floats(rows * cols, 3);
  std::vector<int> largest;
  for (int r = 0; r < rows; ++r) x[r * cols + largest.emplace_back(7 * r + 1)] = 9;
  float *p = run.empty<float>(x.size()), *t = run.empty<float>(x.size());
  int* index = run.empty<int>(rows);
  CHECK_EQ(k::softmax(run.upload(x), p, rows, cols, run.stream), cudaSuccess);
  CHECK_EQ(k::arg_max(p, index, rows, cols, run.stream), cudaSuccess);
  CHECK_EQ(k::transpose(p, t, rows, cols, run.stream), cudaSuccess);
  SAME(run.download(index, rows), largest);
  const auto probability = run.download(p, x.size()), transposed = run.download(t, x.size());
  for (int r = 0; r < rows; ++r) {
    double sum = 0;
    for (int c = 0; c < cols; ++c) sum += probability[r * cols + c];
    CHECK(std::fabs(sum - 1) < 1e-6);
    for (int c = 0; c < cols; ++c) CHECK_EQ(transposed[c * rows + r], probability[r * cols + c]);
  }
}

TEST_CASE("launch: half precision and integer atomics run from the same objects") {
  Run run;
  const auto x = random_floats(512, 4);
  auto* h = run.empty<std::uint16_t>(512);
  float* back = run.empty<float>(512);
  CHECK_EQ(k::float_to_half(run.upload(x), h, 512, run.stream), cudaSuccess);
  CHECK_EQ(k::half_to_float(h, back, 512, run.stream), cudaSuccess);
  SAME(run.download(back, 512), x, 0x1p-11);
  const std::vector<std::uint8_t> bytes(1000, 3);
  unsigned* bins = run.upload(std::vector<unsigned>(256, 0));
  CHECK_EQ(k::histogram(run.upload(bytes), bins, 1000, run.stream), cudaSuccess);
  CHECK_EQ(run.download(bins, 256)[3], 1000);
}

TEST_CASE("launch: a kernel that runs out of its buffer leaves error 700 and a violation") {
  cudasim::Session session;
  cudaStream_t stream;
  REQUIRE_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  void *x = nullptr, *y = nullptr;
  REQUIRE_EQ(cudaMalloc(&x, 400), cudaSuccess);
  REQUIRE_EQ(cudaMalloc(&y, 400), cudaSuccess);
  const std::vector<float> zero(100);
  REQUIRE_EQ(cudaMemcpy(x, zero.data(), 400, cudaMemcpyHostToDevice), cudaSuccess);
  CHECK_EQ(k::relu(static_cast<float*>(x), static_cast<float*>(y), 101, stream), cudaSuccess);
  CHECK_EQ(cudaStreamSynchronize(stream), cudaErrorIllegalAddress);
  bool named = false;
  for (const std::string& text : cudasim::violations()) {
    named |= text.find("relu_kernel: global read of 4 bytes") != std::string::npos;
  }
  CHECK(named);
}

TEST_CASE("launch: a read of memory that nobody has written is a violation") {
  cudasim::Session session;
  cudaStream_t stream;
  REQUIRE_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  void *x = nullptr, *y = nullptr;
  REQUIRE_EQ(cudaMalloc(&x, 400), cudaSuccess);
  REQUIRE_EQ(cudaMalloc(&y, 400), cudaSuccess);
  CHECK_EQ(k::relu(static_cast<float*>(x), static_cast<float*>(y), 100, stream), cudaSuccess);
  CHECK_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  bool named = false;
  for (const std::string& text : cudasim::violations()) {
    named |= text.find("uninitialised global read") != std::string::npos;
  }
  CHECK(named);
}
