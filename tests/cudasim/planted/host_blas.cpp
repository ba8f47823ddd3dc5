// Planted defects in the use of cuBLAS. Every program multiplies 8 by 8 matrices: A full of ones, B
// full of twos, so that C is full of 16.
#include "planted/host_support.h"

#include <cublas_v2.h>

#include <atomic>
#include <thread>

using namespace planted;

namespace {

constexpr int kSide = 8, kElements = kSide * kSide;
constexpr std::size_t kWorkspace = 16 << 10;

void ok(cublasStatus_t status) {
  if (status != CUBLAS_STATUS_SUCCESS) throw std::runtime_error(cublasGetStatusName(status));
}
using planted::ok;

struct Handle {
  Handle() { ok(cublasCreate(&handle)); }
  explicit Handle(cudaStream_t stream) : Handle() { ok(cublasSetStream(handle, stream)); }
  ~Handle() { (void)cublasDestroy(handle); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  operator cublasHandle_t() const { return handle; }
  cublasHandle_t handle = nullptr;
};

// Floats on the current device.
struct Floats {
  explicit Floats(std::size_t n) : memory(n) {}
  Floats(std::size_t n, float value) : memory(n) { fill(value); }
  void fill(float value) {
    const std::vector<float> host(kElements, value);
    ok(cudaMemcpy(memory, host.data(), kElements * sizeof(float), cudaMemcpyHostToDevice));
  }
  float* get() const { return reinterpret_cast<float*>(memory.data); }
  OnGpu memory;
};

// Numbers where a copy to the host may arrive at any time.
struct Landing {
  explicit Landing(std::size_t n = kElements) : memory(n) {}
  float* get() const { return reinterpret_cast<float*>(memory.data); }
  bool all(float value) const {
    for (int i = 0; i < kElements; ++i)
      if (get()[i] != value) return false;
    return true;
  }
  Pinned memory;
};

void multiply(cublasHandle_t handle, const Floats& a, const Floats& b, float* c, float beta = 0) {
  const float alpha = 1;
  ok(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, kSide, kSide, kSide, &alpha, a.get(), kSide,
                 b.get(), kSide, &beta, c, kSide));
}

void fetch(const Landing& to, const Floats& from, cudaStream_t stream) {
  ok(cudaMemcpyAsync(to.get(), from.get(), kElements * sizeof(float), cudaMemcpyDeviceToHost,
                     stream));
}

}  // namespace

PLANTED(consumer_does_not_wait, "a copy takes a product's result without waiting for it",
        lazy_and_tsan) {
  Stream compute, copy;
  Event done;
  const Floats a(kElements, 1), b(kElements, 2), c(kElements, 0);
  const Landing out;
  const Handle handle(compute);
  multiply(handle, a, b, c.get());
  ok(cudaEventRecord(done, compute));
  if (!defect) ok(cudaStreamWaitEvent(copy, done, 0));
  fetch(out, c, copy);
  copy.synchronize();
  const bool right = out.all(16);
  compute.synchronize();
  return right;
}

PLANTED(product_before_its_input, "a product starts before its input has arrived", lazy_and_tsan) {
  Stream compute, copy;
  Event arrived;
  const Floats a(kElements, 0), b(kElements, 2), c(kElements, 0);
  const Landing in, out;
  for (int i = 0; i < kElements; ++i) in.get()[i] = 1;
  const Handle handle(compute);
  ok(cudaMemcpyAsync(a.get(), in.get(), kElements * sizeof(float), cudaMemcpyHostToDevice, copy));
  ok(cudaEventRecord(arrived, copy));
  if (!defect) ok(cudaStreamWaitEvent(compute, arrived, 0));
  multiply(handle, a, b, c.get());
  fetch(out, c, compute);
  compute.synchronize();
  const bool right = out.all(16);
  copy.synchronize();
  return right;
}

