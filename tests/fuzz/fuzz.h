// What the fuzzers share. Each is one function that libFuzzer calls with bytes of its invention;
// the only answer to bad bytes is a UsageError, so anything else that is thrown is a finding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string_view>

#include <tandem/core/error.h>

namespace tandem::fuzz {

/// For libFuzzer, a program that ends like this has failed.
inline void require(bool ok) {
  if (!ok) std::abort();
}

/// Are the bytes accepted by `parse`? If so `then` gets what came out, and must not throw.
template <class Parse, class Then>
int run(const std::uint8_t* data, std::size_t size, const Parse& parse, const Then& then) {
  using Result = decltype(parse(std::string_view{}));
  const auto parsed = [&]() -> std::optional<Result> {
    try {
      return parse(std::string_view(reinterpret_cast<const char*>(data), size));
    } catch (const UsageError&) {
      return std::nullopt;
    }
  }();
  if (parsed) then(*parsed);
  return 0;
}

}  // namespace tandem::fuzz
