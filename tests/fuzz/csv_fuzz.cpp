// CSV tables: what is accepted is a full rectangle of finite numbers.
#include <cmath>

#include <tandem/data/csv.h>

#include "fuzz.h"

using namespace tandem;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return fuzz::run(
      data, size, [](std::string_view bytes) { return data::parse_csv(bytes, "fuzz"); },
      [](const data::Table& table) {
        fuzz::require(table.rows > 0 && table.columns > 0);
        fuzz::require(std::size_t(table.rows * table.columns) == table.values.size());
        for (const float x : table.values) fuzz::require(std::isfinite(x));
      });
}
