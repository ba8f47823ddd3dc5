#include <tandem/core/environment.h>

#include <cstdlib>

#include <tandem/core/error.h>

namespace tandem {

std::optional<int> number_in_environment(const char* op, const char* variable, int most) {
  const char* text = std::getenv(variable);
  if (text == nullptr || *text == '\0') return std::nullopt;
  char* end = nullptr;
  const long value = std::strtol(text, &end, 10);
  check(*end == '\0' && value >= 1 && value <= most, "[", op, "] ", variable, "=", text,
        " is not a number from 1 to ", most);
  return int(value);
}

}  // namespace tandem
