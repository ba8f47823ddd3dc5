#include <tandem/core/stream.h>

#include <utility>

#include <tandem/core/backend.h>
#include <tandem/core/error.h>

namespace tandem {

StreamGuard::StreamGuard(Device device, void* stream) {
  check(stream != nullptr, "[StreamGuard] no stream for ", device);
  backend(device).lend_to({device, stream});
  before_ = std::exchange(thread_state().stream, {device, stream});
}

StreamGuard::~StreamGuard() {
  const StreamState mine = std::exchange(thread_state().stream, before_);
  existing_backend(mine.device).take_back_from({mine.device, mine.handle});
}

}  // namespace tandem
