// The inside of cuDNN's handle and descriptors, and the frame of every function. handle.cpp holds
// the functions on handles and the words, descriptors.cpp and layers.cpp the descriptors with their
// rules, convolution.cpp and pooling.cpp those that compute.
//
// The rules of the descriptors are those of the real libcudnn 9, whose descriptor functions run
// without a driver: library_test/dnn_real_test.cpp asks both the same questions. The rules of the
// functions that compute are those of the documentation.
#pragma once

#include "runtime/library.h"

#include <cudnn.h>

#include <array>
#include <cstdint>

struct cudnnContext {
  int device;
  cudaStream_t stream = nullptr;
};

struct cudnnTensorStruct {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  int rank = 0;
  std::array<int, CUDNN_DIM_MAX> dims{}, strides{};

  bool is_set() const { return dims[0] > 0; }
};

struct cudnnFilterStruct {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  cudnnTensorFormat_t format = CUDNN_TENSOR_NCHW;
  int rank = 4;
  std::array<int, CUDNN_DIM_MAX> dims{};

  bool is_set() const { return dims[0] > 0; }
};

struct cudnnConvolutionStruct {
  std::array<int, 2> pad{}, stride{}, dilation{};
  cudnnConvolutionMode_t mode = CUDNN_CONVOLUTION;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  int groups = 1;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;

  bool is_set() const { return stride[0] > 0; }
};

struct cudnnPoolingStruct {
  cudnnPoolingMode_t mode = CUDNN_POOLING_MAX;
  cudnnNanPropagation_t nan = CUDNN_NOT_PROPAGATE_NAN;
  std::array<int, 2> window{}, pad{}, stride{};

  bool is_set() const { return window[0] > 0; }
};

struct cudnnActivationStruct {
  cudnnActivationMode_t mode = CUDNN_ACTIVATION_SIGMOID;
  cudnnNanPropagation_t nan = CUDNN_NOT_PROPAGATE_NAN;
  double coefficient = 0;
};

namespace cudasim::dnn {

template <class T>
inline const std::string kKind;
template <>
inline const std::string kKind<cudnnContext> = "cuDNN handle";
template <>
inline const std::string kKind<cudnnTensorStruct> = "cuDNN tensor descriptor";
template <>
inline const std::string kKind<cudnnFilterStruct> = "cuDNN filter descriptor";
template <>
inline const std::string kKind<cudnnConvolutionStruct> = "cuDNN convolution descriptor";
template <>
inline const std::string kKind<cudnnPoolingStruct> = "cuDNN pooling descriptor";
template <>
inline const std::string kKind<cudnnActivationStruct> = "cuDNN activation descriptor";

cudnnStatus_t status_of(cudaError_t error);  // of an injected failure or a lost device

// Returns the status, and keeps the reason for this thread's cudnnGetLastErrorString.
cudnnStatus_t because(cudnnStatus_t status, std::string reason);
inline cudnnStatus_t bad(std::string reason) {
  return because(CUDNN_STATUS_BAD_PARAM, std::move(reason));
}
inline cudnnStatus_t unsupported(std::string reason) {
  return because(CUDNN_STATUS_NOT_SUPPORTED, std::move(reason));
}

// A function that needs no handle.
template <class Body>
cudnnStatus_t call(const char* function, Body&& body, Survives survives = Survives::nothing) {
  return library_call(function, nullptr, status_of, body, survives);
}

// A function on the handle, whose device must be current.
template <class Body>
cudnnStatus_t call(const char* function, cudnnHandle_t handle, Body&& body) {
  return library_call(function, handle, status_of, [&](State& s, Lock& lock) {
    if (!find_object(s, kKind<cudnnContext>, handle, function)) return bad("not a handle");
    if (!is_current(s, handle->device, function)) return CUDNN_STATUS_EXECUTION_FAILED;
    return body(s, lock);
  });
}

template <class T>
bool is_live(State& s, const T* object, const char* function, Access access = Access::read) {
  return find_object(s, kKind<T>, object, function, access);
}

template <class T>
cudnnStatus_t create(const char* function, T** out, T fresh = {}) {
  return call(function, [&](State& s, Lock&) {
    if (!out) return bad("nowhere to put it");
    auto object = std::make_shared<T>(fresh);
    *out = object.get();
    add_object(s, kKind<T>, std::move(object));
    return CUDNN_STATUS_SUCCESS;
  });
}

// Works on a lost device too, so that a program can clean up. Null is no error, as in the real one.
template <class T>
cudnnStatus_t destroy(const char* function, T* object) {
  return call(
      function,
      [&](State& s, Lock&) {
        if (!object) return CUDNN_STATUS_SUCCESS;
        if (!is_live(s, object, function, Access::write)) return bad("not live");
        remove_object(s, kKind<T>, object);
        return CUDNN_STATUS_SUCCESS;
      },
      Survives::lost_device);
}

// A function that changes a descriptor.
template <class T, class Body>
cudnnStatus_t change(const char* function, T* object, Body&& body) {
  return call(function, [&](State& s, Lock&) {
    return is_live(s, object, function, Access::write) ? body(*object) : bad("no descriptor");
  });
}

// A function that asks a descriptor.
template <class T, class Body>
cudnnStatus_t ask(const char* function, const T* object, Body&& body) {
  return call(function, [&](State& s, Lock&) {
    return is_live(s, object, function) ? body(*object) : bad("no descriptor");
  });
}

template <class... T>
bool all_given(const T*... pointers) {
  return (pointers && ...);
}

// ---- shapes (descriptors.cpp) -------------------------------------------------------------------

std::size_t element_size(cudnnDataType_t type);
bool real_of(cudnnDataType_t type, Real& real);  // false: not a type that is simulated

// The strides of a tensor of this format without gaps.
std::array<int, CUDNN_DIM_MAX> packed_strides(cudnnTensorFormat_t format, int rank,
                                              const std::array<int, CUDNN_DIM_MAX>& dims);

// Without gaps but between samples (cuDNN: CHW-packed, HWC-packed). As in the real library, the
// stride of a dimension of extent 1 counts too.
bool is_sample_packed(const cudnnTensorStruct& tensor, cudnnTensorFormat_t format);

Operand operand(const char* name, const cudnnTensorStruct& tensor, const void* data, Access access);
Operand operand(const char* name, const cudnnFilterStruct& filter, const void* data, Access access);

// The extent of a convolution's or pooling's output; 0 where the window does not fit.
int output_extent(int in, int pad, int window, int stride, int dilation);

// The factors alpha and beta: double for double, else float.
double factor(const void* p, cudnnDataType_t type);

// The stream of the handle; null, and a violation, where it has none.
CUstream_st* stream_of(State& s, cudnnHandle_t handle, const char* function);

}  // namespace cudasim::dnn
