#include <tandem/core/stream.h>

#include <tandem/core/backend.h>
#include <tandem/core/error.h>

namespace tandem {

StreamGuard::StreamGuard(Device device, void* stream)
    : state_{device, stream, thread_state().streams} {
  check(stream != nullptr, "[StreamGuard] no stream for ", device);
  backend(device).lend_to({device, stream});
  thread_state().streams = &state_;
}

StreamGuard::~StreamGuard() {
  thread_state().streams = state_.outer;
  existing_backend(state_.device).take_back_from({state_.device, state_.handle});
}

SideStreams::SideStreams(std::span<const Device> devices)
    : before_(thread_state().streams), states_(devices.size()) {
  const StreamState* outer = before_;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    states_[i] = {devices[i], backend(devices[i]).side_stream().handle, outer};
    outer = &states_[i];
  }
  thread_state().streams = outer;
}

SideStreams::~SideStreams() {
  thread_state().streams = before_;
}

void* guarded_stream(Device device) {
  const StreamState* s = thread_state().streams;
  while (s != nullptr && s->device != device) s = s->outer;
  return s ? s->handle : nullptr;
}

}  // namespace tandem
