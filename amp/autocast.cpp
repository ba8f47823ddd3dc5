#include <tandem/amp/autocast.h>

#include <algorithm>

#include <tandem/core/error.h>

namespace tandem::amp {

Autocast::Autocast(DeviceKind kind, DType dtype, const AutocastOptions& options)
    : before_(thread_state().autocast) {
  check(dtype == float16 || dtype == bfloat16, "[Autocast] the fast type is ", dtype,
        ". Expected float16 or bfloat16");
  AutocastState& state = thread_state().autocast;
  auto& fast = state.fast[std::size_t(kind)];
  fast.reset();
  if (options.enabled) fast = dtype;
  state.on =
      std::any_of(state.fast.begin(), state.fast.end(), [](auto& f) { return f.has_value(); });
  if (!options.cache) {
    state.casts = nullptr;
  } else if (state.casts == nullptr) {
    state.casts = &cache_;
  }
}

Autocast::~Autocast() {
  thread_state().autocast = before_;
}

std::optional<DType> Autocast::dtype(DeviceKind kind) {
  return thread_state().autocast.fast[std::size_t(kind)];
}

void Autocast::clear_cache() {
  if (CastCache* cache = thread_state().autocast.casts) cache->clear();
}

}  // namespace tandem::amp
