// IDX files: every type, and every way in which a file can be wrong.
#include <doctest/doctest.h>

#include <string>

#include <tandem/core/error.h>
#include <tandem/core/thread_state.h>
#include <tandem/data/idx.h>

#include "tests/support/check.h"
#include "tests/support/temporary_file.h"

using namespace tandem;
using namespace tandem::test;

namespace {

/// Bytes from numbers, so that zeros may be among them.
std::string bytes(std::initializer_list<int> values) {
  std::string text;
  for (const int value : values) text += char(value);
  return text;
}

Tensor parse(const std::string& text) {
  return data::parse_idx(text, "x-idx");
}

Verdict refused(const std::string& text, std::initializer_list<const char*> parts) {
  const Verdict named = throws<UsageError>([&] { parse(text); }, {"[read_idx] x-idx: "});
  return named ? throws<UsageError>([&] { parse(text); }, parts) : named;
}

}  // namespace

TEST_CASE("read_idx: sizes are big-endian, elements row-major") {
  const std::string text = bytes({0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 4, 5, 255});
  const TemporaryFile file("x-idx", text);
  const Tensor x = data::read_idx(file.path());
  CHECK(x.dtype() == uint8);
  CHECK(x.shape() == Shape{2, 3});
  CHECK(close(x, {1, 2, 3, 4, 5, 255}));
}

TEST_CASE("read_idx: elements of more than one byte are big-endian") {
  const Tensor i = parse(bytes({0, 0, 12, 1, 0, 0, 0, 2, 0, 1, 2, 3, 255, 255, 255, 254}));
  CHECK(i.dtype() == int32);
  CHECK(close(i, {0x010203, -2}));
  const Tensor f = parse(bytes({0, 0, 13, 1, 0, 0, 0, 2, 0x3f, 0x80, 0, 0, 0xc0, 0x20, 0, 0}));
  CHECK(f.dtype() == float32);
  CHECK(close(f, {1, -2.5}));
  const Tensor d = parse(bytes({0, 0, 14, 1, 0, 0, 0, 1, 0x40, 0x04, 0, 0, 0, 0, 0, 0}));
  CHECK(d.dtype() == float64);
  CHECK(close(d, {2.5}));
}

TEST_CASE("read_idx: no dimensions is one element, a size of 0 none") {
  CHECK(parse(bytes({0, 0, 8, 0, 7})).shape() == Shape{});
  CHECK(close(parse(bytes({0, 0, 8, 0, 7})), {7}));
  CHECK(parse(bytes({0, 0, 8, 2, 0, 0, 0, 0, 0, 0, 0, 3})).shape() == Shape{0, 3});
}

TEST_CASE("read_idx: a tensor comes onto the thread's default device") {
  const DeviceScope scope(dev(2));
  CHECK(parse(bytes({0, 0, 8, 0, 7})).device() == dev(2));
}

TEST_CASE("read_idx: what is no IDX file is refused") {
  CHECK(throws<UsageError>([] { data::read_idx("/nowhere/x-idx"); },
                           {"[read_idx] cannot open", "/nowhere/x-idx"}));
  CHECK(refused("", {"0 bytes are too few"}));
  CHECK(refused(bytes({0, 0, 8}), {"3 bytes are too few"}));
  CHECK(refused("P5 28 28 255", {"two zero bytes", "80 and 53"}));
  CHECK(refused(bytes({0, 1, 8, 1, 0, 0, 0, 0}), {"two zero bytes", "0 and 1"}));
}

TEST_CASE("read_idx: other types and too many dimensions are refused by name") {
  CHECK(refused(bytes({0, 0, 9, 0, 1}), {"type 9 (int8)"}));
  CHECK(refused(bytes({0, 0, 11, 0, 0, 1}), {"type 11 (int16)"}));
  CHECK(refused(bytes({0, 0, 200, 0, 1}), {"type 200;"}));
  CHECK(
      refused(bytes({0, 0, 8, 9}) + std::string(36, '\1') + "x", {"9 dimensions; the most is 8"}));
}

TEST_CASE("read_idx: a file cut off anywhere, or with more than it says, is refused") {
  const std::string whole = bytes({0, 0, 8, 2, 0, 0, 0, 1, 0, 0, 0, 3, 1, 2, 3});
  for (std::size_t n = 4; n < whole.size(); ++n) {
    CAPTURE(n);
    CHECK(refused(whole.substr(0, n), {n < 12 ? "cut off within its 2 sizes"
                                              : "cut off: (1, 3) uint8 elements need 3 bytes"}));
  }
  CHECK(refused(whole + "x", {"1 bytes follow the last element"}));
}

TEST_CASE("read_idx: sizes whose product overflows are refused, also beside a size of 0") {
  const std::string huge(12, '\xff');
  CHECK(refused(bytes({0, 0, 8, 3}) + huge, {"overflows"}));
  CHECK(refused(bytes({0, 0, 8, 4, 0, 0, 0, 0}) + huge, {"overflows"}));
  CHECK(refused(bytes({0, 0, 8, 1, 255, 255, 255, 255}), {"need 4294967295 bytes, there are 0"}));
  // 2^31 * 2^30 elements of 8 bytes are 2^64 bytes.
  CHECK(refused(bytes({0, 0, 14, 2, 128, 0, 0, 0, 64, 0, 0, 0}), {"overflows"}));
}
