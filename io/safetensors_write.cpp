#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include <tandem/core/error.h>
#include <tandem/io/atomic_file.h>
#include <tandem/io/safetensors.h>

namespace tandem::io {
namespace {

using Item = std::pair<std::string, Array>;
using Sink = std::function<void(const void* data, std::size_t bytes)>;

/// Bytes of the UTF-8 character that `text` begins with; 0 if it begins with none.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? (unsigned char)text[i] : 0u; };
  const unsigned first = byte(0);
  const std::size_t length = first < 0x80   ? 1
                             : first < 0xc2 ? 0
                             : first < 0xe0 ? 2
                             : first < 0xf0 ? 3
                             : first < 0xf5 ? 4
                                            : 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  // What has a shorter form, surrogates, and what lies above U+10FFFF.
  if ((first == 0xe0 && byte(1) < 0xa0) || (first == 0xed && byte(1) >= 0xa0) ||
      (first == 0xf0 && byte(1) < 0x90) || (first == 0xf4 && byte(1) >= 0x90)) {
    return 0;
  }
  return length;
}

/// A JSON string, escaped as serde_json escapes, so that our bytes equal those of Python's
/// safetensors.
std::string json_string(std::string_view text, const char* what) {
  constexpr char kHex[] = "0123456789abcdef";
  constexpr std::string_view kShort = "\"\\\b\f\n\r\t", kLetters = "\"\\bfnrt";
  std::string json = "\"";
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t length = utf8_length(rest);
    check(length > 0, "[safetensors] ", what, " ", in_quotes(text), " is not UTF-8");
    const char c = rest[0];
    if (const std::size_t at = kShort.find(c); at != kShort.npos) {
      json += {'\\', kLetters[at]};
    } else if ((unsigned char)c < 0x20) {
      json += std::string("\\u00") + kHex[c >> 4] + kHex[c & 15];
    } else {
      json += rest.substr(0, length);
    }
    rest.remove_prefix(length);
  }
  return json + '"';
}

const HeaderType* header_type(const Array& a) {  // every DType has one
  return std::find_if(std::begin(kHeaderTypes), std::end(kHeaderTypes),
                      [&a](const HeaderType& type) { return type.dtype == a.dtype(); });
}

/// In the order of the file: wide elements first, so that each tensor is aligned; then by name.
std::vector<Item> ordered(const nn::StateDict& tensors) {
  std::vector<Item> items;
  for (const auto& [name, t] : tensors) {
    check(name != "__metadata__", "[safetensors] a tensor cannot be called '__metadata__'");
    check(t.defined(), "[safetensors] tensor ", in_quotes(name), " is undefined");
    items.emplace_back(name, t.array());
  }
  std::stable_sort(items.begin(), items.end(), [](const Item& a, const Item& b) {
    return header_type(a.second) > header_type(b.second);
  });
  return items;
}

std::string header_text(const std::vector<Item>& items, const Metadata& metadata) {
  std::string json = "{";
  const auto next = [&json] { json += json.back() == '{' ? "" : ","; };
  if (!metadata.empty()) {
    json += "\"__metadata__\":{";
    for (const auto& [key, value] : metadata) {
      next();
      json += json_string(key, "metadata key") + ":" + json_string(value, "metadata");
    }
    json += "}";
  }
  std::int64_t begin = 0;
  for (const auto& [name, a] : items) {
    next();
    std::string sizes;
    for (const std::int64_t size : a.shape()) sizes += str(sizes.empty() ? "" : ",", size);
    json +=
        str(json_string(name, "tensor name"), ":{\"dtype\":\"", header_type(a)->name,
            "\",\"shape\":[", sizes, "],\"data_offsets\":[", begin, ",", begin + a.nbytes(), "]}");
    begin += a.nbytes();
  }
  json += "}";
  json.append((8 - json.size() % 8) % 8, ' ');
  check(json.size() <= kMaxHeaderBytes, "[safetensors] names and metadata make a header of ",
        json.size(), " bytes; the format allows ", kMaxHeaderBytes);
  return json;
}

void emit(const std::vector<Item>& items, const std::string& header, const Sink& sink) {
  unsigned char length[8];
  for (int i = 0; i < 8; ++i) length[i] = (unsigned char)(header.size() >> 8 * i);
  sink(length, sizeof length);
  sink(header.data(), header.size());
  std::vector<std::byte> bytes;
  for (const auto& [name, a] : items) {
    bytes.resize(std::size_t(a.nbytes()));
    a.copy_to_host(bytes.data());
    sink(bytes.data(), bytes.size());
  }
}

}  // namespace

void write_safetensors(const std::string& path, const nn::StateDict& tensors,
                       const Metadata& metadata) {
  const std::vector<Item> items = ordered(tensors);
  const std::string header = header_text(items, metadata);
  AtomicFile file(path);
  emit(items, header, [&](const void* data, std::size_t bytes) { file.write(data, bytes); });
  file.commit();
}

std::string format_safetensors(const nn::StateDict& tensors, const Metadata& metadata) {
  const std::vector<Item> items = ordered(tensors);
  std::string text;
  emit(items, header_text(items, metadata), [&](const void* data, std::size_t bytes) {
    text.append(static_cast<const char*>(data), bytes);
  });
  return text;
}

}  // namespace tandem::io
