// Every op of core against its row of the op table: see tests/support/op_table.h.
#include <doctest/doctest.h>

#include <set>

#include "tests/support/op_checks.h"

using namespace tandem;
using namespace tandem::test;

static const RegisterOpCases registered(op_table);

TEST_CASE("op table: names are unique and every row is complete") {
  CHECK(op_case_count() >= 300);
  std::set<std::string> names;
  for (const OpRow& row : op_table()) {
    INFO(row.name);
    CHECK(names.insert(row.name).second);
    CHECK(!row.inputs.empty());
    REQUIRE(!row.shapes.empty());
    for (const Shapes& shapes : row.shapes) CHECK(shapes.size() == row.inputs.size());
    for (const Shapes& shapes : row.empty) CHECK(shapes.size() == row.inputs.size());
    CHECK(op_inputs(row, dev(2)).at(0).device() == dev(2));
  }
}
