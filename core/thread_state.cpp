#include <tandem/core/thread_state.h>

#include <type_traits>

namespace tandem {

static_assert(std::is_trivially_destructible_v<ThreadState>);

ThreadState& thread_state() {
  static thread_local constinit ThreadState state;
  return state;
}

CategoryScope::CategoryScope(Category category)
    : before_(std::exchange(thread_state().category, category)) {}

CategoryScope::~CategoryScope() {
  thread_state().category = before_;
}

}  // namespace tandem
