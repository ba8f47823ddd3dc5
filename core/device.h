// Device: a value that names a logical device, and the registry behind it.
//
// A *logical* device has its own memory pool, limit, statistics and queues. Several may share one
// physical device, so a laptop runs the very code path of eight GPUs: `cpu(3)` just works, arrays
// never move between devices by accident, every copy is explicit and counted (trace.h).
// Next: memory.h (the pool), backend.h (what a device can do).
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

enum class DeviceKind : std::uint8_t { cpu, cuda };

const char* name(DeviceKind kind);

struct Device {
  DeviceKind kind = DeviceKind::cpu;
  int index = 0;  // the logical index

  auto operator<=>(const Device&) const = default;

  std::string str() const;  // "cpu:2", "cuda:0"
  /// Reads "cpu:2", "cuda:0"; "cpu" and "cuda" mean index 0. Throws UsageError otherwise.
  static Device parse(std::string_view text);
};

std::ostream& operator<<(std::ostream& out, Device device);

/// `cpu` and `cuda` name a kind and make its devices: cpu(2), device_count(cpu).
struct DeviceFamily {
  DeviceKind kind;
  constexpr Device operator()(int index = 0) const { return {kind, index}; }
  constexpr operator DeviceKind() const { return kind; }
};
inline constexpr DeviceFamily cpu{DeviceKind::cpu};
inline constexpr DeviceFamily cuda{DeviceKind::cuda};

inline constexpr int kMaxDevices = 64;  // of each kind

/// Logical devices of a kind that a program should use by default. CPU: the hardware threads, or
/// TANDEM_CPU_DEVICES, or configure_devices(); any index below kMaxDevices works all the same.
/// CUDA: GPUs times logical devices per GPU; 0 without a driver or without tandem::cuda.
int device_count(DeviceKind kind);

/// cpu(0), cpu(1), ... up to device_count(kind).
std::vector<Device> all_devices(DeviceKind kind);

/// Why device_count(cuda) is 0: "not linked with tandem::cuda", "no driver: ..."; else empty.
std::string cuda_unavailable_reason();

struct DeviceOptions {
  std::optional<int> cpu_count{};             // what device_count(cpu) reports
  int cuda_per_gpu = 0;                       // logical devices per GPU; 0: environment, or 1
  std::optional<std::size_t> memory_limit{};  // bytes of each logical device; none: no limit
};

/// Call before the first use of any device, else UsageError.
void configure_devices(const DeviceOptions& options);

/// Waits for all devices and returns their cached memory. For leak tests at the end of a program;
/// devices keep working.
void shutdown_devices();

/// "cpu:0,cpu:1" or "cuda:0" to a list of devices; "3" means the first three of `kind`, "cuda" all
/// CUDA devices. Throws UsageError for anything else, for duplicates and for devices that do not
/// exist.
std::vector<Device> parse_devices(std::string_view text, DeviceKind kind = DeviceKind::cpu);

}  // namespace tandem

template <>
struct std::hash<tandem::Device> {
  std::size_t operator()(tandem::Device d) const noexcept {
    return std::size_t(d.kind) * std::size_t(tandem::kMaxDevices) + std::size_t(d.index);
  }
};
