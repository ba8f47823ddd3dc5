// What users set in environment variables.
#pragma once

#include <optional>

namespace tandem {

/// The number from 1 to `most` in an environment variable; none if it is empty or not set. Throws
/// UsageError, beginning with `op`, for anything else.
std::optional<int> number_in_environment(const char* op, const char* variable, int most);

}  // namespace tandem
