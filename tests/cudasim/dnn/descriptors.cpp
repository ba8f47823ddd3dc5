// cuDNN: descriptors of tensors and filters.
#include "dnn/context.h"

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <cstring>

using namespace cudasim;
using namespace cudasim::dnn;

namespace {

using Dims = std::array<int, CUDNN_DIM_MAX>;

bool is_vector_type(cudnnDataType_t type) {
  return type == CUDNN_DATA_INT8x4 || type == CUDNN_DATA_UINT8x4 || type == CUDNN_DATA_INT8x32;
}

// The types that descriptors take; the newer ones belong to the graph API.
bool is_known(cudnnDataType_t type) {
  return type >= CUDNN_DATA_FLOAT && type <= CUDNN_DATA_BFLOAT16;
}

cudnnStatus_t refuse_format(cudnnTensorFormat_t format, cudnnDataType_t type) {
  if (!is_known(type)) return bad("not a type of a descriptor");
  if (format == CUDNN_TENSOR_NCHW || format == CUDNN_TENSOR_NHWC) return CUDNN_STATUS_SUCCESS;
  if (format != CUDNN_TENSOR_NCHW_VECT_C || !is_vector_type(type)) return bad("not a format");
  return unsupported("cudasim: CUDNN_TENSOR_NCHW_VECT_C is not simulated");
}

cudnnStatus_t refuse_dims(int rank, const int* dims) {
  if (rank > CUDNN_DIM_MAX) return unsupported("more than 8 dimensions");
  if (!dims) return bad("no dimensions");
  for (int d = 0; d < rank; ++d)
    if (dims[d] < 1) return bad("a dimension below 1");
  return CUDNN_STATUS_SUCCESS;
}

// From the first element to the last, both included.
std::int64_t reach(const cudnnTensorStruct& t) {
  std::int64_t elements = 1;
  for (int d = 0; d < t.rank; ++d)
    elements += std::int64_t{t.dims[d] - 1} * std::abs(std::int64_t{t.strides[d]});
  return elements;
}

cudnnStatus_t set(cudnnTensorStruct& out, cudnnDataType_t type, int rank, const int* dims,
                  const int* strides) {
  if (!is_known(type)) return bad("not a type of a descriptor");
  if (rank < 2) return bad("fewer than 2 dimensions");
  if (cudnnStatus_t status = refuse_dims(rank, dims)) return status;
  if (!strides) return bad("no strides");
  cudnnTensorStruct t{.type = type, .rank = rank};
  std::copy(dims, dims + rank, t.dims.begin());
  std::copy(strides, strides + rank, t.strides.begin());
  for (int d = 0; d < rank; ++d)
    if (t.strides[d] == 0 && t.dims[d] > 1) return bad("a stride of 0");
  if (reach(t) > INT_MAX) return unsupported("more than 2^31 - 1 elements");
  out = t;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t set_packed(cudnnTensorStruct& out, cudnnTensorFormat_t format, cudnnDataType_t type,
                         int rank, const int* dims) {
  if (cudnnStatus_t status = refuse_format(format, type)) return status;
  if (cudnnStatus_t status = refuse_dims(rank, dims)) return status;
  std::int64_t count = 1;
  for (int d = 0; d < rank; ++d)
    if ((count *= dims[d]) > INT_MAX) return unsupported("more than 2^31 - 1 elements");
  Dims all{};
  std::copy(dims, dims + rank, all.begin());
  return set(out, type, rank, dims, packed_strides(format, rank, all).data());
}

cudnnStatus_t set_filter(cudnnFilterStruct& out, cudnnDataType_t type, cudnnTensorFormat_t format,
                         int rank, const int* dims) {
  if (rank < 3) return bad("fewer than 3 dimensions");
  if (type == CUDNN_DATA_INT32) return bad("not a type of a filter");
  if (cudnnStatus_t status = refuse_format(format, type)) return status;
  if (cudnnStatus_t status = refuse_dims(rank, dims)) return status;
  out = {.type = type, .format = format, .rank = rank};
  std::copy(dims, dims + rank, out.dims.begin());
  return CUDNN_STATUS_SUCCESS;
}

Operand view(const char* name, cudnnDataType_t type, int rank, const Dims& dims,
             const Dims& strides, const void* data, Access access) {
  Operand o{name, data, {}, {}, {}, access};
  real_of(type, o.type);
  o.dims.assign(dims.begin(), dims.begin() + rank);
  o.strides.assign(strides.begin(), strides.begin() + rank);
  return o;
}

}  // namespace

namespace cudasim::dnn {

std::size_t element_size(cudnnDataType_t type) {
  switch (type) {
    case CUDNN_DATA_DOUBLE:
      return 8;
    case CUDNN_DATA_FLOAT:
    case CUDNN_DATA_INT32:
    case CUDNN_DATA_INT8x4:
    case CUDNN_DATA_UINT8x4:
      return 4;
    case CUDNN_DATA_HALF:
    case CUDNN_DATA_BFLOAT16:
      return 2;
    case CUDNN_DATA_INT8x32:
      return 32;
    default:
      return 1;
  }
}

bool real_of(cudnnDataType_t type, Real& real) {
  switch (type) {
    case CUDNN_DATA_FLOAT:
      real = Real::float32;
      return true;
    case CUDNN_DATA_DOUBLE:
      real = Real::float64;
      return true;
    case CUDNN_DATA_HALF:
      real = Real::float16;
      return true;
    case CUDNN_DATA_BFLOAT16:
      real = Real::bfloat16;
      return true;
    default:
      return false;
  }
}

std::array<int, CUDNN_DIM_MAX> packed_strides(cudnnTensorFormat_t format, int rank,
                                              const std::array<int, CUDNN_DIM_MAX>& dims) {
  Dims strides{};
  const bool last = format == CUDNN_TENSOR_NHWC;  // channels
  int stride = last ? dims[1] : 1;
  for (int d = rank - 1; d >= 0; --d) {
    if (last && d == 1) continue;
    strides[d] = stride;
    stride *= dims[d];
  }
  if (last) strides[1] = 1;
  return strides;
}

bool is_sample_packed(const cudnnTensorStruct& t, cudnnTensorFormat_t format) {
  const Dims packed = packed_strides(format, t.rank, t.dims);
  return std::equal(packed.begin() + 1, packed.begin() + t.rank, t.strides.begin() + 1);
}

Operand operand(const char* name, const cudnnTensorStruct& t, const void* data, Access access) {
  return view(name, t.type, t.rank, t.dims, t.strides, data, access);
}

Operand operand(const char* name, const cudnnFilterStruct& f, const void* data, Access access) {
  return view(name, f.type, f.rank, f.dims, packed_strides(f.format, f.rank, f.dims), data, access);
}

double factor(const void* p, cudnnDataType_t type) {
  return load(type == CUDNN_DATA_DOUBLE ? Real::float64 : Real::float32,
              static_cast<const char*>(p));
}

}  // namespace cudasim::dnn

extern "C" {

// ---- tensors ------------------------------------------------------------------------------------

cudnnStatus_t CUDNNWINAPI cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* out) {
  return create(__func__, out);
}

cudnnStatus_t CUDNNWINAPI cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t descriptor) {
  return destroy(__func__, descriptor);
}

