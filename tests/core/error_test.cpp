// Errors and warnings: core/error.h.
#include <doctest/doctest.h>

#include <atomic>
#include <thread>

#include "tests/support/check.h"

#include <tandem/core/error.h>
#include <tandem/core/memory.h>
#include <tandem/core/shape.h>

using namespace tandem;
using namespace tandem::test;

TEST_CASE("error: check() throws UsageError with its arguments joined") {
  check(true, "never seen");
  CHECK(thrown_message<UsageError>([] {
          check(false, "[op] got ", Shape{2, 3}, " and ", 5);
        }) == "[op] got (2, 3) and 5");
}

TEST_CASE("error: check<E>() throws the type it is asked for") {
  CHECK(throws<DeviceError>([] { check<DeviceError>(false, "x"); }));
  CHECK(!throws<UsageError>([] { check<DeviceError>(false, "x"); }));
}

namespace {
struct Counted {
  int* prints;
};
std::ostream& operator<<(std::ostream& out, const Counted& c) {
  ++*c.prints;
  return out;
}
}  // namespace

TEST_CASE("error: check() puts the message together only when it fails") {
  int prints = 0;
  check(true, Counted{&prints});
  CHECK(prints == 0);
  CHECK(throws<UsageError>([&] { check(false, Counted{&prints}); }));
  CHECK(prints == 1);
}

TEST_CASE("error: every type can be caught as Error and as std::runtime_error") {
  CHECK(throws<Error>([] { throw UsageError("a"); }));
  CHECK(throws<UsageError>([] { throw StaleGraphError("a"); }));
  CHECK(throws<Error>([] { throw DeviceError("a"); }));
  CHECK(throws<Error>([] { throw OutOfMemory(dev(0), 1, 0, {}); }));
  CHECK(!throws<UsageError>([] { throw OutOfMemory(dev(0), 1, 0, {}); }));
  CHECK(throws<std::runtime_error>([] { throw Error("a"); }));
}

namespace {
// Puts the former handler back.
struct Listening {
  std::vector<std::string> heard;
  WarningHandler former =
      set_warning_handler([this](const std::string& message) { heard.push_back(message); });
  ~Listening() { set_warning_handler(former); }
};
}  // namespace

TEST_CASE("warning: each distinct text is passed on once") {
  Listening listening;
  for (int i = 0; i < 3; ++i) warn_once("error_test: first"), warn_once("error_test: second");
  CHECK(listening.heard == std::vector<std::string>{"error_test: first", "error_test: second"});
}

TEST_CASE("warning: an empty handler silences, and set_warning_handler gives back the former one") {
  Listening listening;
  WarningHandler mine = set_warning_handler({});
  warn_once("error_test: silenced");
  set_warning_handler(mine);
  warn_once("error_test: heard");
  CHECK(listening.heard == std::vector<std::string>{"error_test: heard"});
}

TEST_CASE("warning: a handler may warn itself") {
  Listening listening;
  std::vector<std::string> heard;
  set_warning_handler([&](const std::string& message) {
    heard.push_back(message);
    warn_once("error_test: from the handler");
  });
  warn_once("error_test: from outside");
  CHECK(heard.size() == 2);
}

TEST_CASE("warning: many threads with one text are heard once") {
  std::atomic<int> heard{0};
  Listening listening;
  set_warning_handler([&](const std::string&) { ++heard; });
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) threads.emplace_back([] { warn_once("error_test: from threads"); });
  for (std::thread& t : threads) t.join();
  CHECK(heard == 1);
}
