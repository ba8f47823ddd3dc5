#include <tandem/core/device.h>
#include <tandem/core/environment.h>

#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <memory>
#include <mutex>
#include <ostream>
#include <set>
#include <thread>

#include <tandem/core/backend.h>
#include <tandem/core/cpu/backend.h>
#include <tandem/core/error.h>

namespace tandem {
namespace {

// The registry of devices. Never destroyed, so static tensors may die late.
struct Registry {
  std::mutex mutex;
  std::mutex options_mutex;  // may be taken while `mutex` is held
  DeviceOptions options;
  std::atomic<bool> in_use{false};  // options are fixed
  std::atomic<bool> forked{false};  // this is a child of the process that used devices
  std::array<BackendFactory, 2> factories;
  std::array<std::atomic<Backend*>, 2 * kMaxDevices> backends{};
};

int cpu_count();

Registry& registry() {
  static Registry* r = [] {
    auto* made = new Registry;
    made->factories[std::size_t(DeviceKind::cpu)] = {cpu_count, nullptr, make_cpu_backend};
    return made;
  }();
  return *r;
}

// Called when devices, or the driver behind them, are used; that a backend is linked is no use yet.
void watch_forks() {
  static const int status = pthread_atfork(nullptr, nullptr, [] { registry().forked.store(true); });
  (void)status;
}

DeviceOptions options() {
  Registry& r = registry();
  const std::lock_guard lock(r.options_mutex);
  return r.options;
}

int cpu_count() {
  if (const auto n = options().cpu_count) return *n;
  if (auto n = number_in_environment("device", "TANDEM_CPU_DEVICES", kMaxDevices)) return *n;
  return std::clamp(int(std::thread::hardware_concurrency()), 1, kMaxDevices);
}

Backend& make_backend(Device d) {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  std::atomic<Backend*>& slot = r.backends[std::hash<Device>{}(d)];
  if (Backend* b = slot.load(std::memory_order_acquire)) return *b;
  const BackendFactory& factory = r.factories[std::size_t(d.kind)];
  if (d.kind == DeviceKind::cuda) {
    const int n = device_count(cuda);
    check<DeviceError>(n > 0, "[device] ", d, " does not exist: ",
                       factory.why_unavailable ? factory.why_unavailable()
                                               : std::string("not linked with tandem::cuda"));
    check<DeviceError>(d.index < n, "[device] ", d, " does not exist: there are ", n,
                       " CUDA devices. TANDEM_CUDA_DEVICES_PER_GPU adds logical ones");
  }
  r.in_use.store(true);
  watch_forks();
  Backend* made = factory.make(d, std::int64_t(options().memory_limit.value_or(0))).release();
  slot.store(made, std::memory_order_release);
  return *made;
}

}  // namespace

const char* name(DeviceKind kind) {
  return kind == DeviceKind::cpu ? "cpu" : "cuda";
}

std::string Device::str() const {
  return std::string(name(kind)) + ":" + std::to_string(index);
}

std::ostream& operator<<(std::ostream& out, Device device) {
  return out << device.str();
}

Device Device::parse(std::string_view text) {
  const std::size_t colon = text.find(':');
  const std::string_view kind = text.substr(0, colon);
  const std::string hint =
      tandem::str("[device] cannot read '", text, "'. Expected cpu, cpu:2 or cuda:0");
  check(kind == "cpu" || kind == "cuda", hint);
  Device d{kind == "cpu" ? DeviceKind::cpu : DeviceKind::cuda, 0};
  if (colon == std::string_view::npos) return d;
  const std::string_view digits = text.substr(colon + 1);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), d.index);
  check(error == std::errc() && end == digits.data() + digits.size() && d.index >= 0, hint);
  check(d.index < kMaxDevices, "[device] '", text, "': the largest index is ", kMaxDevices - 1);
  return d;
}

int device_count(DeviceKind kind) {
  watch_forks();
  const BackendFactory& factory = registry().factories[std::size_t(kind)];
  return factory.count ? factory.count() : 0;
}

