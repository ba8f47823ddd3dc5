#include <tandem/core/cpu/backend.h>

#include <cstdlib>
#include <cstring>
#include <new>

namespace tandem {

std::unique_ptr<Backend> make_cpu_backend(Device device, std::int64_t memory_limit) {
  return std::make_unique<CpuBackend>(device, memory_limit);
}

std::int64_t onednn_kernels(Device device) {
  check(device.kind == DeviceKind::cpu, "[onednn_kernels] ", device, " is not a CPU device");
  return static_cast<CpuBackend&>(backend(device)).onednn_primitives().kernels();
}

void* CpuBackend::raw_allocate(std::size_t bytes) {
  return ::operator new (bytes, std::align_val_t{64}, std::nothrow);
}

void CpuBackend::raw_free(void* data) noexcept {
  ::operator delete (data, std::align_val_t{64});
}

void CpuBackend::copy_from_host(void* to, const void* from, std::int64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, std::size_t(bytes));
}

void CpuBackend::copy_to_host(void* to, const void* from, std::int64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, std::size_t(bytes));
}

void CpuBackend::copy_from_device(void* to, Backend& source, const void* from, std::int64_t bytes) {
  source.copy_to_host(to, from, bytes);  // CPU devices share the host's address space
}

}  // namespace tandem