PLANTED(operand_reused,
        "an operand is overwritten on another stream before the product has read it",
        lazy_and_tsan) {
  Stream compute, other;
  Event done;
  const Floats a(kElements, 1), b(kElements, 2), c(kElements, 0);
  const Landing out;
  const Handle handle(compute);
  multiply(handle, a, b, c.get());
  ok(cudaEventRecord(done, compute));
  if (!defect) ok(cudaStreamWaitEvent(other, done, 0));
  ok(cudaMemsetAsync(a.get(), 0, kElements * sizeof(float), other));
  other.synchronize();
  fetch(out, c, compute);
  compute.synchronize();
  return out.all(16);
}

PLANTED(shared_workspace, "two streams share a cuBLAS workspace", tsan) {
  Stream first, second;
  const Floats a(kElements, 1), b(kElements, 2), c(kElements, 0), d(kElements, 0);
  const OnGpu workspace(kWorkspace / sizeof(int)), own(kWorkspace / sizeof(int));
  const Handle one(first), two(second);
  ok(cublasSetWorkspace(one, workspace.data, kWorkspace));
  ok(cublasSetWorkspace(two, defect ? workspace.data : own.data, kWorkspace));
  multiply(one, a, b, c.get());
  multiply(two, a, b, d.get());
  first.synchronize();
  second.synchronize();
  return true;
}

// The second thread begins after the first has finished, but nothing orders the two.
PLANTED(shared_handle, "two threads use one cuBLAS handle", tsan) {
  Stream stream, other;
  const Floats a(kElements, 1), b(kElements, 2), c(kElements, 0), d(kElements, 0);
  const Handle handle(stream), own(other);
  std::atomic<bool> finished{false};
  std::thread first([&] {
    multiply(handle, a, b, c.get());
    finished.store(true, std::memory_order_relaxed);
  });
  std::thread second([&] {
    while (!finished.load(std::memory_order_relaxed)) std::this_thread::yield();
    multiply(defect ? handle : own, a, b, d.get());
  });
  first.join();
  second.join();
  stream.synchronize();
  other.synchronize();
  return true;
}

PLANTED(wrong_leading_dimension, "a product is told a wrong leading dimension", lazy) {
  constexpr int kPadded = kSide + 1;
  Stream stream;
  std::vector<float> padded(kPadded * kSide, 1);
  for (int column = 0; column < kSide; ++column) padded[column * kPadded + kSide] = 100;
  const OnGpu a(padded.size());
  ok(cudaMemcpy(a, padded.data(), padded.size() * sizeof(float), cudaMemcpyHostToDevice));
  const Floats b(kElements, 2), c(kElements, 0);
  const Landing out;
  const Handle handle(stream);
  const float alpha = 1, beta = 0;
  ok(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, kSide, kSide, kSide, &alpha,
                 reinterpret_cast<float*>(a.data), defect ? kSide : kPadded, b.get(), kSide, &beta,
                 c.get(), kSide));
  fetch(out, c, stream);
  stream.synchronize();
  return out.all(16);
}

PLANTED(result_past_the_end, "a product's result is larger than its buffer", lazy) {
  Stream stream;
  const Floats a(kElements, 1), b(kElements, 2);
  const OnGpu c(defect ? kElements - 1 : kElements);
  const Handle handle(stream);
  multiply(handle, a, b, reinterpret_cast<float*>(c.data));
  stream.synchronize();
  return true;
}

PLANTED(accumulated_onto_nothing, "a product is added to memory that nobody has written", lazy) {
  Stream stream;
  const Floats a(kElements, 1), b(kElements, 2), c(kElements);
  const Handle handle(stream);
  multiply(handle, a, b, c.get(), defect ? 1.0f : 0.0f);
  stream.synchronize();
  return true;
}

PLANTED(in_place, "a product overwrites its own operand", lazy) {
  Stream stream;
  const Floats a(kElements, 1), b(kElements, 2), c(kElements);
  const Handle handle(stream);
  multiply(handle, a, b, defect ? a.get() : c.get());
  stream.synchronize();
  return true;
}

PLANTED(small_workspace, "a cuBLAS workspace is too small", lazy) {
  Stream stream;
  const Floats a(kElements, 1), b(kElements, 2), c(kElements);
  const OnGpu workspace(kWorkspace / sizeof(int));
  const Handle handle(stream);
  ok(cublasSetWorkspace(handle, workspace.data, defect ? kWorkspace / 2 : kWorkspace));
  multiply(handle, a, b, c.get());
  stream.synchronize();
  return true;
}