cudnnStatus_t CUDNNWINAPI cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t descriptor,
                                                     cudnnTensorFormat_t format,
                                                     cudnnDataType_t type, int n, int c, int h,
                                                     int w) {
  return change(__func__, descriptor, [&](cudnnTensorStruct& t) {
    const int dims[] = {n, c, h, w};
    return set_packed(t, format, type, 4, dims);
  });
}

cudnnStatus_t CUDNNWINAPI cudnnSetTensor4dDescriptorEx(cudnnTensorDescriptor_t descriptor,
                                                       cudnnDataType_t type, int n, int c, int h,
                                                       int w, int n_stride, int c_stride,
                                                       int h_stride, int w_stride) {
  return change(__func__, descriptor, [&](cudnnTensorStruct& t) {
    const int dims[] = {n, c, h, w}, strides[] = {n_stride, c_stride, h_stride, w_stride};
    return set(t, type, 4, dims, strides);
  });
}

cudnnStatus_t CUDNNWINAPI cudnnSetTensorNdDescriptor(cudnnTensorDescriptor_t descriptor,
                                                     cudnnDataType_t type, int rank,
                                                     const int dims[], const int strides[]) {
  return change(__func__, descriptor,
                [&](cudnnTensorStruct& t) { return set(t, type, rank, dims, strides); });
}

cudnnStatus_t CUDNNWINAPI cudnnSetTensorNdDescriptorEx(cudnnTensorDescriptor_t descriptor,
                                                       cudnnTensorFormat_t format,
                                                       cudnnDataType_t type, int rank,
                                                       const int dims[]) {
  return change(__func__, descriptor, [&](cudnnTensorStruct& t) {
    if (rank < 2) return bad("fewer than 2 dimensions");
    return set_packed(t, format, type, rank, dims);
  });
}

