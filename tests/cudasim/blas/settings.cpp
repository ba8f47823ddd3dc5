// cuBLAS: handles, their settings, and the words for a status. Prototypes come from NVIDIA's
// cublas_v2.h; what is not in blas/ is refused by the linker. Next: products.cpp.
#include "blas/context.h"

using namespace cudasim;
using namespace cudasim::blas;

namespace cudasim::blas {

cublasStatus_t status_of(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation:
      return CUBLAS_STATUS_ALLOC_FAILED;
    case cudaErrorInvalidValue:
      return CUBLAS_STATUS_INVALID_VALUE;
    case cudaErrorNotSupported:
      return CUBLAS_STATUS_NOT_SUPPORTED;
    case cudaErrorInitializationError:
    case cudaErrorInsufficientDriver:
      return CUBLAS_STATUS_NOT_INITIALIZED;
    default:
      return CUBLAS_STATUS_EXECUTION_FAILED;
  }
}

}  // namespace cudasim::blas

namespace {

constexpr std::size_t kWorkspaceAlignment = 256;

template <class T>
cublasStatus_t answer(const char* function, cublasHandle_t handle, T* out,
                      T cublasContext::*setting) {
  return call(function, handle, [&](State&, Lock&) {
    if (!out) return CUBLAS_STATUS_INVALID_VALUE;
    *out = handle->*setting;
    return CUBLAS_STATUS_SUCCESS;
  });
}

struct StatusText {
  cublasStatus_t status;
  const char *name, *text;
};
#define STATUS(status, text) \
  { status, #status, text }
constexpr StatusText kStatuses[] = {
    STATUS(CUBLAS_STATUS_SUCCESS, "success"),
    STATUS(CUBLAS_STATUS_NOT_INITIALIZED, "the library was not initialized"),
    STATUS(CUBLAS_STATUS_ALLOC_FAILED, "the resource allocation failed"),
    STATUS(CUBLAS_STATUS_INVALID_VALUE,
           "an unsupported value or parameter was passed to the function"),
    STATUS(CUBLAS_STATUS_ARCH_MISMATCH,
           "the function requires an architectural feature absent from the device"),
    STATUS(CUBLAS_STATUS_MAPPING_ERROR, "an access to GPU memory space failed"),
    STATUS(CUBLAS_STATUS_EXECUTION_FAILED, "the function failed to launch on the GPU"),
    STATUS(CUBLAS_STATUS_INTERNAL_ERROR, "an internal operation failed"),
    STATUS(CUBLAS_STATUS_NOT_SUPPORTED, "the requested functionality is not supported"),
    STATUS(CUBLAS_STATUS_LICENSE_ERROR, "the license check failed"),
};
#undef STATUS

const StatusText* find_status(cublasStatus_t status) {
  for (const StatusText& s : kStatuses)
    if (s.status == status) return &s;
  return nullptr;
}

}  // namespace

extern "C" {

cublasStatus_t CUBLASWINAPI cublasCreate_v2(cublasHandle_t* out) {
  return library_call("cublasCreate", nullptr, status_of, [&](State& s, Lock&) {
    if (!out) return CUBLAS_STATUS_INVALID_VALUE;
    auto handle = std::make_shared<cublasContext>(cublasContext{.device = this_thread().device});
    *out = handle.get();
    add_object(s, kKind, std::move(handle));
    return CUBLAS_STATUS_SUCCESS;
  });
}

// Works on a lost device too, so that a program can clean up.
cublasStatus_t CUBLASWINAPI cublasDestroy_v2(cublasHandle_t handle) {
  return call(
      "cublasDestroy", handle,
      [&](State& s, Lock&) {
        remove_object(s, kKind, handle);
        return CUBLAS_STATUS_SUCCESS;
      },
      Survives::lost_device);
}

cublasStatus_t CUBLASWINAPI cublasGetVersion_v2(cublasHandle_t handle, int* version) {
  return call("cublasGetVersion", handle, [&](State&, Lock&) {
    if (!version) return CUBLAS_STATUS_INVALID_VALUE;
    *version = CUBLAS_VERSION;
    return CUBLAS_STATUS_SUCCESS;
  });
}

// Gives the handle the library's own workspace again, as the documentation says: a program that
// wants to keep its own sets it after every cublasSetStream.
cublasStatus_t CUBLASWINAPI cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  const char* function = "cublasSetStream";
  return call(function, handle, [&](State& s, Lock&) {
    const CUstream_st* found = find_stream(s, stream, function);
    if (!found) return CUBLAS_STATUS_INVALID_VALUE;
    if (found->device != handle->device) {
      violation(s, std::string(function) + ": the stream belongs to device " +
                       std::to_string(found->device) + ", the handle to device " +
                       std::to_string(handle->device));
      return CUBLAS_STATUS_INVALID_VALUE;
    }
    handle->stream = stream;
    if (handle->workspace_is == WorkspaceIs::the_users) handle->workspace_is = WorkspaceIs::dropped;
    return CUBLAS_STATUS_SUCCESS;
  });
}

cublasStatus_t CUBLASWINAPI cublasGetStream_v2(cublasHandle_t handle, cudaStream_t* stream) {
  return answer("cublasGetStream", handle, stream, &cublasContext::stream);
}

cublasStatus_t CUBLASWINAPI cublasSetWorkspace_v2(cublasHandle_t handle, void* data, size_t bytes) {
  return call("cublasSetWorkspace", handle, [&](State&, Lock&) {
    if (reinterpret_cast<std::uintptr_t>(data) % kWorkspaceAlignment != 0)
      return CUBLAS_STATUS_INVALID_VALUE;
    if (!data && bytes > 0) return CUBLAS_STATUS_INVALID_VALUE;
    handle->workspace = {data, bytes};
    handle->workspace_is = WorkspaceIs::the_users;
    return CUBLAS_STATUS_SUCCESS;
  });
}

cublasStatus_t CUBLASWINAPI cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
  return call("cublasSetMathMode", handle, [&](State&, Lock&) {
    const int basic = mode & ~CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION;
    const bool known =
        (basic >= CUBLAS_DEFAULT_MATH && basic <= CUBLAS_FP32_EMULATED_BF16X9_MATH) ||
        basic == CUBLAS_FP64_EMULATED_FIXEDPOINT_MATH;
    if (!known) return CUBLAS_STATUS_INVALID_VALUE;
    handle->math = mode;
    return CUBLAS_STATUS_SUCCESS;
  });
}

