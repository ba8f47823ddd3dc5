#include <tandem/core/error.h>

#include <cstdio>
#include <mutex>
#include <set>
#include <utility>

namespace tandem {
namespace {

struct Warnings {
  std::mutex mutex;
  std::set<std::string> seen;
  WarningHandler handler = [](const std::string& message) {
    std::fprintf(stderr, "tandem: %s\n", message.c_str());
  };
};

Warnings& warnings() {
  static Warnings* w = new Warnings;  // never destroyed: late static objects may still warn
  return *w;
}

}  // namespace

WarningHandler set_warning_handler(WarningHandler handler) {
  Warnings& w = warnings();
  const std::lock_guard lock(w.mutex);
  return std::exchange(w.handler, std::move(handler));
}

void warn_once(const std::string& message) {
  Warnings& w = warnings();
  WarningHandler handler;
  {
    const std::lock_guard lock(w.mutex);
    if (!w.seen.insert(message).second) return;
    handler = w.handler;
  }
  if (handler) handler(message);  // outside the lock: a handler may warn itself
}

}  // namespace tandem
