// Reading tables: what is accepted, and that every complaint names the file and the line.
#include <doctest/doctest.h>

#include <filesystem>
#include <string_view>

#include <tandem/core/error.h>
#include <tandem/data/csv.h>

#include "tests/support/check.h"
#include "tests/support/temporary_file.h"

using namespace tandem;
using tandem::test::TemporaryFile;
using tandem::test::throws;

namespace {

data::Table read(std::string_view text, const data::CsvOptions& options = {}) {
  const TemporaryFile file("table.csv", text);
  return data::read_csv(file.path(), options);
}

// gzip -9n of "1,2\n3,4.5\n"
constexpr unsigned char kPacked[] = {0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03,
                                     0x33, 0xd4, 0x31, 0xe2, 0x32, 0xd6, 0x31, 0xd1, 0x33, 0xe5,
                                     0x02, 0x00, 0x3b, 0x63, 0x47, 0xea, 0x0a, 0x00, 0x00, 0x00};
const std::string_view kGzip(reinterpret_cast<const char*>(kPacked), sizeof kPacked);

}  // namespace

TEST_CASE("read_csv: rows and columns in order") {
  const data::Table table = read("1,2,3\n-4,5.5,6e2\n");
  CHECK(table.rows == 2);
  CHECK(table.columns == 3);
  CHECK(table.values == std::vector<float>{1, 2, 3, -4, 5.5f, 600});
  CHECK(table.at(1, 2) == 600);
}

TEST_CASE("read_csv: blanks, blank lines, Windows line ends and a missing last line end are fine") {
  const data::Table table = read("\r\n 1 ,\t2\r\n\n3,4");
  CHECK(table.values == std::vector<float>{1, 2, 3, 4});
}

TEST_CASE("read_csv: a value that is no number is named with its line") {
  CHECK(throws<UsageError>([] { read("1,2\n\n3,ink\n"); }, {"table.csv, line 3", "'ink'"}));
  CHECK(throws<UsageError>([] { read("1,2\n3,4x\n"); }, {"line 2", "'4x'"}));
  CHECK(throws<UsageError>([] { read("1,\n"); }, {"line 1", "''"}));
  CHECK(throws<UsageError>([] { read("nan\n"); }, {"line 1", "'nan'"}));
  CHECK(throws<UsageError>([] { read("1e99\n"); }, {"line 1", "'1e99'"}));
}

TEST_CASE("read_csv: a row of another length is named with its line and both lengths") {
  CHECK(throws<UsageError>([] { read("1,2\n3,4\n5\n"); }, {"line 3", "1 values instead of 2"}));
  CHECK(throws<UsageError>([] { read("1,2\n", {.columns = 3}); },
                           {"line 1", "2 values instead of 3"}));
}

TEST_CASE("read_csv: a missing file, a folder and an empty file are refused by name") {
  CHECK(throws<UsageError>([] { data::read_csv("/nowhere/digits.csv"); },
                           {"cannot open", "/nowhere/digits.csv"}));
  const std::string folder = std::filesystem::temp_directory_path();
  CHECK(throws<UsageError>([&] { data::read_csv(folder); }, {folder.c_str(), "is a folder"}));
  CHECK(throws<UsageError>([] { read(""); }, {"table.csv", "no rows"}));
  CHECK(throws<UsageError>([] { read("\n\n"); }, {"no rows"}));
}

#ifdef TANDEM_ZLIB
TEST_CASE("read_csv: a gzip file reads like the file inside, whatever its name") {
  CHECK(read(kGzip).values == std::vector<float>{1, 2, 3, 4.5f});
}

TEST_CASE("read_csv: a gzip file that was cut off or changed is refused") {
  CHECK(throws<UsageError>([] { read(kGzip.substr(0, 18)); }, {"table.csv", "damaged"}));
  std::string changed(kGzip);
  changed[23] ^= 1;  // in the checksum
  CHECK(throws<UsageError>([&] { read(changed); }, {"damaged"}));
}
#else
TEST_CASE("read_csv: without zlib a gzip file is refused with a hint") {
  CHECK(throws<UsageError>([] { read(kGzip); }, {"without zlib", "Unpack"}));
}
#endif
