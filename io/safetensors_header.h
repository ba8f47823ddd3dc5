// The header of a safetensors file: the JSON text that names the tensors.
//
// Here only its form is checked, and nothing is believed: whether types, shapes and offsets make
// sense is for safetensors_read.cpp to say. Next: safetensors.h.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <tandem/core/dtype.h>

namespace tandem::io {

/// What a file says about itself: any strings.
using Metadata = std::map<std::string, std::string>;

/// One tensor as the header describes it.
struct HeaderEntry {
  std::string name;
  std::string dtype{};
  std::vector<std::uint64_t> shape{};
  std::uint64_t begin = 0, end = 0;  // bytes, counted from the end of the header
};

struct Header {
  std::vector<HeaderEntry> entries{};
  Metadata metadata{};
};

/// A header of more bytes is refused, as by Python's safetensors.
inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;

/// Our types under their names in the format, from narrow to wide. Files have them from last to
/// first, as those of Python's safetensors.
struct HeaderType {
  const char* name;
  DType dtype;
};
inline constexpr HeaderType kHeaderTypes[] = {
    {"BOOL", boolean}, {"U8", uint8},    {"F16", float16}, {"BF16", bfloat16},
    {"I32", int32},    {"F32", float32}, {"F64", float64}, {"I64", int64},
};

/// Reads the JSON text. Throws UsageError that begins with `where`: no JSON, a field that is
/// missing, unknown, given twice or of another type, a name given twice, more than kMaxDims sizes.
/// Throws UsageError, too, if Tandem was built without nlohmann-json.
Header parse_header(std::string_view json, const std::string& where);

/// `text` for a message: in quotes, and cut if it is long.
std::string in_quotes(std::string_view text);

}  // namespace tandem::io
