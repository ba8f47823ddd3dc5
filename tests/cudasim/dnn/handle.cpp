// cuDNN: handles, versions, and the words for a status.
#include "dnn/context.h"

#include <cstring>

using namespace cudasim;
using namespace cudasim::dnn;

namespace {

thread_local std::string last_reason;

struct StatusName {
  cudnnStatus_t status;
  const char* name;
};
#define STATUS(name) \
  { CUDNN_STATUS_##name, "CUDNN_STATUS_" #name }
constexpr StatusName kStatuses[] = {
    STATUS(SUCCESS),
    STATUS(NOT_INITIALIZED),
    STATUS(SUBLIBRARY_VERSION_MISMATCH),
    STATUS(SERIALIZATION_VERSION_MISMATCH),
    STATUS(DEPRECATED),
    STATUS(LICENSE_ERROR),
    STATUS(RUNTIME_IN_PROGRESS),
    STATUS(RUNTIME_FP_OVERFLOW),
    STATUS(SUBLIBRARY_LOADING_FAILED),
    STATUS(BAD_PARAM),
    STATUS(BAD_PARAM_NULL_POINTER),
    STATUS(BAD_PARAM_MISALIGNED_POINTER),
    STATUS(BAD_PARAM_OUT_OF_BOUND),
    STATUS(BAD_PARAM_SIZE_INSUFFICIENT),
    STATUS(BAD_PARAM_STREAM_MISMATCH),
    STATUS(BAD_PARAM_SHAPE_MISMATCH),
    STATUS(NOT_SUPPORTED),
    STATUS(NOT_SUPPORTED_SHAPE),
    STATUS(NOT_SUPPORTED_DATA_TYPE),
    STATUS(NOT_SUPPORTED_LAYOUT),
    STATUS(NOT_SUPPORTED_ARCH_MISMATCH),
    STATUS(INTERNAL_ERROR),
    STATUS(INTERNAL_ERROR_HOST_ALLOCATION_FAILED),
    STATUS(INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED),
    STATUS(EXECUTION_FAILED),
    STATUS(EXECUTION_FAILED_CUDA_DRIVER),
    STATUS(EXECUTION_FAILED_CUBLAS),
    STATUS(EXECUTION_FAILED_CUDART),
    STATUS(EXECUTION_FAILED_CURAND),
};
#undef STATUS

}  // namespace

namespace cudasim::dnn {

cudnnStatus_t status_of(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation:
      return CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;  // once ALLOC_FAILED
    case cudaErrorInvalidValue:
      return CUDNN_STATUS_BAD_PARAM;
    case cudaErrorNotSupported:
      return CUDNN_STATUS_NOT_SUPPORTED;
    case cudaErrorInitializationError:
    case cudaErrorInsufficientDriver:
      return CUDNN_STATUS_NOT_INITIALIZED;
    default:
      return CUDNN_STATUS_EXECUTION_FAILED;
  }
}

cudnnStatus_t because(cudnnStatus_t status, std::string reason) {
  last_reason = std::move(reason);
  return status;
}

CUstream_st* stream_of(State& s, cudnnHandle_t handle, const char* function) {
  return find_stream(s, handle->stream, function);
}

}  // namespace cudasim::dnn

extern "C" {

cudnnStatus_t CUDNNWINAPI cudnnCreate(cudnnHandle_t* handle) {
  return create<cudnnContext>(__func__, handle, {.device = this_thread().device});
}

cudnnStatus_t CUDNNWINAPI cudnnDestroy(cudnnHandle_t handle) {
  return destroy(__func__, handle);
}

cudnnStatus_t CUDNNWINAPI cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  const char* function = __func__;
  return call(function, handle, [&](State& s, Lock&) {
    const CUstream_st* found = find_stream(s, stream, function);
    if (!found) return bad("not a stream");
    if (found->device != handle->device) {
      violation(s, std::string(function) + ": the stream belongs to device " +
                       std::to_string(found->device) + ", the handle to device " +
                       std::to_string(handle->device));
      return because(CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH, "the stream of another device");
    }
    handle->stream = stream;
    return CUDNN_STATUS_SUCCESS;
  });
}

cudnnStatus_t CUDNNWINAPI cudnnGetStream(cudnnHandle_t handle, cudaStream_t* stream) {
  return call(__func__, handle, [&](State&, Lock&) {
    if (!stream) return bad("nowhere to put it");
    *stream = handle->stream;
    return CUDNN_STATUS_SUCCESS;
  });
}

size_t CUDNNWINAPI cudnnGetVersion(void) {
  return CUDNN_VERSION;
}

size_t CUDNNWINAPI cudnnGetCudartVersion(void) {
  return CUDART_VERSION;
}

cudnnStatus_t CUDNNWINAPI cudnnGetProperty(libraryPropertyType type, int* value) {
  return call(__func__, [&](State&, Lock&) {
    if (!value) return bad("nowhere to put it");
    const int numbers[] = {CUDNN_MAJOR, CUDNN_MINOR, CUDNN_PATCHLEVEL};
    if (type < MAJOR_VERSION || type > PATCH_LEVEL) return bad("not a property");
    *value = numbers[type];
    return CUDNN_STATUS_SUCCESS;
  });
}

const char* CUDNNWINAPI cudnnGetErrorString(cudnnStatus_t status) {
  for (const StatusName& s : kStatuses)
    if (s.status == status) return s.name;
  return "CUDNN_UNKNOWN_STATUS";
}

// What the simulator had against this thread's last call that failed. The real library's words
// differ.
void CUDNNWINAPI cudnnGetLastErrorString(char* message, size_t size) {
  if (!message || size == 0) return;
  std::strncpy(message, last_reason.c_str(), size - 1);
  message[size - 1] = '\0';
}

}  // extern "C"
