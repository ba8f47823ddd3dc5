// save and load: a module's weights in a safetensors file. See docs/checkpoints.md.
//
//   tandem::save(net, "net.safetensors");
//   tandem::load(net, "net.safetensors");      // into a module of the same make
//
// A DataParallel net is saved by its module, save(net.module(), path), and so its names are those
// of one device.
#pragma once

#include <optional>
#include <string>

#include <tandem/core/device.h>
#include <tandem/io/safetensors.h>
#include <tandem/nn/module.h>

namespace tandem::io {

/// Writes module.state_dict(): parameters and buffers, on whatever device they are. The file is
/// there whole or not at all, and an older one survives whatever goes wrong. A tied weight is
/// written under each of its names.
void save(nn::Module& module, const std::string& path, const Metadata& metadata = {});
void save(const nn::StateDict& state, const std::string& path, const Metadata& metadata = {});

/// Copies the file's values into the module's tensors, which keep device, dtype and ties; a leading
/// "module." of all names is accepted. Nothing changes unless all of it fits: one UsageError lists
/// missing, unexpected and mismatched names. Not strict: missing and unexpected ones are reported.
nn::LoadReport load(nn::Module& module, const std::string& path,
                    const nn::LoadOptions& options = {});

/// The tensors alone, on the thread's default device or another.
nn::StateDict load_state_dict(const std::string& path, std::optional<Device> device = {});
/// What save() was given beside the tensors.
Metadata load_metadata(const std::string& path);

}  // namespace tandem::io

namespace tandem {
using io::load;
using io::save;
}  // namespace tandem
