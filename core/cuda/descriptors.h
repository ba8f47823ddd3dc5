// What cuDNN calls descriptors: how the operands of a convolution look. Made for each call, which
// costs less than a microsecond, and destroyed with it.
#pragma once

#include <cudnn.h>

#include <climits>

#include <tandem/core/array.h>
#include <tandem/core/cuda/check.h>
#include <tandem/core/window.h>

namespace tandem::gpu {

/// A descriptor that destroys itself.
template <class D, cudnnStatus_t (*kCreate)(D*), cudnnStatus_t (*kDestroy)(D)>
class Descriptor {
 public:
  explicit Descriptor(Device device) { TANDEM_CUDA_CHECK(device, kCreate(&value_)); }
  ~Descriptor() { (void)kDestroy(value_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  D get() const { return value_; }

 private:
  D value_ = nullptr;
};

using TensorDescriptor =
    Descriptor<cudnnTensorDescriptor_t, cudnnCreateTensorDescriptor, cudnnDestroyTensorDescriptor>;
using FilterDescriptor =
    Descriptor<cudnnFilterDescriptor_t, cudnnCreateFilterDescriptor, cudnnDestroyFilterDescriptor>;
using ConvolutionDescriptor =
    Descriptor<cudnnConvolutionDescriptor_t, cudnnCreateConvolutionDescriptor,
               cudnnDestroyConvolutionDescriptor>;

inline cudnnDataType_t dnn_type(DType dtype) {
  switch (dtype) {
    case DType::float16:
      return CUDNN_DATA_HALF;
    case DType::bfloat16:
      return CUDNN_DATA_BFLOAT16;
    default:
      return CUDNN_DATA_FLOAT;
  }
}

/// Of x (N, H, W, C), w (O, KH, KW, C / groups) and y (N, P, Q, O), all contiguous, or of their
/// gradients; sums in float32.
class ConvDescriptors {
 public:
  ConvDescriptors(Device device, const Window2d& window, std::int64_t groups, const Array& x,
                  const Array& w, const Array& y);

  cudnnTensorDescriptor_t x() const { return x_.get(); }
  cudnnFilterDescriptor_t w() const { return w_.get(); }
  cudnnTensorDescriptor_t y() const { return y_.get(); }
  cudnnConvolutionDescriptor_t convolution() const { return convolution_.get(); }

 private:
  TensorDescriptor x_, y_;
  FilterDescriptor w_;
  ConvolutionDescriptor convolution_;
};

}  // namespace tandem::gpu
