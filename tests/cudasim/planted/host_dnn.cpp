// Planted defects in the use of cuDNN. The convolution adds up windows of 2 by 2 ones.
#include "planted/host_support.h"

#include <cudnn.h>

using namespace planted;

namespace {

constexpr int kIn = 9, kOut = 8;
constexpr std::size_t kWorkspace = 16 << 10;

void ok(cudnnStatus_t status) {
  if (status != CUDNN_STATUS_SUCCESS) throw std::runtime_error(cudnnGetErrorString(status));
}
using planted::ok;

struct Handle {
  explicit Handle(cudaStream_t stream) {
    ok(cudnnCreate(&handle));
    ok(cudnnSetStream(handle, stream));
  }
  ~Handle() { (void)cudnnDestroy(handle); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  operator cudnnHandle_t() const { return handle; }
  cudnnHandle_t handle = nullptr;
};

struct Tensor {
  explicit Tensor(int extent) {
    ok(cudnnCreateTensorDescriptor(&handle));
    ok(cudnnSetTensor4dDescriptor(handle, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, 1, extent,
                                  extent));
  }
  ~Tensor() { (void)cudnnDestroyTensorDescriptor(handle); }
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;
  operator cudnnTensorDescriptor_t() const { return handle; }
  cudnnTensorDescriptor_t handle = nullptr;
};

struct Floats {
  Floats(std::size_t n, float value) : memory(n), count(n) {
    const std::vector<float> host(n, value);
    ok(cudaMemcpy(memory, host.data(), n * sizeof(float), cudaMemcpyHostToDevice));
  }
  float* get() const { return reinterpret_cast<float*>(memory.data); }
  OnGpu memory;
  std::size_t count;
};

// x (1, 1, 9, 9) of ones, w (1, 1, 2, 2) of ones, y (1, 1, 8, 8), which becomes 4.
struct Convolution {
  Convolution() {
    ok(cudnnCreateFilterDescriptor(&wd));
    ok(cudnnSetFilter4dDescriptor(wd, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, 1, 1, 2, 2));
    ok(cudnnCreateConvolutionDescriptor(&descriptor));
    ok(cudnnSetConvolution2dDescriptor(descriptor, 0, 0, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION,
                                       CUDNN_DATA_FLOAT));
    ok(cudnnSetConvolutionMathType(descriptor, CUDNN_FMA_MATH));
  }
  ~Convolution() {
    (void)cudnnDestroyFilterDescriptor(wd);
    (void)cudnnDestroyConvolutionDescriptor(descriptor);
  }
  Convolution(const Convolution&) = delete;
  Convolution& operator=(const Convolution&) = delete;

  std::size_t workspace(cudnnHandle_t handle) const {
    std::size_t bytes = 0;
    ok(cudnnGetConvolutionForwardWorkspaceSize(handle, xd, wd, descriptor, yd, algorithm, &bytes));
    return bytes;
  }
  void run(cudnnHandle_t handle, const Floats& x, const Floats& w, void* workspace,
           std::size_t bytes, float* y) const {
    const float one = 1, zero = 0;
    ok(cudnnConvolutionForward(handle, &one, xd, x.get(), wd, w.get(), descriptor, algorithm,
                               workspace, bytes, &zero, yd, y));
  }
  void to_filter(cudnnHandle_t handle, cudnnConvolutionBwdFilterAlgo_t a, const Floats& x,
                 const Floats& dy, void* workspace, float* dw) const {
    const float one = 1, zero = 0;
    ok(cudnnConvolutionBackwardFilter(handle, &one, xd, x.get(), yd, dy.get(), descriptor, a,
                                      workspace, kWorkspace, &zero, wd, dw));
  }

