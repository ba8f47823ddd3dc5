// The inside of a cuBLAS handle, and the frame of every function. settings.cpp holds the functions
// on handles, products.cpp those that compute.
//
// Functions go by their documented names ("cublasCreate"), without the _v2 of the linker's symbol,
// in reports and for fail_call().
#pragma once

#include "runtime/library.h"

#include <cublas_v2.h>

struct cublasContext {
  enum class WorkspaceIs { the_librarys, the_users, dropped };

  int device;
  cudaStream_t stream = nullptr;
  cudasim::Workspace workspace{};
  WorkspaceIs workspace_is = WorkspaceIs::the_librarys;
  cublasMath_t math = CUBLAS_DEFAULT_MATH;
  cublasPointerMode_t pointers = CUBLAS_POINTER_MODE_HOST;
  cublasAtomicsMode_t atomics = CUBLAS_ATOMICS_NOT_ALLOWED;
};

namespace cudasim::blas {

using WorkspaceIs = cublasContext::WorkspaceIs;
inline const std::string kKind = "cuBLAS handle";

cublasStatus_t status_of(cudaError_t error);  // of an injected failure or a lost device

template <class Body>
cublasStatus_t call(const char* function, cublasHandle_t handle, Body&& body,
                    Survives survives = Survives::nothing) {
  return library_call(
      function, handle, status_of,
      [&](State& s, Lock& lock) {
        if (!find_object(s, kKind, handle, function)) return CUBLAS_STATUS_NOT_INITIALIZED;
        return body(s, lock);
      },
      survives);
}

}  // namespace cudasim::blas
