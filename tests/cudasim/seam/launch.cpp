// The functions that nvcc's host code calls for  kernel<<<grid, block, shared, stream>>>(...).
// CUDA 12 launches through cudaLaunchKernel, CUDA 13 through __cudaGetKernel and
// __cudaLaunchKernel; both are here. A launch copies the arguments at once, as CUDA does, and
// queues an operation that interprets the kernel's PTX.
#include "runtime/edges.h"
#include "runtime/kernel_launch.h"
#include "seam/registry.h"

#include <cxxabi.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace cudasim::seam {
namespace {

// The interpreter's view of the memory that a launch may touch.
class LaunchMemory : public ptx::Memory {
 public:
  explicit LaunchMemory(const KernelMemory& memory) : memory_(memory) {}

  const ptx::Region* find(std::uint64_t address, std::size_t size, std::string& reason) override {
    const KernelMemory::Range* r = memory_.find(address, size, reason);
    if (!r) return nullptr;
    const ptx::Region region{
        .address = r->begin, .size = r->size, .bytes = r->bytes, .initialised = r->written};
    return &regions_.try_emplace(r, region).first->second;
  }
  bool listens() const override { return under_thread_sanitizer(); }
  void note_read(std::uint64_t address, std::size_t size) override {
    cudasim::note_read(reinterpret_cast<const void*>(address), size);
  }
  void note_write(std::uint64_t address, std::size_t size) override {
    cudasim::note_write(reinterpret_cast<void*>(address), size);
  }

 private:
  const KernelMemory& memory_;
  std::map<const KernelMemory::Range*, ptx::Region> regions_;  // those that the kernel uses
};

// What a real device makes of it. Races and uninitialised reads go unnoticed there.
cudaError_t error_of(const ptx::Finding& finding) {
  if (!finding.fatal()) return cudaSuccess;
  if (finding.check == ptx::Check::OutOfBounds) return cudaErrorIllegalAddress;
  if (finding.check == ptx::Check::Misaligned) return cudaErrorMisalignedAddress;
  return cudaErrorLaunchFailure;
}

std::string readable(const std::string& mangled) {
  int status = 0;
  char* text = abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status);
  std::string name = status == 0 ? text : mangled;
  std::free(text);
  return name;
}

KernelOutcome interpret(const ptx::Kernel& kernel, const ptx::Launch& launch,
                        const KernelMemory& memory) {
  KernelOutcome outcome;
  LaunchMemory view(memory);
  for (ptx::Finding& finding : ptx::run(kernel, launch, view, &outcome.instructions)) {
    finding.kernel = readable(finding.kernel);
    outcome.objections.push_back(ptx::to_string(finding));
    if (outcome.error == cudaSuccess) outcome.error = error_of(finding);
  }
  return outcome;
}

std::vector<std::byte> copy_arguments(const ptx::Kernel& kernel, void** arguments) {
  std::vector<std::byte> bytes(kernel.parameter_bytes());
  std::size_t i = 0;
  for (const ptx::Parameter& p : kernel.parameters())
    std::memcpy(bytes.data() + p.offset, arguments[i++], p.size);
  return bytes;
}

cudaError_t launch(const void* stub, dim3 grid, dim3 block, void** arguments, std::size_t shared,
                   cudaStream_t stream) {
  Function* function = find_function(stub);
  if (!function) return cudaErrorInvalidDeviceFunction;
  const ptx::Kernel kernel = kernel_of(*function);
  auto bytes = copy_arguments(kernel, arguments);
  const LaunchShape shape{grid, block, shared, dynamic_shared_limit(*function)};
  auto run = [=, bytes = std::move(bytes)](const KernelMemory& memory) {
    const ptx::Launch l{.grid = {grid.x, grid.y, grid.z},
                        .block = {block.x, block.y, block.z},
                        .dynamic_shared = shared,
                        .parameters = bytes};
    return interpret(kernel, l, memory);
  };
  return launch_kernel(kernel.name(), shape, stream, std::move(run));
}

// <<<...>>> pushes its configuration; the stub that it calls pops it.
struct Configuration {
  dim3 grid, block;
  std::size_t shared;
  cudaStream_t stream;
};
thread_local std::vector<Configuration> configurations;

}  // namespace
}  // namespace cudasim::seam

using namespace cudasim::seam;

extern "C" {

void** CUDARTAPI __cudaRegisterFatBinary(void* wrapper) {
  return reinterpret_cast<void**>(add_binary(wrapper));
}
void CUDARTAPI __cudaRegisterFatBinaryEnd(void**) {}
void CUDARTAPI __cudaUnregisterFatBinary(void**) {}
char CUDARTAPI __cudaInitModule(void**) {
  return 1;
}

void CUDARTAPI __cudaRegisterFunction(void** binary, const char* stub, char*, const char* name, int,
                                      uint3*, uint3*, dim3*, dim3*, int*) {
  add_function(reinterpret_cast<Binary*>(binary), stub, name);
}

unsigned CUDARTAPI __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared,
                                               CUstream_st* stream) {
  configurations.push_back({grid, block, shared, stream});
  return 0;
}

cudaError_t CUDARTAPI __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared,
                                                 void* stream) {
  if (configurations.empty()) return cudaErrorMissingConfiguration;
  const Configuration c = configurations.back();
  configurations.pop_back();
  *grid = c.grid;
  *block = c.block;
  *shared = c.shared;
  *static_cast<cudaStream_t*>(stream) = c.stream;
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaLaunchKernel(const void* stub, dim3 grid, dim3 block, void** arguments,
                                       size_t shared, cudaStream_t stream) {
  return launch(stub, grid, block, arguments, shared, stream);
}

#if CUDART_VERSION >= 12000
cudaError_t CUDARTAPI __cudaGetKernel(cudaKernel_t* kernel, const void* stub) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(stub));
  return cudaSuccess;
}

cudaError_t CUDARTAPI __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block,
                                         void** arguments, size_t shared, cudaStream_t stream) {
  return launch(reinterpret_cast<const void*>(kernel), grid, block, arguments, shared, stream);
}
#endif

}  // extern "C"
