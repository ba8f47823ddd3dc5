// Other programs, run as a person would run them.
#pragma once

#include <cstdio>
#include <string>

#include <doctest/doctest.h>

namespace tandem::test {

/// What a command of the shell printed. It must end with status 0.
inline std::string output_of(const std::string& command) {
  CAPTURE(command);
  FILE* pipe = popen(command.c_str(), "r");
  REQUIRE(pipe);
  std::string output;
  for (int c; (c = std::fgetc(pipe)) != EOF;) output += char(c);
  CAPTURE(output);
  REQUIRE(pclose(pipe) == 0);
  return output;
}

}  // namespace tandem::test