cublasStatus_t CUBLASWINAPI cublasGetMathMode(cublasHandle_t handle, cublasMath_t* mode) {
  return answer("cublasGetMathMode", handle, mode, &cublasContext::math);
}

// alpha and beta in device memory are not simulated.
cublasStatus_t CUBLASWINAPI cublasSetPointerMode_v2(cublasHandle_t handle,
                                                    cublasPointerMode_t mode) {
  return call("cublasSetPointerMode", handle, [&](State& s, Lock&) {
    if (mode == CUBLAS_POINTER_MODE_HOST) return CUBLAS_STATUS_SUCCESS;
    if (mode != CUBLAS_POINTER_MODE_DEVICE) return CUBLAS_STATUS_INVALID_VALUE;
    violation(s, "cublasSetPointerMode: CUBLAS_POINTER_MODE_DEVICE is not simulated");
    return CUBLAS_STATUS_NOT_SUPPORTED;
  });
}

cublasStatus_t CUBLASWINAPI cublasGetPointerMode_v2(cublasHandle_t handle,
                                                    cublasPointerMode_t* mode) {
  return answer("cublasGetPointerMode", handle, mode, &cublasContext::pointers);
}

// Atomics make results differ from run to run.
cublasStatus_t CUBLASWINAPI cublasSetAtomicsMode(cublasHandle_t handle, cublasAtomicsMode_t mode) {
  return call("cublasSetAtomicsMode", handle, [&](State& s, Lock&) {
    if (mode != CUBLAS_ATOMICS_NOT_ALLOWED && mode != CUBLAS_ATOMICS_ALLOWED)
      return CUBLAS_STATUS_INVALID_VALUE;
    if (mode == CUBLAS_ATOMICS_ALLOWED)
      violation(s, "cublasSetAtomicsMode: CUBLAS_ATOMICS_ALLOWED is not deterministic");
    handle->atomics = mode;
    return CUBLAS_STATUS_SUCCESS;
  });
}

cublasStatus_t CUBLASWINAPI cublasGetAtomicsMode(cublasHandle_t handle, cublasAtomicsMode_t* mode) {
  return answer("cublasGetAtomicsMode", handle, mode, &cublasContext::atomics);
}

const char* CUBLASWINAPI cublasGetStatusName(cublasStatus_t status) {
  const StatusText* found = find_status(status);
  return found ? found->name : "unrecognized status";
}

const char* CUBLASWINAPI cublasGetStatusString(cublasStatus_t status) {
  const StatusText* found = find_status(status);
  return found ? found->text : "unrecognized status";
}

}  // extern "C"
