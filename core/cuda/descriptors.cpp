#include <tandem/core/cuda/descriptors.h>

#include <tandem/core/cuda/narrow.h>
#include <tandem/core/numerics.h>

namespace tandem::gpu {
namespace {

int as_int(std::int64_t size) {
  return narrow<int>("conv2d", size);
}

void describe(const TensorDescriptor& d, const Array& t, Device device) {
  TANDEM_CUDA_CHECK(device, cudnnSetTensor4dDescriptor(
                                d.get(), CUDNN_TENSOR_NHWC, dnn_type(t.dtype()), as_int(t.size(0)),
                                as_int(t.size(3)), as_int(t.size(1)), as_int(t.size(2))));
}

}  // namespace

ConvDescriptors::ConvDescriptors(Device device, const Window2d& window, std::int64_t groups,
                                 const Array& x, const Array& w, const Array& y)
    : x_(device), y_(device), w_(device), convolution_(device) {
  describe(x_, x, device);
  describe(y_, y, device);
  TANDEM_CUDA_CHECK(device, cudnnSetFilter4dDescriptor(
                                w_.get(), dnn_type(w.dtype()), CUDNN_TENSOR_NHWC, as_int(w.size(0)),
                                as_int(w.size(3)), as_int(w.size(1)), as_int(w.size(2))));
  const Window2d& n = window;
  TANDEM_CUDA_CHECK(device, cudnnSetConvolution2dDescriptor(
                                convolution_.get(), as_int(n.padding.h), as_int(n.padding.w),
                                as_int(n.stride.h), as_int(n.stride.w), as_int(n.dilation.h),
                                as_int(n.dilation.w), CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
  TANDEM_CUDA_CHECK(device, cudnnSetConvolutionGroupCount(convolution_.get(), as_int(groups)));
  // Said explicitly: the default would round float32 to TF32.
  const bool exact = x.dtype() == DType::float32 && !allow_tf32();
  const cudnnMathType_t math = exact ? CUDNN_FMA_MATH : CUDNN_TENSOR_OP_MATH;
  TANDEM_CUDA_CHECK(device, cudnnSetConvolutionMathType(convolution_.get(), math));
}

}  // namespace tandem::gpu
