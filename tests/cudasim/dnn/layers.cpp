// cuDNN: descriptors of convolutions, poolings and activations, and the shapes that follow from
// them.
#include "dnn/context.h"

using namespace cudasim;
using namespace cudasim::dnn;

namespace {

bool is_nan_option(cudnnNanPropagation_t nan) {
  return nan == CUDNN_NOT_PROPAGATE_NAN || nan == CUDNN_PROPAGATE_NAN;
}

}  // namespace

namespace cudasim::dnn {

// floor((in + 2 pad - (dilation (window - 1) + 1)) / stride) + 1
int output_extent(int in, int pad, int window, int stride, int dilation) {
  const int room = in + 2 * pad - (dilation * (window - 1) + 1);
  return room < 0 ? 0 : room / stride + 1;
}

}  // namespace cudasim::dnn

extern "C" {

// ---- convolutions -------------------------------------------------------------------------------

cudnnStatus_t CUDNNWINAPI cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t* out) {
  return create(__func__, out);
}

cudnnStatus_t CUDNNWINAPI
cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t descriptor) {
  return destroy(__func__, descriptor);
}

// Leaves the group count and the math type as they are.
cudnnStatus_t CUDNNWINAPI cudnnSetConvolution2dDescriptor(
    cudnnConvolutionDescriptor_t descriptor, int pad_h, int pad_w, int stride_h, int stride_w,
    int dilation_h, int dilation_w, cudnnConvolutionMode_t mode, cudnnDataType_t type) {
  return change(__func__, descriptor, [&](cudnnConvolutionStruct& c) {
    if (pad_h < 0 || pad_w < 0) return bad("a negative padding");
    if (stride_h < 1 || stride_w < 1 || dilation_h < 1 || dilation_w < 1)
      return bad("a stride or dilation below 1");
    if (mode != CUDNN_CONVOLUTION && mode != CUDNN_CROSS_CORRELATION) return bad("not a mode");
    if (type != CUDNN_DATA_FLOAT && type != CUDNN_DATA_DOUBLE && type != CUDNN_DATA_HALF &&
        type != CUDNN_DATA_INT32)
      return bad("not a compute type");
    c.pad = {pad_h, pad_w};
    c.stride = {stride_h, stride_w};
    c.dilation = {dilation_h, dilation_w};
    c.mode = mode;
    c.type = type;
    return CUDNN_STATUS_SUCCESS;
  });
}

cudnnStatus_t CUDNNWINAPI cudnnGetConvolution2dDescriptor(
    const cudnnConvolutionDescriptor_t descriptor, int* pad_h, int* pad_w, int* stride_h,
    int* stride_w, int* dilation_h, int* dilation_w, cudnnConvolutionMode_t* mode,
    cudnnDataType_t* type) {
  return ask(__func__, descriptor, [&](const cudnnConvolutionStruct& c) {
    if (!all_given(pad_h, pad_w, stride_h, stride_w, dilation_h, dilation_w, mode, type))
      return bad("a null pointer");
    *pad_h = c.pad[0], *pad_w = c.pad[1];
    *stride_h = c.stride[0], *stride_w = c.stride[1];
    *dilation_h = c.dilation[0], *dilation_w = c.dilation[1];
    *mode = c.mode;
    *type = c.type;
    return CUDNN_STATUS_SUCCESS;
  });
}

cudnnStatus_t CUDNNWINAPI cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t descriptor,
                                                        int groups) {
  return change(__func__, descriptor, [&](cudnnConvolutionStruct& c) {
    if (groups < 1) return bad("fewer than 1 group");
    c.groups = groups;
    return CUDNN_STATUS_SUCCESS;
  });
}

cudnnStatus_t CUDNNWINAPI
cudnnGetConvolutionGroupCount(const cudnnConvolutionDescriptor_t descriptor, int* groups) {
  return ask(__func__, descriptor, [&](const cudnnConvolutionStruct& c) {
    if (!groups) return bad("a null pointer");
    *groups = c.groups;
    return CUDNN_STATUS_SUCCESS;
  });
}

cudnnStatus_t CUDNNWINAPI cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t descriptor,
                                                      cudnnMathType_t math) {
  return change(__func__, descriptor, [&](cudnnConvolutionStruct& c) {
    if (math < CUDNN_DEFAULT_MATH || math > CUDNN_FMA_MATH) return bad("not a math type");
    c.math = math;
    return CUDNN_STATUS_SUCCESS;
  });
}

cudnnStatus_t CUDNNWINAPI cudnnGetConvolutionMathType(const cudnnConvolutionDescriptor_t descriptor,
                                                      cudnnMathType_t* math) {
  return ask(__func__, descriptor, [&](const cudnnConvolutionStruct& c) {
    if (!math) return bad("a null pointer");
    *math = c.math;
    return CUDNN_STATUS_SUCCESS;
  });
}

cudnnStatus_t CUDNNWINAPI cudnnGetConvolution2dForwardOutputDim(
    const cudnnConvolutionDescriptor_t descriptor, const cudnnTensorDescriptor_t tensor,
    const cudnnFilterDescriptor_t filter, int* n, int* c, int* h, int* w) {
  const char* function = __func__;
  return call(function, [&](State& s, Lock&) {
    if (!is_live(s, descriptor, function) || !is_live(s, tensor, function) ||
        !is_live(s, filter, function))
      return bad("no descriptor");
    if (!all_given(n, c, h, w)) return bad("a null pointer");
    if (!descriptor->is_set() || !tensor->is_set() || !filter->is_set())
      return bad("a descriptor that was never set");
    if (tensor->rank != 4 || filter->rank != 4) return bad("not four dimensions");
    if (tensor->dims[1] != filter->dims[1] * descriptor->groups)
      return bad("the channels are not the filter's times the group count");
    int extent[2];
    for (int d : {0, 1}) {
      extent[d] = output_extent(tensor->dims[2 + d], descriptor->pad[d], filter->dims[2 + d],
                                descriptor->stride[d], descriptor->dilation[d]);
      if (extent[d] == 0) return bad("the filter is larger than the padded input");
    }
    *n = tensor->dims[0], *c = filter->dims[0];
    *h = extent[0], *w = extent[1];
    return CUDNN_STATUS_SUCCESS;
  });
}

