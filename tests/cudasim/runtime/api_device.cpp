// Devices: count, selection, properties, peer access, and the last error.
#include "runtime/state.h"

#include <algorithm>
#include <cstring>

using namespace cudasim;

namespace {

bool exists(const State& s, int device) {
  return device >= 0 && device < static_cast<int>(s.devices.size());
}

bool can_reach(const State& s, int from, int to) {
  return s.config.peer_access && from != to;
}

// The limits of a small device of compute capability 9.0.
constexpr int kMultiprocessors = 4;

int attribute(cudaDeviceAttr which, bool& known) {
  known = true;
  switch (which) {
    case cudaDevAttrMaxThreadsPerBlock:
      return 1024;
    case cudaDevAttrMaxBlockDimX:
      return 1024;
    case cudaDevAttrMaxBlockDimY:
      return 1024;
    case cudaDevAttrMaxBlockDimZ:
      return 64;
    case cudaDevAttrMaxGridDimX:
      return 2147483647;
    case cudaDevAttrMaxGridDimY:
      return 65535;
    case cudaDevAttrMaxGridDimZ:
      return 65535;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      return 48 << 10;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      return 227 << 10;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      return 228 << 10;
    case cudaDevAttrWarpSize:
      return 32;
    case cudaDevAttrMultiProcessorCount:
      return kMultiprocessors;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      return 2048;
    case cudaDevAttrMaxBlocksPerMultiprocessor:
      return 32;
    case cudaDevAttrComputeCapabilityMajor:
      return 9;
    case cudaDevAttrComputeCapabilityMinor:
      return 0;
    case cudaDevAttrUnifiedAddressing:
      return 1;
    case cudaDevAttrAsyncEngineCount:
      return 2;
    case cudaDevAttrConcurrentKernels:
      return 1;
    case cudaDevAttrStreamPrioritiesSupported:
      return 1;
    case cudaDevAttrCanMapHostMemory:
      return 1;
    case cudaDevAttrManagedMemory:
      return 0;
    case cudaDevAttrMemoryPoolsSupported:
      return 0;
    default:
      known = false;
      return 0;
  }
}

int attribute(cudaDeviceAttr which) {
  bool known;
  return attribute(which, known);
}

void describe_device(const State& s, int device, cudaDeviceProp& out) {
  out = {};
  const std::string name = "Simulated CUDA device " + std::to_string(device);
  std::strncpy(out.name, name.c_str(), sizeof out.name - 1);
  out.totalGlobalMem = s.config.memory;
  out.sharedMemPerBlock = attribute(cudaDevAttrMaxSharedMemoryPerBlock);
  out.sharedMemPerBlockOptin = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin);
  out.sharedMemPerMultiprocessor = attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor);
  out.regsPerBlock = 65536;
  out.warpSize = attribute(cudaDevAttrWarpSize);
  out.maxThreadsPerBlock = attribute(cudaDevAttrMaxThreadsPerBlock);
  out.maxThreadsDim[0] = attribute(cudaDevAttrMaxBlockDimX);
  out.maxThreadsDim[1] = attribute(cudaDevAttrMaxBlockDimY);
  out.maxThreadsDim[2] = attribute(cudaDevAttrMaxBlockDimZ);
  out.maxGridSize[0] = attribute(cudaDevAttrMaxGridDimX);
  out.maxGridSize[1] = attribute(cudaDevAttrMaxGridDimY);
  out.maxGridSize[2] = attribute(cudaDevAttrMaxGridDimZ);
  out.major = attribute(cudaDevAttrComputeCapabilityMajor);
  out.minor = attribute(cudaDevAttrComputeCapabilityMinor);
  out.multiProcessorCount = attribute(cudaDevAttrMultiProcessorCount);
  out.maxThreadsPerMultiProcessor = attribute(cudaDevAttrMaxThreadsPerMultiProcessor);
  out.maxBlocksPerMultiProcessor = attribute(cudaDevAttrMaxBlocksPerMultiprocessor);
  out.unifiedAddressing = attribute(cudaDevAttrUnifiedAddressing);
  out.asyncEngineCount = attribute(cudaDevAttrAsyncEngineCount);
  out.concurrentKernels = attribute(cudaDevAttrConcurrentKernels);
  out.canMapHostMemory = attribute(cudaDevAttrCanMapHostMemory);
  out.streamPrioritiesSupported = attribute(cudaDevAttrStreamPrioritiesSupported);
}

