#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <tuple>
#include <vector>

#include <tandem/core/error.h>
#include <tandem/core/thread_state.h>
#include <tandem/io/safetensors.h>

namespace tandem::io {
namespace {

constexpr std::uint64_t kLengthBytes = 8;

/// A file or a piece of memory.
struct Source {
  std::string where;  // how messages begin
  std::uint64_t size = 0;
  std::function<void(std::uint64_t offset, std::uint64_t bytes, void* out)> read{};
};

struct Entry {
  std::string name;
  DType dtype;
  Shape shape;
  std::uint64_t begin, end;
};

struct Layout {
  std::vector<Entry> entries{};  // by their place in the file
  Metadata metadata{};
  std::uint64_t data = 0;  // where the tensors begin
};

std::uint64_t little_endian(const unsigned char (&bytes)[kLengthBytes]) {
  std::uint64_t value = 0;
  for (int i = 7; i >= 0; --i) value = value << 8 | bytes[i];
  return value;
}

DType dtype_of_entry(const HeaderEntry& entry, const std::string& where) {
  std::string names;
  for (const HeaderType& type : kHeaderTypes) {
    if (entry.dtype == type.name) return type.dtype;
    names += str(" ", type.name);
  }
  throw UsageError(str(where, ": tensor ", in_quotes(entry.name), " is of dtype ",
                       in_quotes(entry.dtype), ". Tandem reads", names,
                       ": convert it before saving"));
}

/// The bytes that the shape asks for. A size of 0 does not excuse the others: strides are made of
/// them.
std::uint64_t bytes_of(const HeaderEntry& entry, DType dtype, const std::string& where) {
  std::uint64_t bytes = size_of(dtype);
  bool empty = false;
  for (const std::uint64_t size : entry.shape) {
    empty = empty || size == 0;
    const std::uint64_t factor = std::max<std::uint64_t>(size, 1);
    check(bytes <= std::uint64_t(std::numeric_limits<std::int64_t>::max()) / factor, where,
          ": tensor ", in_quotes(entry.name), ": the product of its sizes overflows");
    bytes *= factor;
  }
  return empty ? 0 : bytes;
}

Entry checked(const HeaderEntry& entry, const std::string& where) {
  const DType dtype = dtype_of_entry(entry, where);
  check(entry.begin <= entry.end, where, ": tensor ", in_quotes(entry.name), " ends at byte ",
        entry.end, ", before it begins at ", entry.begin);
  const std::uint64_t bytes = bytes_of(entry, dtype, where);
  Shape shape;
  for (const std::uint64_t size : entry.shape) shape.push_back(std::int64_t(size));
  check(bytes == entry.end - entry.begin, where, ": tensor ", in_quotes(entry.name), " of shape ",
        shape, " and dtype ", entry.dtype, " needs ", bytes, " bytes, its data_offsets give ",
        entry.end - entry.begin);
  return {entry.name, dtype, shape, entry.begin, entry.end};
}

/// The tensors must fill the rest of the file without holes and overlaps.
void check_tiling(const std::vector<Entry>& entries, std::uint64_t data_bytes,
                  const std::string& where) {
  std::uint64_t end = 0;
  for (const Entry& entry : entries) {
    check(entry.begin <= end, where, ": a hole of ", entry.begin - end, " bytes before tensor ",
          in_quotes(entry.name));
    check(entry.begin == end, where, ": tensor ", in_quotes(entry.name),
          " overlaps the one before by ", end - entry.begin, " bytes");
    end = entry.end;
  }
  check(end <= data_bytes, where, ": cut off: its tensors need ", end, " bytes, there are ",
        data_bytes);
  check(end == data_bytes, where, ": ", data_bytes - end, " bytes follow the last tensor");
}

Layout read_layout(const Source& source) {
  const std::string& where = source.where;
  check(source.size >= kLengthBytes, where, ": ", source.size,
        " bytes are too few for a safetensors file");
  unsigned char length[kLengthBytes];
  source.read(0, kLengthBytes, length);
  const std::uint64_t bytes = little_endian(length);
  check(bytes <= kMaxHeaderBytes, where, ": a header of ", bytes, " bytes is more than the ",
        kMaxHeaderBytes, " allowed. Is it a safetensors file?");
  check(bytes <= source.size - kLengthBytes, where, ": cut off: its header needs ", bytes,
        " bytes, there are ", source.size - kLengthBytes);

  std::string json(bytes, '\0');
  source.read(kLengthBytes, bytes, json.data());
  check(json.starts_with('{'), where, ": the header does not begin with '{'");
  Header header = parse_header(json, where);

  Layout layout{.metadata = std::move(header.metadata), .data = kLengthBytes + bytes};
  for (const HeaderEntry& entry : header.entries) layout.entries.push_back(checked(entry, where));
  std::sort(layout.entries.begin(), layout.entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
  });
  check_tiling(layout.entries, source.size - layout.data, where);
  return layout;
}

TensorFile read(const Source& source, std::optional<Device> device) {
  Layout layout = read_layout(source);
  TensorFile file{.metadata = std::move(layout.metadata)};
  std::vector<unsigned char> bytes;  // of one tensor: from there to any device
  for (const Entry& entry : layout.entries) {
    bytes.resize(entry.end - entry.begin);
    source.read(layout.data + entry.begin, bytes.size(), bytes.data());
    if (entry.dtype == boolean) {  // any other byte is no bool, and using it undefined
      const auto bad = std::find_if(bytes.begin(), bytes.end(), [](auto b) { return b > 1; });
      check(bad == bytes.end(), source.where, ": tensor ", in_quotes(entry.name),
            " is BOOL, but has an element that is neither 0 nor 1");
    }
    const Device to = device.value_or(thread_state().default_device);
    file.tensors.emplace(entry.name,
                         Tensor(Array::from_host(bytes.data(), entry.shape, entry.dtype, to)));
  }
  return file;
}

Source open(const std::string& path) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  check(!error, "[safetensors] cannot read '", path, "': ", error.message());
  const auto stream = std::make_shared<std::ifstream>(path, std::ios::binary);
  check(stream->is_open(), "[safetensors] cannot open '", path, "'");
  const std::string where = "[safetensors] " + path;
  return {where, size, [stream, where](std::uint64_t offset, std::uint64_t bytes, void* out) {
            stream->seekg(std::streamoff(offset));
            stream->read(static_cast<char*>(out), std::streamsize(bytes));
            check(!stream->fail(), where, ": cannot be read, or became shorter meanwhile");
          }};
}

}  // namespace

TensorFile read_safetensors(const std::string& path, std::optional<Device> device) {
  return read(open(path), device);
}

Metadata read_safetensors_metadata(const std::string& path) {
  return read_layout(open(path)).metadata;
}

TensorFile parse_safetensors(std::string_view bytes, const std::string& name,
                             std::optional<Device> device) {
  const auto copy = [bytes](std::uint64_t offset, std::uint64_t count, void* out) {
    if (count > 0) std::memcpy(out, bytes.data() + offset, count);
  };
  return read({"[safetensors] " + name, bytes.size(), copy}, device);
}

}  // namespace tandem::io
