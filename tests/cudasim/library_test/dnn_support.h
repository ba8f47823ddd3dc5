// A cuDNN handle with its stream, and descriptors that are set when they are made.
#pragma once

#include "library_test/support.h"

#include <cudnn.h>

namespace library_test {

#define DNN_OK(call) REQUIRE((call) == CUDNN_STATUS_SUCCESS)

struct Dnn {
  Dnn() {
    DNN_OK(cudnnCreate(&handle));
    DNN_OK(cudnnSetStream(handle, stream));
  }
  void wait() const { REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess); }

  cudaStream_t stream = new_stream();
  cudnnHandle_t handle = nullptr;
};

// The descriptors are left to the end of the cudasim::Session.
inline cudnnTensorDescriptor_t tensor(const int (&d)[4],
                                      cudnnTensorFormat_t format = CUDNN_TENSOR_NCHW,
                                      cudnnDataType_t type = CUDNN_DATA_FLOAT) {
  cudnnTensorDescriptor_t t = nullptr;
  DNN_OK(cudnnCreateTensorDescriptor(&t));
  DNN_OK(cudnnSetTensor4dDescriptor(t, format, type, d[0], d[1], d[2], d[3]));
  return t;
}

inline cudnnFilterDescriptor_t filter(const int (&d)[4],
                                      cudnnTensorFormat_t format = CUDNN_TENSOR_NCHW,
                                      cudnnDataType_t type = CUDNN_DATA_FLOAT) {
  cudnnFilterDescriptor_t f = nullptr;
  DNN_OK(cudnnCreateFilterDescriptor(&f));
  DNN_OK(cudnnSetFilter4dDescriptor(f, type, format, d[0], d[1], d[2], d[3]));
  return f;
}

// CUDNN_FMA_MATH: float32 stays exact.
inline cudnnConvolutionDescriptor_t convolution(
    const int (&pad)[2], const int (&stride)[2], const int (&dilation)[2], int groups,
    cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION) {
  cudnnConvolutionDescriptor_t c = nullptr;
  DNN_OK(cudnnCreateConvolutionDescriptor(&c));
  DNN_OK(cudnnSetConvolution2dDescriptor(c, pad[0], pad[1], stride[0], stride[1], dilation[0],
                                         dilation[1], mode, CUDNN_DATA_FLOAT));
  DNN_OK(cudnnSetConvolutionGroupCount(c, groups));
  DNN_OK(cudnnSetConvolutionMathType(c, CUDNN_FMA_MATH));
  return c;
}

inline cudnnPoolingDescriptor_t pooling(cudnnPoolingMode_t mode, const int (&window)[2],
                                        const int (&pad)[2], const int (&stride)[2],
                                        cudnnNanPropagation_t nan = CUDNN_PROPAGATE_NAN) {
  cudnnPoolingDescriptor_t p = nullptr;
  DNN_OK(cudnnCreatePoolingDescriptor(&p));
  DNN_OK(cudnnSetPooling2dDescriptor(p, mode, nan, window[0], window[1], pad[0], pad[1], stride[0],
                                     stride[1]));
  return p;
}

inline int count(const int (&d)[4]) {
  return d[0] * d[1] * d[2] * d[3];
}

// Numbers in the order N, C, H, W, put into the order of a format in memory, and back.
template <class To, class From>
std::vector<To> arrange(const std::vector<From>& values, const int (&d)[4],
                        cudnnTensorFormat_t format, bool back = false) {
  std::vector<To> out(values.size());
  std::size_t plain = 0;
  for (int n = 0; n < d[0]; ++n)
    for (int c = 0; c < d[1]; ++c)
      for (int h = 0; h < d[2]; ++h)
        for (int w = 0; w < d[3]; ++w, ++plain) {
          const std::size_t place = format == CUDNN_TENSOR_NCHW
                                        ? plain
                                        : ((std::size_t(n) * d[2] + h) * d[3] + w) * d[1] + c;
          if (back)
            out[plain] = static_cast<To>(values[place]);
          else
            out[place] = static_cast<To>(values[plain]);
        }
  return out;
}

