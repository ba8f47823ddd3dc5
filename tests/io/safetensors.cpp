// The format: round trips, and one case for each rule that a file can break.
#include <doctest/doctest.h>

#include <limits>
#include <string>

#include <tandem/core/ops/factories.h>
#include <tandem/core/ops/views.h>
#include <tandem/core/thread_state.h>
#include <tandem/io/safetensors.h>

#include "tests/support/check.h"
#include "tests/support/temporary_file.h"

using namespace tandem;
using namespace tandem::test;

namespace {

/// A file with this header and as many zero bytes of data.
std::string file_of(const std::string& json, std::size_t data_bytes = 0) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += char(json.size() >> 8 * i);
  return bytes + json + std::string(data_bytes, '\0');
}

io::TensorFile parse(const std::string& bytes) {
  return io::parse_safetensors(bytes, "net.safetensors");
}

/// Is the file refused with these parts in the message?
Verdict refused(const std::string& bytes, std::initializer_list<const char*> parts) {
  Verdict named = throws<UsageError>([&] { parse(bytes); }, {"[safetensors] net.safetensors: "});
  return named ? throws<UsageError>([&] { parse(bytes); }, parts) : named;
}

#ifdef TANDEM_JSON
/// The same for one tensor t: its fields, and how many bytes follow.
Verdict tensor_refused(const std::string& fields, std::size_t data_bytes,
                       std::initializer_list<const char*> parts) {
  return refused(file_of("{\"t\":{" + fields + "}}", data_bytes), parts);
}
#endif

}  // namespace

TEST_CASE("write_safetensors: the same tensors give the same bytes, whatever layout they have") {
  const Tensor x = tensor_of({1, 2, 3, 4, 5, 6}, {2, 3});
  const Tensor turned = tensor_of({1, 4, 2, 5, 3, 6}, {3, 2}).t();  // the same values
  REQUIRE(!turned.is_contiguous());
  CHECK(io::format_safetensors({{"x", x}}) == io::format_safetensors({{"x", turned}}));
  const Tensor images = random_tensor({2, 3, 4, 5}, 1);
  const Tensor last = images.to(MemoryFormat::channels_last);
  CHECK(io::format_safetensors({{"x", images}}) == io::format_safetensors({{"x", last}}));
}

TEST_CASE("write_safetensors: the header is padded to 8 bytes and describes wide types first") {
  const std::string bytes = io::format_safetensors({{"a", tensor_of({1, 0}, {2}, boolean)},
                                                    {"b", tensor_of({1}, {1}, float16)},
                                                    {"c", tensor_of({1}, {}, int64)}});
  const std::string json = R"({"c":{"dtype":"I64","shape":[],"data_offsets":[0,8]},)"
                           R"("b":{"dtype":"F16","shape":[1],"data_offsets":[8,10]},)"
                           R"("a":{"dtype":"BOOL","shape":[2],"data_offsets":[10,12]}})";
  const std::string padded = json + std::string((8 - json.size() % 8) % 8, ' ');
  const std::string data("\x01\0\0\0\0\0\0\0\x00\x3c\x01\x00", 12);  // 1, half of 1, true false
  CHECK(bytes == file_of(padded) + data);
}

TEST_CASE("write_safetensors: undefined tensors and impossible names are refused") {
  CHECK(throws<UsageError>(
      [] {
        io::format_safetensors({{"x", Tensor()}});
      },
      {"'x'", "undefined"}));
  CHECK(throws<UsageError>(
      [] {
        io::format_safetensors({{"__metadata__", ones({1})}});
      },
      {"cannot be called '__metadata__'"}));
  // Alone; cut off; a surrogate; the long form of '/'; beyond U+10FFFF.
  for (const char* bad :
       {"\x80", "\xe6\x97", "\xed\xa0\x80", "\xc0\xaf", "\xf4\x90\x80\x80", "\xff"}) {
    CHECK(throws<UsageError>(
        [&] {
          io::format_safetensors({{bad, ones({1})}});
        },
        {"tensor name", "not UTF-8"}));
    CHECK(throws<UsageError>(
        [&] {
          io::format_safetensors({}, {{"key", bad}});
        },
        {"metadata", "not UTF-8"}));
    CHECK(throws<UsageError>(
        [&] {
          io::format_safetensors({}, {{bad, "value"}});
        },
        {"metadata key", "not UTF-8"}));
  }
}

