#include <algorithm>
#include <cstdint>
#include <limits>

#include <tandem/core/error.h>
#include <tandem/core/thread_state.h>
#include <tandem/data/file.h>
#include <tandem/data/idx.h>

namespace tandem::data {
namespace {

constexpr std::size_t kPrefix = 4;  // bytes before the sizes
constexpr std::size_t kSizeBytes = 4;

unsigned byte_at(std::string_view bytes, std::size_t i) {
  return (unsigned char)bytes[i];
}

std::int64_t big_endian(std::string_view bytes) {
  std::int64_t value = 0;
  for (std::size_t i = 0; i < kSizeBytes; ++i) value = value << 8 | byte_at(bytes, i);
  return value;
}

DType type_of(unsigned code, const std::string& where) {
  switch (code) {
    case 0x08:
      return uint8;
    case 0x0c:
      return int32;
    case 0x0d:
      return float32;
    case 0x0e:
      return float64;
    default:
      break;
  }
  const char* known = code == 0x09 ? " (int8)" : code == 0x0b ? " (int16)" : "";
  throw UsageError(str(where, ": elements of type ", code, known,
                       "; only uint8, int32, float32 and float64 are read"));
}

/// Sizes are below 2^32 each, so the product of two fits, that of more perhaps not.
std::int64_t bytes_of(const Shape& shape, DType dtype, const std::string& where) {
  std::int64_t bytes = std::int64_t(size_of(dtype));
  for (const std::int64_t size : shape) {
    const std::int64_t factor = std::max<std::int64_t>(size, 1);
    check(bytes <= std::numeric_limits<std::int64_t>::max() / factor, where,
          ": the product of the sizes ", shape, " overflows");
    bytes *= factor;
  }
  return shape.numel() == 0 ? 0 : bytes;
}

}  // namespace

Tensor read_idx(const std::string& path) {
  return parse_idx(read_file(path, "read_idx"), path);
}

Tensor parse_idx(std::string_view bytes, const std::string& name) {
  const std::string where = "[read_idx] " + name;
  check(bytes.size() >= kPrefix, where, ": ", bytes.size(), " bytes are too few for an IDX file");
  check(byte_at(bytes, 0) == 0 && byte_at(bytes, 1) == 0, where,
        ": an IDX file begins with two zero bytes, this one with ", byte_at(bytes, 0), " and ",
        byte_at(bytes, 1));
  const DType dtype = type_of(byte_at(bytes, 2), where);
  const std::size_t dims = byte_at(bytes, 3);
  check(dims <= std::size_t(kMaxDims), where, ": ", dims, " dimensions; the most is ", kMaxDims);
  const std::size_t header = kPrefix + dims * kSizeBytes;
  check(bytes.size() >= header, where, ": cut off within its ", dims, " sizes");

  Shape shape;
  for (std::size_t i = kPrefix; i < header; i += kSizeBytes) {
    shape.push_back(big_endian(bytes.substr(i, kSizeBytes)));
  }
  const std::uint64_t needed = std::uint64_t(bytes_of(shape, dtype, where));
  const std::uint64_t there = bytes.size() - header;
  check(there >= needed, where, ": cut off: ", shape, " ", dtype, " elements need ", needed,
        " bytes, there are ", there);
  check(there == needed, where, ": ", there - needed, " bytes follow the last element");

  std::string data(bytes.substr(header));
  const std::size_t width = size_of(dtype);
  for (std::size_t i = 0; width > 1 && i < data.size(); i += width) {  // to little-endian
    std::reverse(data.begin() + std::ptrdiff_t(i), data.begin() + std::ptrdiff_t(i + width));
  }
  return Tensor(Array::from_host(data.data(), shape, dtype, thread_state().default_device));
}

}  // namespace tandem::data