// The three directions of one convolution with algorithms that are deterministic; dy is the y's
// gradient. Results are returned in the order N, C, H, W.
struct ConvolutionRun {
  const Dnn& dnn;
  const int (&x_dims)[4], (&w_dims)[4], (&y_dims)[4];
  cudnnConvolutionDescriptor_t descriptor;
  cudnnTensorFormat_t format = CUDNN_TENSOR_NCHW;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  float alpha = 1, beta = 0;

  template <class T>
  std::vector<double> forward(const std::vector<double>& x, const std::vector<double>& w,
                              const std::vector<double>& before) const;
  template <class T>
  std::vector<double> to_data(const std::vector<double>& w, const std::vector<double>& dy,
                              const std::vector<double>& before) const;
  template <class T>
  std::vector<double> to_filter(const std::vector<double>& x, const std::vector<double>& dy,
                                const std::vector<double>& before) const;
};

template <class T>
std::vector<double> ConvolutionRun::forward(const std::vector<double>& x,
                                            const std::vector<double>& w,
                                            const std::vector<double>& before) const {
  const auto xd = tensor(x_dims, format, type), yd = tensor(y_dims, format, type);
  const auto wd = filter(w_dims, format, type);
  const auto algorithm = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;
  std::size_t bytes = 0;
  DNN_OK(cudnnGetConvolutionForwardWorkspaceSize(dnn.handle, xd, wd, descriptor, yd, algorithm,
                                                 &bytes));
  T* const y = upload(arrange<T>(before, y_dims, format));
  DNN_OK(cudnnConvolutionForward(dnn.handle, &alpha, xd, upload(arrange<T>(x, x_dims, format)), wd,
                                 upload(arrange<T>(w, w_dims, format)), descriptor, algorithm,
                                 new_array<char>(bytes), bytes, &beta, yd, y));
  dnn.wait();
  return arrange<double>(download(y, before.size()), y_dims, format, true);
}

template <class T>
std::vector<double> ConvolutionRun::to_data(const std::vector<double>& w,
                                            const std::vector<double>& dy,
                                            const std::vector<double>& before) const {
  const auto xd = tensor(x_dims, format, type), yd = tensor(y_dims, format, type);
  const auto wd = filter(w_dims, format, type);
  const auto algorithm = CUDNN_CONVOLUTION_BWD_DATA_ALGO_1;
  std::size_t bytes = 0;
  DNN_OK(cudnnGetConvolutionBackwardDataWorkspaceSize(dnn.handle, wd, yd, descriptor, xd, algorithm,
                                                      &bytes));
  T* const dx = upload(arrange<T>(before, x_dims, format));
  DNN_OK(cudnnConvolutionBackwardData(dnn.handle, &alpha, wd, upload(arrange<T>(w, w_dims, format)),
                                      yd, upload(arrange<T>(dy, y_dims, format)), descriptor,
                                      algorithm, new_array<char>(bytes), bytes, &beta, xd, dx));
  dnn.wait();
  return arrange<double>(download(dx, before.size()), x_dims, format, true);
}

template <class T>
std::vector<double> ConvolutionRun::to_filter(const std::vector<double>& x,
                                              const std::vector<double>& dy,
                                              const std::vector<double>& before) const {
  const auto xd = tensor(x_dims, format, type), yd = tensor(y_dims, format, type);
  const auto wd = filter(w_dims, format, type);
  const auto algorithm = CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1;
  std::size_t bytes = 0;
  DNN_OK(cudnnGetConvolutionBackwardFilterWorkspaceSize(dnn.handle, xd, yd, descriptor, wd,
                                                        algorithm, &bytes));
  T* const dw = upload(arrange<T>(before, w_dims, format));
  DNN_OK(cudnnConvolutionBackwardFilter(dnn.handle, &alpha, xd,
                                        upload(arrange<T>(x, x_dims, format)), yd,
                                        upload(arrange<T>(dy, y_dims, format)), descriptor,
                                        algorithm, new_array<char>(bytes), bytes, &beta, wd, dw));
  dnn.wait();
  return arrange<double>(download(dw, before.size()), w_dims, format, true);
}

}  // namespace library_test