#ifdef TANDEM_JSON

TEST_CASE(
    "read_safetensors: every type, 0 dimensions and 0 elements come back with the same bits") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  nn::StateDict state;
  for (const DType dtype : {float32, float64, float16, bfloat16, int64, int32, uint8, boolean}) {
    state[name(dtype)] = tensor_of({0, 1, 1, 0, 0, 1}, {2, 3}, dtype);
  }
  state["scalar"] = tensor_of({2.5}, {});
  state["empty"] = zeros({2, 0, 3});
  state["special"] = tensor_of({nan, 1 / 0.0, -1 / 0.0, -0.0}, {4});
  state[""] = tensor_of({7}, {1});
  const TemporaryFolder folder;
  io::write_safetensors(folder.file("x.safetensors"), state, {{"epoch", "3"}, {"note", ""}});
  const io::TensorFile file = io::read_safetensors(folder.file("x.safetensors"));
  REQUIRE(file.tensors.size() == state.size());
  for (const auto& [name, t] : state) {
    CAPTURE(name);
    REQUIRE(file.tensors.contains(name));
    CHECK(bits_equal(file.tensors.at(name), t));
  }
  CHECK(file.metadata == io::Metadata{{"epoch", "3"}, {"note", ""}});
  CHECK(io::read_safetensors_metadata(folder.file("x.safetensors")) == file.metadata);
}

TEST_CASE("read_safetensors: every character of names and metadata comes back") {
  std::string all;
  for (char c = 1; c < 127; ++c) all += c;
  all += std::string("\0", 1) + "\u00e9\u65e5\U0001f600";
  const io::TensorFile file = parse(io::format_safetensors({{all, ones({1})}}, {{all, all}}));
  CHECK(file.tensors.contains(all));
  CHECK(file.metadata == io::Metadata{{all, all}});
}

TEST_CASE("read_safetensors: tensors come from any device and go to the one asked for") {
  const std::string bytes =
      io::format_safetensors({{"x", tensor_of({1, 2}, {2}, float32, dev(2))}});
  CHECK(parse(bytes).tensors.at("x").device() == dev(0));
  CHECK(io::parse_safetensors(bytes, "x", dev(3)).tensors.at("x").device() == dev(3));
  const DeviceScope scope(dev(1));
  const Tensor x = parse(bytes).tensors.at("x");
  CHECK(x.device() == dev(1));
  CHECK(close(x, {1, 2}));
}

TEST_CASE("read_safetensors: any order and unaligned data are read") {
  std::string bytes = file_of(R"({"b":{"data_offsets":[1,5],"shape":[1],"dtype":"F32"},)"
                              R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})");
  bytes += std::string("\x07\x00\x00\x80\x3f", 5);
  const io::TensorFile file = parse(bytes);
  CHECK(close(file.tensors.at("a"), {7}));
  CHECK(close(file.tensors.at("b"), {1}));
}

TEST_CASE("read_safetensors: a missing file and a folder are refused by name") {
  CHECK(throws<UsageError>([] { io::read_safetensors("/nowhere/x.safetensors"); },
                           {"[safetensors]", "/nowhere/x.safetensors", "No such file"}));
  const TemporaryFolder folder;
  CHECK(throws<UsageError>([&] { io::read_safetensors(folder.path()); }, {folder.path().c_str()}));
}

TEST_CASE("read_safetensors: a file cut off anywhere is refused") {
  const std::string whole = io::format_safetensors({{"x", ones({2, 3})}}, {{"k", "v"}});
  parse(whole);
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    CAPTURE(bytes);
    const char* why = bytes < 8 ? "too few" : "cut off";
    CHECK(refused(whole.substr(0, bytes), {why}));
    const TemporaryFile file("net.safetensors", whole.substr(0, bytes));
    CHECK(throws<UsageError>([&] { io::read_safetensors(file.path()); }, {why}));
  }
}

TEST_CASE("read_safetensors: a huge header is refused before memory is taken for it") {
  CHECK(refused(std::string(8, '\xff') + "{}", {"18446744073709551615", "100000000 allowed"}));
  std::string bytes = file_of("{}");
  bytes[3] = 0x05;  // 83,886,082 bytes: allowed, but not there
  CHECK(refused(bytes, {"cut off", "header needs 83886082 bytes, there are 2"}));
}