struct ErrorText {
  cudaError_t error;
  const char* name;
  const char* text;
};
constexpr ErrorText kErrors[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInitializationError, "cudaErrorInitializationError", "initialization error"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration",
     "invalid configuration argument"},
    {cudaErrorInvalidPitchValue, "cudaErrorInvalidPitchValue", "invalid pitch argument"},
    {cudaErrorInvalidMemcpyDirection, "cudaErrorInvalidMemcpyDirection",
     "invalid copy direction for memcpy"},
    {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
     "CUDA driver version is insufficient for CUDA runtime version"},
    {cudaErrorInvalidDeviceFunction, "cudaErrorInvalidDeviceFunction", "invalid device function"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorECCUncorrectable, "cudaErrorECCUncorrectable", "uncorrectable ECC error encountered"},
    {cudaErrorInvalidPtx, "cudaErrorInvalidPtx", "a PTX JIT compilation failed"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress",
     "an illegal memory access was encountered"},
    {cudaErrorLaunchOutOfResources, "cudaErrorLaunchOutOfResources",
     "too many resources requested for launch"},
    {cudaErrorLaunchTimeout, "cudaErrorLaunchTimeout", "the launch timed out and was terminated"},
    {cudaErrorPeerAccessAlreadyEnabled, "cudaErrorPeerAccessAlreadyEnabled",
     "peer access is already enabled"},
    {cudaErrorPeerAccessNotEnabled, "cudaErrorPeerAccessNotEnabled",
     "peer access has not been enabled"},
    {cudaErrorAssert, "cudaErrorAssert", "device-side assert triggered"},
    {cudaErrorMisalignedAddress, "cudaErrorMisalignedAddress", "misaligned address"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {cudaErrorNotPermitted, "cudaErrorNotPermitted", "operation not permitted"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
    {cudaErrorUnknown, "cudaErrorUnknown", "unknown error"},
};

// cuCtxGetCurrent, of the driver.
int current_context(void** context) {
  Quiet quiet;
  ThreadState& thread = this_thread();
  *context = thread.has_current ? &thread : nullptr;
  return 0;
}

const ErrorText* find_error(cudaError_t error) {
  auto it = std::find_if(std::begin(kErrors), std::end(kErrors),
                         [&](const ErrorText& e) { return e.error == error; });
  return it == std::end(kErrors) ? nullptr : it;
}

}  // namespace

extern "C" {

cudaError_t CUDARTAPI cudaGetDeviceCount(int* count) {
  return api(
      __func__,
      [&](State& s, Lock&) {
        *count = static_cast<int>(s.devices.size());
        return s.devices.empty() ? cudaErrorNoDevice : cudaSuccess;
      },
      Survives::lost_device);
}

cudaError_t CUDARTAPI cudaSetDevice(int device) {
  return api(
      __func__,
      [&](State& s, Lock&) {
        if (!exists(s, device)) return cudaErrorInvalidDevice;
        this_thread().device = device;
        need_context(s);
        return cudaSuccess;
      },
      Survives::lost_device);
}

cudaError_t CUDARTAPI cudaGetDevice(int* device) {
  return api(
      __func__,
      [&](State&, Lock&) {
        *device = this_thread().device;
        return cudaSuccess;
      },
      Survives::lost_device);
}

cudaError_t CUDARTAPI cudaGetDeviceProperties(cudaDeviceProp* out, int device) {
  return api(
      __func__,
      [&](State& s, Lock&) {
        if (!exists(s, device)) return cudaErrorInvalidDevice;
        describe_device(s, device, *out);
        return cudaSuccess;
      },
      Survives::nothing, Context::not_needed);
}

cudaError_t CUDARTAPI cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int device) {
  return api(
      __func__,
      [&](State& s, Lock&) {
        if (!exists(s, device)) return cudaErrorInvalidDevice;
        bool known;
        const int answer = attribute(which, known);
        if (!known) {
          violation(s, "cudaDeviceGetAttribute: the simulator does not know attribute " +
                           std::to_string(which));
          return cudaErrorInvalidValue;
        }
        *value = answer;
        return cudaSuccess;
      },
      Survives::nothing, Context::not_needed);
}

