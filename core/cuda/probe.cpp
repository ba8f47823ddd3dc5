#include <tandem/core/cuda/probe.h>

#include <algorithm>

#include <tandem/core/cuda/backend.h>
#include <tandem/core/cuda/check.h>
#include <tandem/core/cuda/pinned.h>

namespace tandem {
namespace gpu {
namespace {

// cudaGetDeviceCount does not write its result when it fails.
Probe ask() {
  int gpus = 0;
  const cudaError_t status = cudaGetDeviceCount(&gpus);
  if (status == cudaSuccess && gpus > 0) return {gpus, ""};
  (void)cudaGetLastError();  // or the first launch would report it
  const std::string words = str(cudaGetErrorString(status), " (", int(status), ")");
  switch (status) {
    case cudaSuccess:
    case cudaErrorNoDevice:
      return {0, "no GPU: " + words};
    case cudaErrorInsufficientDriver:  // older than the runtime, or none at all
    case cudaErrorStubLibrary:
      return {0, "no driver: " + words};
    default:
      return {0, "CUDA does not start: " + words};
  }
}

}  // namespace

const Probe& probe() {
  static const Probe found = ask();
  return found;
}

int device_count() {
  return std::min(probe().gpus * device_options().cuda_per_gpu, kMaxDevices);
}

std::unique_ptr<Backend> make_backend(Device device, std::int64_t memory_limit) {
  const int gpu = device.index % probe().gpus;
  auto made = std::make_unique<CudaBackend>(device, gpu, memory_limit);
  Pinned::all().ask_by(device, gpu);
  return made;
}

}  // namespace gpu

void register_cuda_backend() {
  register_backend(DeviceKind::cuda,
                   {gpu::device_count, [] { return gpu::probe().why_none; }, gpu::make_backend,
                    [](std::int64_t bytes) { return gpu::Pinned::all().take(bytes); }});
}

}  // namespace tandem
