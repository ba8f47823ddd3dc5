#include <tandem/core/numerics.h>

#include <atomic>
#include <cstdlib>
#include <string_view>

#include <tandem/core/error.h>

namespace tandem {
namespace {

// Unless it is 0.
bool wanted_by_environment(const char* variable) {
  const char* text = std::getenv(variable);
  const std::string_view value = text ? text : "";
  check(value.empty() || value == "0" || value == "1", "[numerics] ", variable, "=", value,
        " is neither 0 nor 1");
  return value != "0";
}

std::atomic<bool>& onednn_switch() {
  static std::atomic<bool> on{onednn_available() && wanted_by_environment("TANDEM_ONEDNN")};
  return on;
}

std::atomic<bool>& winograd_switch() {
  static std::atomic<bool> allowed{wanted_by_environment("TANDEM_WINOGRAD")};
  return allowed;
}

std::atomic<bool> tf32{false};

}  // namespace

bool onednn_available() {
#ifdef TANDEM_ONEDNN
  return true;
#else
  return false;
#endif
}

bool onednn() {
  return onednn_switch().load(std::memory_order_relaxed);
}

void set_onednn(bool on) {
  check(!on || onednn_available(),
        "[set_onednn] this build has no oneDNN. Install libdnnl-dev and configure it again");
  onednn_switch().store(on, std::memory_order_relaxed);
}

bool allow_winograd() {
  return winograd_switch().load(std::memory_order_relaxed);
}

void set_allow_winograd(bool allow) {
  winograd_switch().store(allow, std::memory_order_relaxed);
}

bool allow_tf32() {
  return tf32.load(std::memory_order_relaxed);
}

void set_allow_tf32(bool allow) {
  tf32.store(allow, std::memory_order_relaxed);
}

}  // namespace tandem
