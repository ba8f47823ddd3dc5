// Errors: exceptions only, and one function to raise them.
//
//   check(a.dim() == 2, "[matmul] expected a matrix: ", a.shape(), ". Reshape it first");
//
// A message reads `[op] what is wrong: facts. hint`. Bad input is refused before anything is
// changed; destructors never throw; nothing prints except through the warning handler.
#pragma once

#include <functional>
#include <sstream>
#include <stdexcept>
#include <string>

namespace tandem {

/// Base of everything Tandem throws.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The caller's mistake: shapes, dtypes, devices, options, an order of calls.
class UsageError : public Error {
 public:
  using Error::Error;
};

/// A graph that can no longer be walked: a tensor it saved was written since, or it was freed.
class StaleGraphError : public UsageError {
 public:
  using UsageError::UsageError;
};

/// A library or a driver failed (CUDA, cuBLAS, cuDNN), or a device does not exist.
class DeviceError : public Error {
 public:
  using Error::Error;
};

/// Joins its arguments with operator<<.
template <class... Args>
std::string str(const Args&... args) {
  std::ostringstream out;
  (out << ... << args);
  return out.str();
}

/// Throws E with the joined message unless `ok`. A function, so that arguments are ordinary
/// expressions; the message is only put together when it is needed.
template <class E = UsageError, class... Args>
void check(bool ok, const Args&... args) {
  if (!ok) [[unlikely]] {
    throw E(str(args...));
  }
}

using WarningHandler = std::function<void(const std::string&)>;

/// Receives warnings, once for each distinct text. Default: a line on standard error. An empty
/// handler silences them. Returns the former one. Thread safe.
WarningHandler set_warning_handler(WarningHandler handler);

/// Passes `message` to the warning handler unless it was passed before.
void warn_once(const std::string& message);

}  // namespace tandem