// ---- poolings -----------------------------------------------------------------------------------

cudnnStatus_t CUDNNWINAPI cudnnCreatePoolingDescriptor(cudnnPoolingDescriptor_t* out) {
  return create(__func__, out);
}

cudnnStatus_t CUDNNWINAPI cudnnDestroyPoolingDescriptor(cudnnPoolingDescriptor_t descriptor) {
  return destroy(__func__, descriptor);
}

// Negative padding is accepted here, as by the real library; cudnnPoolingForward refuses it.
cudnnStatus_t CUDNNWINAPI cudnnSetPooling2dDescriptor(cudnnPoolingDescriptor_t descriptor,
                                                      cudnnPoolingMode_t mode,
                                                      cudnnNanPropagation_t nan, int window_h,
                                                      int window_w, int pad_h, int pad_w,
                                                      int stride_h, int stride_w) {
  return change(__func__, descriptor, [&](cudnnPoolingStruct& p) {
    if (mode < CUDNN_POOLING_MAX || mode > CUDNN_POOLING_MAX_DETERMINISTIC)
      return bad("not a mode");
    if (!is_nan_option(nan)) return bad("not an option for NaN");
    if (window_h < 1 || window_w < 1 || stride_h < 1 || stride_w < 1)
      return bad("a window or stride below 1");
    p = {mode, nan, {window_h, window_w}, {pad_h, pad_w}, {stride_h, stride_w}};
    return CUDNN_STATUS_SUCCESS;
  });
}

cudnnStatus_t CUDNNWINAPI cudnnGetPooling2dDescriptor(const cudnnPoolingDescriptor_t descriptor,
                                                      cudnnPoolingMode_t* mode,
                                                      cudnnNanPropagation_t* nan, int* window_h,
                                                      int* window_w, int* pad_h, int* pad_w,
                                                      int* stride_h, int* stride_w) {
  return ask(__func__, descriptor, [&](const cudnnPoolingStruct& p) {
    if (!all_given(mode, nan, window_h, window_w, pad_h, pad_w, stride_h, stride_w))
      return bad("a null pointer");
    *mode = p.mode;
    *nan = p.nan;
    *window_h = p.window[0], *window_w = p.window[1];
    *pad_h = p.pad[0], *pad_w = p.pad[1];
    *stride_h = p.stride[0], *stride_w = p.stride[1];
    return CUDNN_STATUS_SUCCESS;
  });
}

cudnnStatus_t CUDNNWINAPI cudnnGetPooling2dForwardOutputDim(
    const cudnnPoolingDescriptor_t descriptor, const cudnnTensorDescriptor_t tensor, int* n, int* c,
    int* h, int* w) {
  const char* function = __func__;
  return call(function, [&](State& s, Lock&) {
    if (!is_live(s, descriptor, function) || !is_live(s, tensor, function))
      return bad("no descriptor");
    if (!all_given(n, c, h, w)) return bad("a null pointer");
    if (!descriptor->is_set() || !tensor->is_set()) return bad("a descriptor that was never set");
    if (tensor->rank != 4) return bad("not four dimensions");
    int extent[2];
    for (int d : {0, 1}) {
      extent[d] = output_extent(tensor->dims[2 + d], descriptor->pad[d], descriptor->window[d],
                                descriptor->stride[d], 1);
      if (extent[d] == 0) return bad("the window is larger than the padded input");
    }
    *n = tensor->dims[0], *c = tensor->dims[1];
    *h = extent[0], *w = extent[1];
    return CUDNN_STATUS_SUCCESS;
  });
}

// ---- activations --------------------------------------------------------------------------------

cudnnStatus_t CUDNNWINAPI cudnnCreateActivationDescriptor(cudnnActivationDescriptor_t* out) {
  return create(__func__, out);
}

cudnnStatus_t CUDNNWINAPI cudnnDestroyActivationDescriptor(cudnnActivationDescriptor_t descriptor) {
  return destroy(__func__, descriptor);
}

cudnnStatus_t CUDNNWINAPI cudnnSetActivationDescriptor(cudnnActivationDescriptor_t descriptor,
                                                       cudnnActivationMode_t mode,
                                                       cudnnNanPropagation_t nan,
                                                       double coefficient) {
  return change(__func__, descriptor, [&](cudnnActivationStruct& a) {
    if (mode < CUDNN_ACTIVATION_SIGMOID || mode > CUDNN_ACTIVATION_SWISH) return bad("not a mode");
    if (!is_nan_option(nan)) return bad("not an option for NaN");
    a = {mode, nan, coefficient};
    return CUDNN_STATUS_SUCCESS;
  });
}

cudnnStatus_t CUDNNWINAPI cudnnGetActivationDescriptor(const cudnnActivationDescriptor_t descriptor,
                                                       cudnnActivationMode_t* mode,
                                                       cudnnNanPropagation_t* nan,
                                                       double* coefficient) {
  return ask(__func__, descriptor, [&](const cudnnActivationStruct& a) {
    if (!all_given(mode, nan, coefficient)) return bad("a null pointer");
    *mode = a.mode;
    *nan = a.nan;
    *coefficient = a.coefficient;
    return CUDNN_STATUS_SUCCESS;
  });
}

}  // extern "C"