PLANTED(workspace_in_use, "a cuBLAS workspace lies in memory that is in use", lazy) {
  Stream stream;
  const Floats a(kElements, 1), b(kElements, 2);
  const OnGpu workspace(2 * kWorkspace / sizeof(int));
  const Handle handle(stream);
  ok(cublasSetWorkspace(handle, workspace.data, kWorkspace));
  const std::size_t offset = defect ? kWorkspace / 2 : kWorkspace;
  multiply(handle, a, b, reinterpret_cast<float*>(workspace.data + offset / sizeof(int)));
  stream.synchronize();
  return true;
}

PLANTED(workspace_before_stream, "a cuBLAS workspace is set before the stream, which drops it",
        lazy) {
  Stream stream;
  const Floats a(kElements, 1), b(kElements, 2), c(kElements);
  const OnGpu workspace(kWorkspace / sizeof(int));
  const Handle handle;
  if (defect) ok(cublasSetWorkspace(handle, workspace.data, kWorkspace));
  ok(cublasSetStream(handle, stream));
  if (!defect) ok(cublasSetWorkspace(handle, workspace.data, kWorkspace));
  multiply(handle, a, b, c.get());
  stream.synchronize();
  return true;
}

PLANTED(handle_of_another_device, "a cuBLAS handle is used while another device is current", lazy) {
  ok(cudaSetDevice(1));
  Stream stream;
  const Floats a(kElements, 1), b(kElements, 2), c(kElements);
  const Handle handle(stream);
  if (defect) ok(cudaSetDevice(0));
  multiply(handle, a, b, c.get());
  stream.synchronize();
  return true;
}

PLANTED(stream_of_another_device, "a cuBLAS handle gets a stream of another device", lazy) {
  Stream here;
  ok(cudaSetDevice(1));
  Stream there;
  ok(cudaSetDevice(0));
  const Handle handle(defect ? there : here);
  return true;
}

PLANTED(operand_of_another_device, "a product reads another device's memory without peer access",
        lazy) {
  Stream stream;
  const Floats a(kElements, 1), b(kElements, 2), c(kElements);
  ok(cudaSetDevice(1));
  const Floats there(kElements, 1);
  ok(cudaSetDevice(0));
  const Handle handle(stream);
  multiply(handle, defect ? there : a, b, c.get());
  stream.synchronize();
  return true;
}

PLANTED(no_stream_set, "a cuBLAS handle never gets a stream", lazy) {
  Stream stream;
  const Floats a(kElements, 1), b(kElements, 2), c(kElements);
  const Handle handle;
  if (!defect) ok(cublasSetStream(handle, stream));
  multiply(handle, a, b, c.get());
  stream.synchronize();
  return true;
}

PLANTED(leaked_blas_handle, "a cuBLAS handle is never destroyed", lazy) {
  cublasHandle_t handle = nullptr;
  ok(cublasCreate(&handle));
  if (!defect) ok(cublasDestroy(handle));
  return true;
}

PLANTED(destroyed_blas_handle, "a cuBLAS handle is used after it was destroyed", lazy) {
  Stream stream;
  cublasHandle_t handle = nullptr;
  ok(cublasCreate(&handle));
  if (defect) ok(cublasDestroy(handle));
  (void)cublasSetStream(handle, stream);
  if (!defect) ok(cublasDestroy(handle));
  return true;
}

PLANTED(tf32_left_on, "TF32 is left on where float32 is meant", lazy) {
  constexpr float kFine = 1.0f + 1.0f / 4096;
  Stream stream;
  const Floats a(kElements, kFine), b(kElements, 2), c(kElements);
  const Landing out;
  const Handle handle(stream);
  ok(cublasSetMathMode(handle, defect ? CUBLAS_TF32_TENSOR_OP_MATH : CUBLAS_DEFAULT_MATH));
  multiply(handle, a, b, c.get());
  fetch(out, c, stream);
  stream.synchronize();
  return out.all(16 * kFine);
}