TEST_CASE("read_safetensors: a header that is no JSON object is refused") {
  CHECK(refused(file_of(""), {"does not begin with '{'"}));
  CHECK(refused(file_of(" {}"), {"does not begin with '{'"}));
  CHECK(refused(file_of("[]"), {"does not begin with '{'"}));
  CHECK(refused(file_of("{"), {"no valid JSON", "byte"}));
  CHECK(refused(file_of("{}x"), {"no valid JSON"}));
  CHECK(refused(file_of("{}{}"), {"no valid JSON"}));
  CHECK(refused(file_of(std::string("{}\0x", 4)), {"NUL"}));
  CHECK(refused(file_of("{\"\xff\":1}"), {"no valid JSON"}));
  CHECK(parse(file_of("{}   \n ")).tensors.empty());
}

TEST_CASE("read_safetensors: nothing nests deeper than the format does") {
  const std::string deep(1'000'000, '[');
  CHECK(refused(file_of("{\"t\":" + deep), {"'t' is an array, not an object"}));
  CHECK(tensor_refused("\"shape\":" + deep, 0, {"'t': a size is an array"}));
  CHECK(tensor_refused("\"shape\":{", 0, {"'t': shape is an object, not an array"}));
  CHECK(refused(file_of("{\"__metadata__\":{\"k\":{"), {"'k' is an object, not a string"}));
}

TEST_CASE("read_safetensors: a name or a field given twice is refused") {
  const std::string t = R"("t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  CHECK(refused(file_of("{" + t + "," + t + "}", 1), {"'t' is there twice"}));
  CHECK(refused(file_of(R"({"__metadata__":{},"__metadata__":{}})"),
                {"'__metadata__' is there twice"}));
  CHECK(refused(file_of(R"({"__metadata__":{"k":"1","k":"2"}})"), {"__metadata__ has 'k' twice"}));
  CHECK(tensor_refused(R"("dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1])", 1,
                       {"'t' has dtype twice"}));
  CHECK(tensor_refused(R"("dtype":"U8","shape":[1],"shape":[1],"data_offsets":[0,1])", 1,
                       {"'t' has shape twice"}));
}

TEST_CASE("read_safetensors: metadata that is no string is refused") {
  CHECK(refused(file_of(R"({"__metadata__":{"epoch":3}})"),
                {"__metadata__ 'epoch' is the number 3, not a string"}));
  CHECK(refused(file_of(R"({"__metadata__":{"a":null}})"), {"'a' is null, not a string"}));
  CHECK(refused(file_of(R"({"__metadata__":{"a":true}})"), {"'a' is true, not a string"}));
  CHECK(refused(file_of(R"({"__metadata__":{"a":[]}})"), {"'a' is an array, not a string"}));
  CHECK(refused(file_of(R"({"__metadata__":"x"})"), {"__metadata__ is the string 'x'", "object"}));
}

TEST_CASE("read_safetensors: a field that is missing, unknown or of another type is refused") {
  CHECK(tensor_refused(R"("shape":[1],"data_offsets":[0,1])", 1, {"'t' has no dtype"}));
  CHECK(tensor_refused(R"("dtype":"U8","data_offsets":[0,1])", 1, {"'t' has no shape"}));
  CHECK(tensor_refused(R"("dtype":"U8","shape":[1])", 1, {"'t' has no data_offsets"}));
  CHECK(tensor_refused(R"("strides":[1])", 1, {"'t' has an unknown field 'strides'"}));
  CHECK(tensor_refused(R"("dtype":7)", 1, {"dtype is the number 7, not a string"}));
  CHECK(tensor_refused(R"("dtype":["U8"])", 1, {"dtype is an array, not a string"}));
  CHECK(tensor_refused(R"("shape":1)", 1, {"shape is the number 1, not an array"}));
  CHECK(tensor_refused(R"("shape":"1")", 1, {"shape is the string '1', not an array"}));
  CHECK(refused(file_of(R"({"t":3})"), {"tensor 't' is the number 3, not an object"}));
}

