#include <tandem/core/error.h>
#include <tandem/io/checkpoint.h>

namespace tandem::io {

void save(nn::Module& module, const std::string& path, const Metadata& metadata) {
  save(module.state_dict(), path, metadata);
}

void save(const nn::StateDict& state, const std::string& path, const Metadata& metadata) {
  write_safetensors(path, state, metadata);
}

nn::LoadReport load(nn::Module& module, const std::string& path, const nn::LoadOptions& options) {
  // Onto the host: the module's own device may have no room for its weights twice.
  const nn::StateDict state = load_state_dict(path, cpu(0));
  try {
    return module.load_state_dict(state, options);
  } catch (const UsageError& e) {
    throw UsageError(str("[load] '", path, "' is for another module. ", e.what()));
  }
}

nn::StateDict load_state_dict(const std::string& path, std::optional<Device> device) {
  return read_safetensors(path, device).tensors;
}

Metadata load_metadata(const std::string& path) {
  return read_safetensors_metadata(path);
}

}  // namespace tandem::io
