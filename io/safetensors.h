// The safetensors format: named tensors in a file that Python's safetensors reads and writes too.
//
//   8 bytes   N, little-endian
//   N bytes   JSON: {"__metadata__": {...}, "fc1.weight": {"dtype": "F32", "shape": [4, 3],
//             "data_offsets": [0, 48]}, ...}, padded with blanks
//   the rest  the tensors, row-major and little-endian, one after the other
//
// A file may come from anywhere, so reading checks everything before it allocates: a bad file is a
// UsageError "[safetensors] model.safetensors: what is wrong". Next: checkpoint.h (modules).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <tandem/core/device.h>
#include <tandem/io/safetensors_header.h>
#include <tandem/nn/module.h>

namespace tandem::io {

struct TensorFile {
  nn::StateDict tensors{};
  Metadata metadata{};
};

/// Reads all tensors, onto the thread's default device or another. Throws UsageError if the file
/// cannot be read or breaks a rule of the format, or holds a type that Tandem has not.
TensorFile read_safetensors(const std::string& path, std::optional<Device> device = {});
/// The same from memory; `name` is for messages.
TensorFile parse_safetensors(std::string_view bytes, const std::string& name,
                             std::optional<Device> device = {});
/// The metadata alone, without reading the tensors; the whole header is checked all the same.
Metadata read_safetensors_metadata(const std::string& path);

/// Writes a file that is there whole or not at all; see atomic_file.h. Tensors may be on any device
/// and in any layout; the widest types come first, then names in order: the same state gives the
/// same bytes. A tensor under two names is written twice, since the format has no sharing.
/// Throws UsageError for an undefined tensor, a name or metadata that is not UTF-8, or a path that
/// cannot be written; Error if writing fails.
void write_safetensors(const std::string& path, const nn::StateDict& tensors,
                       const Metadata& metadata = {});
/// The same into memory.
std::string format_safetensors(const nn::StateDict& tensors, const Metadata& metadata = {});

}  // namespace tandem::io
