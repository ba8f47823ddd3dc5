// Tables of numbers in text files: one row a line, values separated by commas.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::data {

/// A table by rows.
struct Table {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::vector<float> values{};

  float at(std::int64_t row, std::int64_t column) const {
    return values[std::size_t(row * columns + column)];
  }
};

struct CsvOptions {
  std::int64_t columns = 0;  // how many a row must have; 0: as many as the first
};

/// Reads a file, or a gzip file if Tandem was built with zlib. Blank lines are passed over.
/// Throws UsageError naming the file, and the line where there is one: no such file, a value that
/// is not a finite number, a row of another length, no rows.
Table read_csv(const std::string& path, const CsvOptions& options = {});
/// The same from memory; `name` is for messages.
Table parse_csv(std::string_view text, const std::string& name, const CsvOptions& options = {});

}  // namespace tandem::data
