// Real kernels, built by nvcc for machine code and started with <<<>>>, on the simulated runtime:
// launch seam, interpreter and runtime together. (Every kernel by itself: ../kernels.)
#include "kernels/kernels.h"
#include "runtime/cudasim.h"

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

namespace {

void ok(cudaError_t error) {
  REQUIRE(error == cudaSuccess);
}

float* upload(const std::vector<float>& values) {
  void* p = nullptr;
  ok(cudaMalloc(&p, values.size() * sizeof(float)));
  ok(cudaMemcpy(p, values.data(), values.size() * sizeof(float), cudaMemcpyHostToDevice));
  return static_cast<float*>(p);
}

std::vector<float> download(const float* p, std::size_t n) {
  std::vector<float> values(n);
  ok(cudaMemcpy(values.data(), p, n * sizeof(float), cudaMemcpyDeviceToHost));
  return values;
}

cudaStream_t new_stream() {
  cudaStream_t stream;
  ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}

}  // namespace

TEST_CASE("launch: a chain of kernels computes what it should, on every device") {
  cudasim::Session session({.devices = 2});
  for (int device : {0, 1}) {
    ok(cudaSetDevice(device));
    cudaStream_t stream = new_stream();
    const std::size_t n = 1000;
    float *x = upload(std::vector<float>(n, 2)), *y = upload(std::vector<float>(n, 1));
    ok(cudasim::kernels::axpy(3, x, y, n, stream));
    ok(cudasim::kernels::axpy(-1, x, y, n, stream));
    ok(cudasim::kernels::relu(y, x, n, stream));
    ok(cudaStreamSynchronize(stream));
    CHECK(download(x, n) == std::vector<float>(n, 5));
  }
  CHECK(cudasim::violations().empty());
  CHECK(cudasim::statistics().kernels_launched == 6);
  CHECK(cudasim::statistics().instructions_run > 6 * 1000);
}

TEST_CASE("launch: shared memory and shuffles: the rows of a softmax, in float64 to 1e-6") {
  cudasim::Session session(cudasim::Config{});
  const int rows = 3, cols = 70;
  std::vector<float> in(rows * cols);
  for (int i = 0; i < rows * cols; ++i) in[i] = static_cast<float>((i * 37) % 11) / 4;
  float *x = upload(in), *y = upload(std::vector<float>(rows * cols, -1));
  cudaStream_t stream = new_stream();
  ok(cudasim::kernels::softmax(x, y, rows, cols, stream));
  ok(cudaStreamSynchronize(stream));
  const std::vector<float> out = download(y, rows * cols);
  for (int r = 0; r < rows; ++r) {
    double total = 0;
    for (int c = 0; c < cols; ++c) total += std::exp(double{in[r * cols + c]});
    for (int c = 0; c < cols; ++c)
      CHECK(out[r * cols + c] ==
            doctest::Approx(std::exp(double{in[r * cols + c]}) / total).epsilon(1e-6));
  }
  CHECK(cudasim::violations().empty());
}

TEST_CASE("launch: a kernel that leaves its buffer is named, and the device is lost") {
  cudasim::Session session(cudasim::Config{});
  cudaStream_t stream = new_stream();
  float* x = upload(std::vector<float>(100, 1));
  ok(cudasim::kernels::relu(x, x, 101, stream));
  CHECK(cudaStreamSynchronize(stream) == cudaErrorIllegalAddress);
  CHECK(cudaGetLastError() == cudaErrorIllegalAddress);
  const auto all = cudasim::violations();
  REQUIRE(all.size() == 1);
  CHECK(all[0].find("relu") != std::string::npos);
  CHECK(all[0].find("outside any allocation") != std::string::npos);
}

TEST_CASE("launch: failures are injected into launches too") {
  cudasim::Session session(cudasim::Config{});
  cudaStream_t stream = new_stream();
  float* x = upload(std::vector<float>(100, 1));
  cudasim::fail_call("cudaLaunchKernel", 2, cudaErrorLaunchOutOfResources);
  ok(cudasim::kernels::relu(x, x, 100, stream));
  CHECK(cudasim::kernels::relu(x, x, 100, stream) == cudaErrorLaunchOutOfResources);
  ok(cudaStreamSynchronize(stream));
}
