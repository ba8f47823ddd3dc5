#include <set>
#include <utility>

#include <tandem/core/error.h>
#include <tandem/core/shape.h>
#include <tandem/io/safetensors_header.h>

#ifdef TANDEM_JSON
#include <nlohmann/json.hpp>
#endif

namespace tandem::io {

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kLongest = 100;
  if (text.size() <= kLongest) return str("'", text, "'");
  return str("'", text.substr(0, kLongest), "...'");
}

#ifdef TANDEM_JSON
namespace {

using nlohmann::json;

/// What the parser calls, event by event. A tree of values would keep only the last of two equal
/// keys and would grow as deep as the text says; here the place in the grammar is all there is.
class HeaderReader {
 public:
  explicit HeaderReader(const std::string& where) : where_(where) {}

  Header take() { return std::move(header_); }

  // ---- values
  bool null() { refuse("null"); }
  bool boolean(bool value) { refuse(value ? "true" : "false"); }
  bool number_integer(std::int64_t value) { refuse(str("the number ", value)); }
  bool number_unsigned(std::uint64_t value) {
    if (place_ == Place::shape) {
      entry_.shape.push_back(value);
      check(entry_.shape.size() <= std::size_t(kMaxDims), where_, ": tensor ", in_quotes(name_),
            " has more than ", kMaxDims, " dimensions");
    } else if (place_ == Place::offsets) {
      check(++offsets_ <= 2, where_, ": tensor ", in_quotes(name_),
            " has more than two data_offsets");
      (offsets_ == 1 ? entry_.begin : entry_.end) = value;
    } else {
      refuse(str("the number ", value));
    }
    return true;
  }
  bool number_float(double, const std::string& text) { refuse("the number " + text); }
  bool string(std::string& value) {
    if (place_ == Place::metadata) {
      header_.metadata.emplace(key_, value);
    } else if (place_ == Place::tensor && key_ == "dtype") {
      entry_.dtype = value;
    } else {
      refuse("the string " + in_quotes(value));
    }
    return true;
  }
  bool binary(json::binary_t&) { refuse("binary"); }

  // ---- structure
  bool start_object(std::size_t) {
    if (place_ == Place::outside) {
      place_ = Place::top;
    } else if (place_ == Place::top) {
      place_ = name_ == "__metadata__" ? Place::metadata : Place::tensor;
      entry_ = {.name = name_};
      fields_.clear();
    } else {
      refuse("an object");
    }
    return true;
  }
  bool key(std::string& key) {
    if (place_ == Place::top) {
      check(names_.insert(key).second, where_, ": ", in_quotes(key), " is there twice");
      name_ = key;
      return true;
    }
    key_ = key;
    if (place_ == Place::metadata) {
      check(!header_.metadata.contains(key), where_, ": __metadata__ has ", in_quotes(key),
            " twice");
      return true;
    }
    check(key == "dtype" || key == "shape" || key == "data_offsets", where_, ": tensor ",
          in_quotes(name_), " has an unknown field ", in_quotes(key));
    check(fields_.insert(key).second, where_, ": tensor ", in_quotes(name_), " has ", key,
          " twice");
    return true;
  }
  bool start_array(std::size_t) {
    if (place_ != Place::tensor || key_ == "dtype") refuse("an array");
    place_ = key_ == "shape" ? Place::shape : Place::offsets;
    offsets_ = 0;
    return true;
  }
  bool end_array() {
    check(place_ != Place::offsets || offsets_ == 2, where_, ": tensor ", in_quotes(name_),
          " needs two data_offsets");
    place_ = Place::tensor;
    return true;
  }
  bool end_object() {
    if (place_ == Place::tensor) {
      for (const char* field : {"dtype", "shape", "data_offsets"}) {
        check(fields_.contains(field), where_, ": tensor ", in_quotes(name_), " has no ", field);
      }
      header_.entries.push_back(std::move(entry_));
    }
    place_ = place_ == Place::top ? Place::outside : Place::top;
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const json::exception&) {
    throw UsageError(str(where_, ": the header is no valid JSON: error at byte ", position));
  }

 private:
  enum class Place { outside, top, metadata, tensor, shape, offsets };

  [[noreturn]] void refuse(const std::string& found) const {
    std::string what, expected;
    const std::string tensor = "tensor " + in_quotes(name_);
    switch (place_) {
      case Place::outside:
        what = "the header", expected = "an object";
        break;
      case Place::top:
        what = name_ == "__metadata__" ? name_ : tensor, expected = "an object";
        break;
      case Place::metadata:
        what = "__metadata__ " + in_quotes(key_), expected = "a string";
        break;
      case Place::tensor:
        what = tensor + ": " + key_, expected = key_ == "dtype" ? "a string" : "an array";
        break;
      case Place::shape:
        what = tensor + ": a size", expected = "a whole number from 0 on";
        break;
      case Place::offsets:
        what = tensor + ": a data_offset", expected = "a whole number from 0 on";
        break;
    }
    throw UsageError(str(where_, ": ", what, " is ", found, ", not ", expected));
  }

  const std::string& where_;
  Header header_;
  std::set<std::string> names_;  // all at the top, __metadata__ too
  Place place_ = Place::outside;
  std::string name_, key_;  // the last of the top, and of the object below it
  HeaderEntry entry_;
  std::set<std::string> fields_;  // what entry_ has
  int offsets_ = 0;
};

}  // namespace

Header parse_header(std::string_view text, const std::string& where) {
  // The parser takes a NUL for the end of the text.
  check(text.find('\0') == text.npos, where, ": the header contains a NUL byte");
  HeaderReader reader(where);
  json::sax_parse(text.begin(), text.end(), &reader);
  return reader.take();
}

#else

Header parse_header(std::string_view, const std::string& where) {
  throw UsageError(where +
                   ": Tandem was built without nlohmann-json, which reading needs. Install "
                   "nlohmann-json3-dev and build again");
}

#endif

}  // namespace tandem::io
