// The checks of the op table, one doctest case for each row and check:
//   "op tanh: gradient equals finite differences"
// Before each run the pool is littered with NaN patterns (litter_pool), so a kernel that forgets an
// element is seen.
#pragma once

#include <vector>

#include "tests/support/op_table.h"

namespace tandem::test {

/// As a static object, has main() register the cases of a table with doctest, so that ctest finds
/// them one by one. The table must live as long as the program.
struct RegisterOpCases {
  explicit RegisterOpCases(const std::vector<OpRow>& (*table)());
};
/// How many there are.
int op_case_count();

/// The devices of the "every device" check: two of the kind under test, and a CPU.
std::vector<Device> devices_to_compare();

/// How an input may lie in memory.
enum class Layout {
  row_major,
  transposed,  // column-major
  rotated,     // dim 1 innermost: channels-last for four dimensions
  gaps,        // every second element of a larger array of NaN, in every dimension
  expanded,    // stride 0 along the first dimension that can be stretched
  offset       // starts inside of its slot, after NaN
};
const char* name(Layout layout);

/// An array of that layout with the values of `x`; for Layout::expanded, `x` is changed to what the
/// array then holds.
Array in_layout(Layout layout, Dense& x, DType dtype, Device device);

}  // namespace tandem::test