TEST_CASE("read_safetensors: sizes and offsets are whole numbers from 0 on") {
  CHECK(tensor_refused(R"("shape":[-1])", 0, {"a size is the number -1"}));
  CHECK(tensor_refused(R"("shape":[1.5])", 0, {"a size is the number 1.5"}));
  CHECK(tensor_refused(R"("shape":[1e3])", 0, {"a size is the number 1e3"}));
  CHECK(tensor_refused(R"("shape":["1"])", 0, {"a size is the string '1'"}));
  CHECK(tensor_refused(R"("shape":[99999999999999999999])", 0, {"a size is the number 9999"}));
  CHECK(tensor_refused(R"("data_offsets":[-1,0])", 0, {"a data_offset is the number -1"}));
  CHECK(tensor_refused(R"("data_offsets":[0])", 0, {"needs two data_offsets"}));
  CHECK(tensor_refused(R"("data_offsets":[0,1,2])", 0, {"more than two data_offsets"}));
  CHECK(tensor_refused(R"("shape":[1,1,1,1,1,1,1,1,1])", 0, {"more than 8 dimensions"}));
}

TEST_CASE("read_safetensors: a type that Tandem has not is refused by name") {
  CHECK(tensor_refused(R"("dtype":"I16","shape":[1],"data_offsets":[0,2])", 2,
                       {"'t' is of dtype 'I16'", "BF16"}));
  CHECK(tensor_refused(R"("dtype":"f32","shape":[1],"data_offsets":[0,4])", 4, {"'f32'"}));
}

TEST_CASE("read_safetensors: a shape whose product overflows is refused") {
  CHECK(tensor_refused(R"("dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0])", 0,
                       {"overflows"}));
  CHECK(tensor_refused(R"("dtype":"U8","shape":[18446744073709551615],"data_offsets":[0,1])", 1,
                       {"overflows"}));
  CHECK(tensor_refused(R"("dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,0])", 0,
                       {"overflows"}));  // 2^61 elements of 8 bytes are 2^64 bytes
  CHECK(tensor_refused(R"("dtype":"U8","shape":[0,4294967296,4294967296],"data_offsets":[0,0])", 0,
                       {"overflows"}));
}

TEST_CASE("read_safetensors: offsets must fit the shape") {
  CHECK(tensor_refused(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])", 4,
                       {"shape (2,) and dtype F32 needs 8 bytes, its data_offsets give 4"}));
  CHECK(tensor_refused(R"("dtype":"U8","shape":[0],"data_offsets":[1,0])", 1,
                       {"ends at byte 0, before it begins at 1"}));
}

TEST_CASE("read_safetensors: holes, overlaps, and data before or after the tensors are refused") {
  const auto two = [](const std::string& a, const std::string& b, std::size_t bytes) {
    return file_of(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":)" + a +
                       R"(},"b":{"dtype":"U8","shape":[2],"data_offsets":)" + b + "}}",
                   bytes);
  };
  parse(two("[0,2]", "[2,4]", 4));
  parse(two("[2,4]", "[0,2]", 4));
  CHECK(refused(two("[0,2]", "[3,5]", 5), {"a hole of 1 bytes before tensor 'b'"}));
  CHECK(refused(two("[1,3]", "[3,5]", 5), {"a hole of 1 bytes before tensor 'a'"}));
  CHECK(refused(two("[0,2]", "[1,3]", 3), {"'b' overlaps the one before by 1 bytes"}));
  CHECK(refused(two("[0,2]", "[0,2]", 2), {"overlaps the one before by 2 bytes"}));
  CHECK(refused(two("[0,2]", "[2,4]", 3), {"cut off: its tensors need 4 bytes, there are 3"}));
  CHECK(refused(two("[0,2]", "[2,4]", 5), {"1 bytes follow the last tensor"}));
  CHECK(refused(file_of("{}", 1), {"1 bytes follow the last tensor"}));
}

TEST_CASE("read_safetensors: a BOOL that is neither 0 nor 1 is refused") {
  std::string bytes =
      file_of(R"({"t":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]}})") + "\x01\x02";
  CHECK(refused(bytes, {"'t' is BOOL", "neither 0 nor 1"}));
}

TEST_CASE("read_safetensors: a long name is cut in the message") {
  const std::string message =
      thrown_message<UsageError>([] { parse(file_of("{\"" + std::string(5000, 'n') + "\":3}")); });
  CHECK(contains(message, "nnn...'"));
  CHECK(message.size() < 300);
}

#else

TEST_CASE("read_safetensors: without nlohmann-json a file is refused with a hint") {
  CHECK(refused(file_of("{}"), {"without nlohmann-json", "Install"}));
}

#endif
