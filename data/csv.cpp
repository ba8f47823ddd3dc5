#include <charconv>
#include <cmath>
#include <string_view>

#include <tandem/core/error.h>
#include <tandem/data/csv.h>
#include <tandem/data/file.h>

namespace tandem::data {
namespace {

std::string_view trimmed(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

/// Appends the values of one line.
void read_row(std::string_view line, const std::string& where, std::vector<float>& values) {
  for (bool more = true; more;) {
    const std::size_t comma = line.find(',');
    more = comma != line.npos;
    const std::string_view field = trimmed(line.substr(0, comma));
    float value = 0;
    const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
    check(error == std::errc() && end == field.data() + field.size() && std::isfinite(value), where,
          ": '", field, "' is not a number");
    values.push_back(value);
    if (more) line.remove_prefix(comma + 1);
  }
}

}  // namespace

Table read_csv(const std::string& path, const CsvOptions& options) {
  return parse_csv(read_file(path, "read_csv"), path, options);
}

Table parse_csv(std::string_view text, const std::string& name, const CsvOptions& options) {
  Table table{.columns = options.columns};
  std::string_view rest = text;
  for (int number = 1; !rest.empty(); ++number) {
    const std::size_t end = rest.find('\n');
    const std::string_view line = trimmed(rest.substr(0, end));
    rest.remove_prefix(end == rest.npos ? rest.size() : end + 1);
    if (line.empty()) continue;

    const std::string where = str("[read_csv] ", name, ", line ", number);
    const std::size_t before = table.values.size();
    read_row(line, where, table.values);
    const std::int64_t columns = std::int64_t(table.values.size() - before);
    if (table.columns == 0) table.columns = columns;
    check(columns == table.columns, where, ": ", columns, " values instead of ", table.columns);
    ++table.rows;
  }
  check(table.rows > 0, "[read_csv] '", name, "' has no rows");
  return table;
}

}  // namespace tandem::data