std::vector<Device> all_devices(DeviceKind kind) {
  std::vector<Device> devices;
  for (int i = 0; i < device_count(kind); ++i) devices.push_back({kind, i});
  return devices;
}

std::string cuda_unavailable_reason() {
  const BackendFactory& factory = registry().factories[std::size_t(DeviceKind::cuda)];
  if (!factory.count) return "not linked with tandem::cuda";
  if (device_count(cuda) > 0) return "";
  return factory.why_unavailable();
}

void configure_devices(const DeviceOptions& options) {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  check(!r.in_use.load(),
        "[configure_devices] devices are in use already. Call it first in main()");
  check(!options.cpu_count || (*options.cpu_count >= 1 && *options.cpu_count <= kMaxDevices),
        "[configure_devices] cpu_count is ", options.cpu_count.value_or(0), ". Expected 1 to ",
        kMaxDevices);
  check(options.cuda_per_gpu >= 0 && options.cuda_per_gpu <= kMaxDevices,
        "[configure_devices] cuda_per_gpu is ", options.cuda_per_gpu, ". Expected 0 to ",
        kMaxDevices);
  const std::lock_guard options_lock(r.options_mutex);
  r.options = options;
}

DeviceOptions device_options() {
  DeviceOptions asked = options();
  if (asked.cuda_per_gpu == 0) {
    asked.cuda_per_gpu =
        number_in_environment("device", "TANDEM_CUDA_DEVICES_PER_GPU", kMaxDevices).value_or(1);
  }
  return asked;
}

void register_backend(DeviceKind kind, const BackendFactory& factory) {
  registry().factories[std::size_t(kind)] = factory;
}

std::shared_ptr<std::byte> pinned_memory(std::int64_t bytes) {
  if (device_count(DeviceKind::cuda) == 0) return nullptr;
  return registry().factories[std::size_t(DeviceKind::cuda)].pin(bytes);
}

Backend& backend(Device d) {
  const bool named = d.index >= 0 && d.index < kMaxDevices;
  check<DeviceError>(named, "[device] ", d, " does not exist: indices go from 0 to ",
                     kMaxDevices - 1);
  Registry& r = registry();
  check(!r.forked.load(std::memory_order_relaxed),
        "[device] Tandem was used before fork(): its locks and threads do not survive that. Use it "
        "in the child only, or use threads");
  Backend* b = r.backends[std::hash<Device>{}(d)].load(std::memory_order_acquire);
  return b ? *b : make_backend(d);
}

Backend& existing_backend(Device d) noexcept {
  return *find_backend(d);
}

Backend* find_backend(Device d) noexcept {
  return registry().backends[std::hash<Device>{}(d)].load(std::memory_order_acquire);
}

void shutdown_devices() {
  for (auto& slot : registry().backends) {
    if (Backend* b = slot.load(std::memory_order_acquire)) {
      b->synchronize();
      b->pool().empty_cache();
    }
  }
}

std::vector<Device> parse_devices(std::string_view text, DeviceKind kind) {
  std::vector<Device> devices;
  int count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error == std::errc() && end == text.data() + text.size()) {
    check(count >= 1 && count <= kMaxDevices, "[device] ", text, " devices. Expected 1 to ",
          kMaxDevices);
    for (int i = 0; i < count; ++i) devices.push_back({kind, i});
  } else if (text == "cuda") {
    devices = all_devices(DeviceKind::cuda);
    check(!devices.empty(), "[device] no CUDA device: ", cuda_unavailable_reason());
  } else {
    for (std::size_t at = 0; at <= text.size();) {
      const std::size_t comma = std::min(text.find(',', at), text.size());
      devices.push_back(Device::parse(text.substr(at, comma - at)));
      at = comma + 1;
    }
  }
  std::set<Device> seen;
  for (Device d : devices) {
    check(seen.insert(d).second, "[device] ", d, " is named twice");
    const bool exists = d.kind == DeviceKind::cpu || d.index < device_count(d.kind);
    check(exists, "[device] ", d, " does not exist: ",
          device_count(d.kind) > 0 ? tandem::str("there are ", device_count(d.kind))
                                   : cuda_unavailable_reason());
  }
  return devices;
}

}  // namespace tandem
