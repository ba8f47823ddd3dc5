// How a kernel gets onto a stream: the seam (seam/launch.cpp) hands over a function that interprets
// it, and is given the memory that the kernel may touch. The runtime knows nothing about PTX.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace cudasim {

// The memory that a kernel of one device may touch, as it is when the kernel starts: that of its
// device, of the peers it reaches, and pinned host memory.
class KernelMemory {
 public:
  struct Range {
    std::uint64_t begin;
    std::size_t size;
    std::byte* bytes;       // where it really lies
    std::uint8_t* written;  // one flag per byte; null: all of it counts as written
  };

  // The range that holds all of [address, address + size), or null and the reason.
  const Range* find(std::uint64_t address, std::size_t size, std::string& reason) const;

  std::vector<Range> ranges;  // ordered, disjoint
  int device = 0;
};

struct KernelOutcome {
  std::vector<std::string> objections;
  cudaError_t error = cudaSuccess;  // what a real device reports from then on
  std::uint64_t instructions = 0;
};

struct LaunchShape {
  dim3 grid, block;
  std::size_t dynamic_shared, shared_limit;
};

// Checks the launch as CUDA does, and queues it. Returns the launch error.
cudaError_t launch_kernel(const std::string& name, const LaunchShape& shape, cudaStream_t stream,
                          std::function<KernelOutcome(const KernelMemory&)> run);

// For functions of the API that live outside the runtime: counted and made to fail like the others.
cudaError_t api_call(const char* function, const std::function<cudaError_t()>& body);

}  // namespace cudasim
