// main() of all test programs: doctest's, after cases that are made at run time are registered.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <tandem/core/thread_state.h>

#include "tests/support/check.h"

int main(int argc, char** argv) {
  tandem::thread_state().default_device = tandem::test::dev(0);
  for (const auto& prepare : tandem::test::before_tests()) prepare();
  return doctest::Context(argc, argv).run();
}
