// Questions about kernels: attributes and occupancy.
#include "runtime/kernel_launch.h"
#include "seam/registry.h"

#include <algorithm>

using namespace cudasim;
using namespace cudasim::seam;

namespace {

constexpr int kThreadsPerBlock = 1024, kThreadsPerProcessor = 2048, kBlocksPerProcessor = 32;
constexpr std::size_t kSharedPerProcessor = 228 << 10, kSharedReserved = 1 << 10;
constexpr int kRegisters = 32;  // ptxas knows the true number, the simulator does not run it

cudaError_t occupancy(int* blocks, const void* stub, int block_size, std::size_t dynamic_shared) {
  Function* function = find_function(stub);
  if (!function) return cudaErrorInvalidDeviceFunction;
  if (!blocks || block_size <= 0) return cudaErrorInvalidValue;
  const std::size_t shared =
      kernel_of(*function).static_shared_bytes() + dynamic_shared + kSharedReserved;
  const int by_shared = static_cast<int>(kSharedPerProcessor / shared);
  *blocks = block_size > kThreadsPerBlock
                ? 0
                : std::min({kThreadsPerProcessor / block_size, kBlocksPerProcessor, by_shared});
  return cudaSuccess;
}

}  // namespace

extern "C" {

cudaError_t CUDARTAPI cudaFuncGetAttributes(cudaFuncAttributes* out, const void* stub) {
  return api_call(__func__, [&] {
    Function* function = find_function(stub);
    if (!function) return cudaErrorInvalidDeviceFunction;
    *out = {};
    out->sharedSizeBytes = kernel_of(*function).static_shared_bytes();
    out->maxThreadsPerBlock = kThreadsPerBlock;
    out->numRegs = kRegisters;
    out->ptxVersion = out->binaryVersion = 90;
    out->maxDynamicSharedSizeBytes = static_cast<int>(dynamic_shared_limit(*function));
    return cudaSuccess;
  });
}

cudaError_t CUDARTAPI cudaFuncSetAttribute(const void* stub, cudaFuncAttribute which, int value) {
  return api_call(__func__, [&] {
    Function* function = find_function(stub);
    if (!function) return cudaErrorInvalidDeviceFunction;
    if (which == cudaFuncAttributePreferredSharedMemoryCarveout) return cudaSuccess;  // a hint
    const std::size_t fixed = kernel_of(*function).static_shared_bytes();
    const bool possible = which == cudaFuncAttributeMaxDynamicSharedMemorySize && value >= 0 &&
                          fixed + static_cast<std::size_t>(value) <= kMostShared;
    if (!possible) return cudaErrorInvalidValue;
    function->opted_in_shared = static_cast<std::size_t>(value);
    return cudaSuccess;
  });
}

cudaError_t CUDARTAPI cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* stub,
                                                                    int block_size,
                                                                    size_t dynamic_shared) {
  return api_call(__func__, [&] { return occupancy(blocks, stub, block_size, dynamic_shared); });
}

cudaError_t CUDARTAPI cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int* blocks, const void* stub, int block_size, size_t dynamic_shared, unsigned int flags) {
  return api_call(__func__, [&] {
    if (flags > cudaOccupancyDisableCachingOverride) return cudaErrorInvalidValue;
    return occupancy(blocks, stub, block_size, dynamic_shared);
  });
}

}  // extern "C"