  const Tensor xd{kIn}, yd{kOut};
  cudnnFilterDescriptor_t wd = nullptr;
  cudnnConvolutionDescriptor_t descriptor = nullptr;
  cudnnConvolutionFwdAlgo_t algorithm = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;
};

bool all_are(const std::vector<float>& values, float expected) {
  for (float v : values)
    if (v != expected) return false;
  return true;
}

std::vector<float> now(const Floats& from) {  // of a stream that has been synchronised
  std::vector<float> host(from.count);
  ok(cudaMemcpy(host.data(), from.get(), host.size() * sizeof(float), cudaMemcpyDeviceToHost));
  return host;
}

}  // namespace

PLANTED(pooling_does_not_wait, "a pooling reads a convolution's result without waiting for it",
        lazy_and_tsan) {
  Stream convolving, pooling;
  Event done;
  const Convolution convolution;
  const Tensor pooled(kOut / 2);
  const Floats x(kIn * kIn, 1), w(4, 1), y(kOut * kOut, 0), z(kOut * kOut / 4, 0);
  const OnGpu workspace(kWorkspace / sizeof(int));
  const Handle one(convolving), two(pooling);
  cudnnPoolingDescriptor_t descriptor = nullptr;
  ok(cudnnCreatePoolingDescriptor(&descriptor));
  ok(cudnnSetPooling2dDescriptor(descriptor, CUDNN_POOLING_MAX_DETERMINISTIC, CUDNN_PROPAGATE_NAN,
                                 2, 2, 0, 0, 2, 2));
  convolution.run(one, x, w, workspace.data, kWorkspace, y.get());
  ok(cudaEventRecord(done, convolving));
  if (!defect) ok(cudaStreamWaitEvent(pooling, done, 0));
  const float alpha = 1, beta = 0;
  ok(cudnnPoolingForward(two, descriptor, &alpha, convolution.yd, y.get(), &beta, pooled, z.get()));
  ok(cudnnDestroyPoolingDescriptor(descriptor));
  pooling.synchronize();
  const bool right = all_are(now(z), 4);
  convolving.synchronize();
  return right;
}

PLANTED(shared_dnn_workspace, "two streams share a cuDNN workspace", tsan) {
  Stream first, second;
  const Convolution convolution;
  const Floats x(kIn * kIn, 1), w(4, 1), y(kOut * kOut, 0), z(kOut * kOut, 0);
  const OnGpu workspace(kWorkspace / sizeof(int)), own(kWorkspace / sizeof(int));
  const Handle one(first), two(second);
  convolution.run(one, x, w, workspace.data, kWorkspace, y.get());
  convolution.run(two, x, w, defect ? workspace.data : own.data, kWorkspace, z.get());
  first.synchronize();
  second.synchronize();
  return true;
}

PLANTED(small_dnn_workspace, "a cuDNN workspace is smaller than what was asked for", lazy) {
  Stream stream;
  const Convolution convolution;
  const Floats x(kIn * kIn, 1), w(4, 1), y(kOut * kOut, 0);
  const Handle handle(stream);
  const std::size_t bytes = convolution.workspace(handle);
  const OnGpu workspace(bytes / sizeof(int) + 1);
  // rounding down to whole floats loses the odd bytes
  convolution.run(handle, x, w, workspace.data, defect ? bytes / 4 * 4 : bytes, y.get());
  stream.synchronize();
  return all_are(now(y), 4);
}

PLANTED(workspace_is_an_activation, "a cuDNN workspace holds something that is still needed",
        lazy) {
  Stream stream;
  const Convolution convolution;
  const Floats x(kIn * kIn, 1), w(4, 1), y(kOut * kOut, 0), kept(kWorkspace / sizeof(float), 7);
  const OnGpu own(kWorkspace / sizeof(int));
  const Handle handle(stream);
  convolution.run(handle, x, w, defect ? kept.memory.data : own.data, kWorkspace, y.get());
  stream.synchronize();
  return all_are(now(kept), 7);
}

PLANTED(not_deterministic, "a gradient comes from an algorithm that is not deterministic", lazy) {
  Stream stream;
  const Convolution convolution;
  const Floats x(kIn * kIn, 1), dy(kOut * kOut, 1), dw(4, 0);
  const OnGpu workspace(kWorkspace / sizeof(int));
  const Handle handle(stream);
  convolution.to_filter(
      handle, defect ? CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0 : CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, x,
      dy, workspace.data, dw.get());
  stream.synchronize();
  return all_are(now(dw), kOut * kOut);
}

PLANTED(default_math, "the math type of a convolution is left at its default, which allows TF32",
        lazy) {
  constexpr float kFine = 1.0f + 1.0f / 4096;
  Stream stream;
  const Convolution convolution;
  const Floats x(kIn * kIn, kFine), w(4, 1), y(kOut * kOut, 0);
  const OnGpu workspace(kWorkspace / sizeof(int));
  const Handle handle(stream);
  if (defect) ok(cudnnSetConvolutionMathType(convolution.descriptor, CUDNN_DEFAULT_MATH));
  convolution.run(handle, x, w, workspace.data, kWorkspace, y.get());
  stream.synchronize();
  return all_are(now(y), 4 * kFine);
}

PLANTED(dnn_handle_of_another_device, "a cuDNN handle is used while another device is current",
        lazy) {
  ok(cudaSetDevice(1));
  Stream stream;
  const Convolution convolution;
  const Floats x(kIn * kIn, 1), w(4, 1), y(kOut * kOut, 0);
  const OnGpu workspace(kWorkspace / sizeof(int));
  const Handle handle(stream);
  if (defect) ok(cudaSetDevice(0));
  convolution.run(handle, x, w, workspace.data, kWorkspace, y.get());
  stream.synchronize();
  return true;
}

PLANTED(output_too_small, "a convolution's result is larger than its buffer", lazy) {
  Stream stream;
  const Convolution convolution;
  const Floats x(kIn * kIn, 1), w(4, 1), y(defect ? kOut * (kOut - 1) : kOut * kOut, 0);
  const OnGpu workspace(kWorkspace / sizeof(int));
  const Handle handle(stream);
  convolution.run(handle, x, w, workspace.data, kWorkspace, y.get());
  stream.synchronize();
  return true;
}

PLANTED(leaked_descriptor, "a cuDNN descriptor is never destroyed", lazy) {
  cudnnTensorDescriptor_t descriptor = nullptr;
  ok(cudnnCreateTensorDescriptor(&descriptor));
  if (!defect) ok(cudnnDestroyTensorDescriptor(descriptor));
  return true;
}

PLANTED(failed_convolution, "a convolution that was refused goes unnoticed", lazy) {
  Stream stream;
  const Convolution convolution;
  const Floats x(kIn * kIn, 1), w(4, 1), y(kOut * kOut, 0);
  const OnGpu workspace(kWorkspace / sizeof(int));
  const Handle handle(stream);
  const float one = 1, zero = 0;
  (void)cudnnConvolutionForward(handle, &one, convolution.xd, x.get(), convolution.wd, w.get(),
                                convolution.descriptor, convolution.algorithm, workspace.data,
                                kWorkspace, &zero, defect ? convolution.xd : convolution.yd,
                                y.get());
  stream.synchronize();
  return all_are(now(y), 4);
}