cudnnStatus_t CUDNNWINAPI cudnnGetTensor4dDescriptor(const cudnnTensorDescriptor_t descriptor,
                                                     cudnnDataType_t* type, int* n, int* c, int* h,
                                                     int* w, int* n_stride, int* c_stride,
                                                     int* h_stride, int* w_stride) {
  return ask(__func__, descriptor, [&](const cudnnTensorStruct& t) {
    if (!all_given(type, n, c, h, w, n_stride, c_stride, h_stride, w_stride))
      return bad("a null pointer");
    *type = t.type;
    *n = t.dims[0], *c = t.dims[1], *h = t.dims[2], *w = t.dims[3];
    *n_stride = t.strides[0], *c_stride = t.strides[1];
    *h_stride = t.strides[2], *w_stride = t.strides[3];
    return CUDNN_STATUS_SUCCESS;
  });
}

cudnnStatus_t CUDNNWINAPI cudnnGetTensorNdDescriptor(const cudnnTensorDescriptor_t descriptor,
                                                     int requested, cudnnDataType_t* type,
                                                     int* rank, int dims[], int strides[]) {
  return ask(__func__, descriptor, [&](const cudnnTensorStruct& t) {
    if (!all_given(type, rank, dims, strides)) return bad("a null pointer");
    *type = t.type;
    *rank = t.rank;
    const int n = std::clamp(requested, 0, t.rank);
    std::copy(t.dims.begin(), t.dims.begin() + n, dims);
    std::copy(t.strides.begin(), t.strides.begin() + n, strides);
    return CUDNN_STATUS_SUCCESS;
  });
}

cudnnStatus_t CUDNNWINAPI cudnnGetTensorSizeInBytes(const cudnnTensorDescriptor_t descriptor,
                                                    size_t* size) {
  return ask(__func__, descriptor, [&](const cudnnTensorStruct& t) {
    if (!size) return bad("a null pointer");
    *size = t.is_set() ? reach(t) * element_size(t.type) : 0;
    return CUDNN_STATUS_SUCCESS;
  });
}

// ---- filters ------------------------------------------------------------------------------------

cudnnStatus_t CUDNNWINAPI cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t* out) {
  return create(__func__, out);
}

cudnnStatus_t CUDNNWINAPI cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t descriptor) {
  return destroy(__func__, descriptor);
}

cudnnStatus_t CUDNNWINAPI cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t descriptor,
                                                     cudnnDataType_t type,
                                                     cudnnTensorFormat_t format, int k, int c,
                                                     int h, int w) {
  return change(__func__, descriptor, [&](cudnnFilterStruct& f) {
    const int dims[] = {k, c, h, w};
    return set_filter(f, type, format, 4, dims);
  });
}

cudnnStatus_t CUDNNWINAPI cudnnSetFilterNdDescriptor(cudnnFilterDescriptor_t descriptor,
                                                     cudnnDataType_t type,
                                                     cudnnTensorFormat_t format, int rank,
                                                     const int dims[]) {
  return change(__func__, descriptor,
                [&](cudnnFilterStruct& f) { return set_filter(f, type, format, rank, dims); });
}

cudnnStatus_t CUDNNWINAPI cudnnGetFilter4dDescriptor(const cudnnFilterDescriptor_t descriptor,
                                                     cudnnDataType_t* type,
                                                     cudnnTensorFormat_t* format, int* k, int* c,
                                                     int* h, int* w) {
  return ask(__func__, descriptor, [&](const cudnnFilterStruct& f) {
    if (!all_given(type, format, k, c, h, w)) return bad("a null pointer");
    *type = f.type;
    *format = f.format;
    *k = f.dims[0], *c = f.dims[1], *h = f.dims[2], *w = f.dims[3];
    return CUDNN_STATUS_SUCCESS;
  });
}

cudnnStatus_t CUDNNWINAPI cudnnGetFilterSizeInBytes(const cudnnFilterDescriptor_t descriptor,
                                                    size_t* size) {
  return ask(__func__, descriptor, [&](const cudnnFilterStruct& f) {
    if (!size) return bad("a null pointer");
    *size = f.is_set() ? element_size(f.type) : 0;
    for (int d = 0; d < f.rank; ++d) *size *= f.dims[d];
    return CUDNN_STATUS_SUCCESS;
  });
}

}  // extern "C"
