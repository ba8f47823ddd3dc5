// Shapes, broadcasting and negative dimensions: core/shape.h.
#include <doctest/doctest.h>

#include <limits>

#include "tests/support/check.h"

#include <tandem/core/shape.h>

using namespace tandem;
using namespace tandem::test;

TEST_CASE("shape: prints like a Python tuple") {
  CHECK(str(Shape{}) == "()");
  CHECK(str(Shape{5}) == "(5,)");
  CHECK(str(Shape{2, 3, 4}) == "(2, 3, 4)");
}

TEST_CASE("shape: no sizes mean one element, a zero none") {
  CHECK(Shape{}.numel() == 1);
  CHECK(Shape{3, 0, 5}.numel() == 0);
  CHECK(Shape{2, 3, 4}.numel() == 24);
}

TEST_CASE("shape: equality looks at the sizes in use alone") {
  Shape a{2, 3, 4};
  a.erase(2);
  CHECK(a == Shape{2, 3});
  CHECK(Shape{2, 3} != Shape{3, 2});
  CHECK(Shape{2} != Shape{2, 1});
  CHECK(Shape{} == Shape());
}

TEST_CASE("shape: insert, push_back and erase keep the order of the others") {
  Shape s{2, 4};
  s.insert(1, 3);
  s.push_back(5);
  s.insert(0, 1);
  CHECK(s == Shape{1, 2, 3, 4, 5});
  s.erase(0);
  s.erase(2);
  CHECK(s == Shape{2, 3, 5});
  CHECK(s.back() == 5);
}

TEST_CASE("shape: eight dimensions fit, nine are refused in every way to make them") {
  Shape eight{1, 2, 3, 4, 5, 6, 7, 8};
  CHECK(eight.dim() == 8);
  CHECK(throws<UsageError>([] { Shape{1, 2, 3, 4, 5, 6, 7, 8, 9}; }, {"9 dimensions", "8"}));
  CHECK(throws<UsageError>([&] { eight.push_back(1); }));
  CHECK(throws<UsageError>([&] { eight.insert(0, 1); }));
  CHECK(throws<UsageError>([] { Shape::filled(9, 1); }));
  CHECK(eight == Shape{1, 2, 3, 4, 5, 6, 7, 8});
}

TEST_CASE("shape: row-major strides, also with zeros") {
  CHECK(contiguous_strides({2, 3, 4}) == Shape{12, 4, 1});
  CHECK(contiguous_strides({}) == Shape{});
  const Shape with_zero = contiguous_strides({2, 0, 4});
  CHECK(with_zero.dim() == 3);
  CHECK(with_zero.back() == 1);
}

TEST_CASE("broadcast: sizes match from the right and 1 stretches") {
  CHECK(broadcast("op", {2, 3}, {2, 3}) == Shape{2, 3});
  CHECK(broadcast("op", {2, 3}, {3}) == Shape{2, 3});
  CHECK(broadcast("op", {2, 1}, {1, 3}) == Shape{2, 3});
  CHECK(broadcast("op", {}, {4, 1}) == Shape{4, 1});
  CHECK(broadcast("op", {8, 1, 6, 1}, {7, 1, 5}) == Shape{8, 7, 6, 5});
  CHECK(broadcast("op", {0}, {1}) == Shape{0});
  CHECK(broadcast("op", {3, 1}, {0}) == Shape{3, 0});
}

TEST_CASE("broadcast: a mismatch names the op and both shapes") {
  CHECK(throws<UsageError>([] { broadcast("add", {2, 3}, {2}); }, {"[add]", "(2, 3)", "(2,)"}));
  CHECK(throws<UsageError>([] { broadcast("add", {0}, {2}); }, {"(0,)", "(2,)"}));
}

TEST_CASE("wrap_dim: negative dimensions count from the end") {
  CHECK(wrap_dim("op", 0, 3) == 0);
  CHECK(wrap_dim("op", 2, 3) == 2);
  CHECK(wrap_dim("op", -1, 3) == 2);
  CHECK(wrap_dim("op", -3, 3) == 0);
}

TEST_CASE("wrap_dim: a 0-dim tensor counts as one dimension") {
  CHECK(wrap_dim("op", 0, 0) == 0);
  CHECK(wrap_dim("op", -1, 0) == 0);
  CHECK(throws<UsageError>([] { wrap_dim("op", 1, 0); }));
}

TEST_CASE("wrap_dim: outside of the range is an error with the op and the range") {
  CHECK(throws<UsageError>([] { wrap_dim("sum", 3, 3); }, {"[sum]", "3", "-3", "2"}));
  CHECK(throws<UsageError>([] { wrap_dim("sum", -4, 3); }));
  CHECK(throws<UsageError>([] { wrap_dim("sum", std::numeric_limits<int>::min(), 3); }));
}