cudaError_t CUDARTAPI cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return api(__func__, [&](State&, Lock&) {
    if (least) *least = 0;
    if (greatest) *greatest = kGreatestPriority;
    return cudaSuccess;
  });
}

cudaError_t CUDARTAPI cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  return api(
      __func__,
      [&](State& s, Lock&) {
        if (!exists(s, device) || !exists(s, peer)) return cudaErrorInvalidDevice;
        *can = can_reach(s, device, peer);
        return cudaSuccess;
      },
      Survives::nothing, Context::not_needed);
}

cudaError_t CUDARTAPI cudaDeviceEnablePeerAccess(int peer, unsigned int flags) {
  return api(__func__, [&](State& s, Lock&) {
    const int device = this_thread().device;
    if (flags != 0) return cudaErrorInvalidValue;
    if (!exists(s, peer) || !can_reach(s, device, peer)) return cudaErrorInvalidDevice;
    if (s.devices[device].reaches[peer]) return cudaErrorPeerAccessAlreadyEnabled;
    s.devices[device].reaches[peer] = true;
    memory_changed(s);
    return cudaSuccess;
  });
}

cudaError_t CUDARTAPI cudaDeviceDisablePeerAccess(int peer) {
  return api(__func__, [&](State& s, Lock&) {
    Device& device = s.devices[this_thread().device];
    if (!exists(s, peer)) return cudaErrorInvalidDevice;
    if (!device.reaches[peer]) return cudaErrorPeerAccessNotEnabled;
    device.reaches[peer] = false;
    memory_changed(s);
    return cudaSuccess;
  });
}

cudaError_t CUDARTAPI cudaRuntimeGetVersion(int* version) {
  return api(
      __func__,
      [&](State&, Lock&) {
        *version = CUDART_VERSION;
        return cudaSuccess;
      },
      Survives::lost_device);
}

cudaError_t CUDARTAPI cudaDriverGetVersion(int* version) {
  return api(
      __func__,
      [&](State&, Lock&) {
        *version = CUDART_VERSION;
        return cudaSuccess;
      },
      Survives::lost_device);
}

// The one function of the driver that is simulated.
cudaError_t CUDARTAPI cudaGetDriverEntryPointByVersion(const char* symbol, void** function,
                                                       unsigned int, unsigned long long,
                                                       cudaDriverEntryPointQueryResult* result) {
  return api(
      __func__,
      [&](State&, Lock&) {
        if (!symbol || !function) return cudaErrorInvalidValue;
        const bool known = std::strcmp(symbol, "cuCtxGetCurrent") == 0;
        *function = known ? reinterpret_cast<void*>(current_context) : nullptr;
        if (result)
          *result = known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
        return cudaSuccess;
      },
      Survives::lost_device);
}

// A sticky error is not cleared by being asked for.
cudaError_t CUDARTAPI cudaGetLastError(void) {
  Quiet quiet;
  State& s = state();
  Lock lock(s.mutex);
  ThreadState& thread = this_thread();
  const cudaError_t lost = s.devices[thread.device].lost, last = thread.last_error;
  thread.last_error = cudaSuccess;
  return lost != cudaSuccess ? lost : last;
}

cudaError_t CUDARTAPI cudaPeekAtLastError(void) {
  Quiet quiet;
  State& s = state();
  Lock lock(s.mutex);
  const cudaError_t lost = s.devices[this_thread().device].lost;
  return lost != cudaSuccess ? lost : this_thread().last_error;
}

const char* CUDARTAPI cudaGetErrorName(cudaError_t error) {
  const ErrorText* found = find_error(error);
  return found ? found->name : "unrecognized error code";
}

const char* CUDARTAPI cudaGetErrorString(cudaError_t error) {
  const ErrorText* found = find_error(error);
  return found ? found->text : "unrecognized error code";
}

}  // extern "C"
