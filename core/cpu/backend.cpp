#include <tandem/core/cpu/backend.h>

#include <cstdlib>
#include <cstring>
#include <new>

#if defined(__SANITIZE_ADDRESS__)
#define TANDEM_ASAN true
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TANDEM_ASAN true
#endif
#endif
#ifndef TANDEM_ASAN
#define TANDEM_ASAN false
#endif

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

bool CpuBackend::watched() const noexcept {
  return TANDEM_ASAN;
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
