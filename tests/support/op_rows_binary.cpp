// Rows of the pointwise ops with two or three tensors (core/ops/pointwise.h).
#include <cmath>

#include "tests/support/op_table.h"

#include <tandem/core/ops/pointwise.h>

namespace tandem::test {
namespace {

using T = const Tensor&;

const Domain kAll{-2, 2};
const Domain kPositive{0.4, 2};
const Domain kInt{-3, 4, {}, false, int64};
const Domain kBool{0, 1, {}, false, boolean};

double larger(double a, double b) {
  return std::isnan(a) || a > b ? a : b;
}
double smaller(double a, double b) {
  return std::isnan(a) || a < b ? a : b;
}

void add_arithmetic(std::vector<OpRow>& rows) {
  rows.push_back(binary(
      "add", kAll, kAll, [](T a, T b) { return a + b; }, [](double a, double b) { return a + b; }));
  rows.push_back(binary(
      "sub", kAll, kAll, [](T a, T b) { return a - b; }, [](double a, double b) { return a - b; }));
  rows.push_back(binary(
      "mul", kAll, kAll, [](T a, T b) { return a * b; }, [](double a, double b) { return a * b; }));
  rows.push_back(binary(
      "div", kAll, kPositive, [](T a, T b) { return a / b; },
      [](double a, double b) { return a / b; }));
  rows.push_back(binary(
      "pow", kPositive, kAll, [](T a, T b) { return pow(a, b); },
      [](double a, double b) { return std::pow(a, b); }));
  rows.push_back(binary(
      "maximum", kAll, kAll, [](T a, T b) { return maximum(a, b); }, larger));
  rows.push_back(binary(
      "minimum", kAll, kAll, [](T a, T b) { return minimum(a, b); }, smaller));

  const RowOptions is_int{.result = int64, .gradient = false, .special = false};
  rows.push_back(binary(
      "add (int64)", kInt, kInt, [](T a, T b) { return a + b; },
      [](double a, double b) { return a + b; }, is_int));
  rows.push_back(binary(
      "sub (int64)", kInt, kInt, [](T a, T b) { return a - b; },
      [](double a, double b) { return a - b; }, is_int));
  rows.push_back(binary(
      "mul (int64)", kInt, kInt, [](T a, T b) { return a * b; },
      [](double a, double b) { return a * b; }, is_int));
  rows.push_back(binary(
      "maximum (int64)", kInt, kInt, [](T a, T b) { return maximum(a, b); }, larger, is_int));
  rows.push_back(binary(
      "minimum (int64)", kInt, kInt, [](T a, T b) { return minimum(a, b); }, smaller, is_int));
  rows.push_back(binary(
      "div (int64)", kInt, {1, 5, {}, false, int64}, [](T a, T b) { return a / b; },
      [](double a, double b) { return a / b; },
      {.result = float32, .gradient = false, .special = false}));
}

void add_comparisons(std::vector<OpRow>& rows) {
  struct Comparison {
    const char* name;
    Tensor (*op)(T, T);
    double (*f)(double, double);
  };
  const Comparison all[] = {
      {"eq", eq, [](double a, double b) { return double(a == b); }},
      {"ne", ne, [](double a, double b) { return double(a != b); }},
      {"lt", lt, [](double a, double b) { return double(a < b); }},
      {"le", le, [](double a, double b) { return double(a <= b); }},
      {"gt", gt, [](double a, double b) { return double(a > b); }},
      {"ge", ge, [](double a, double b) { return double(a >= b); }},
  };
  for (const Comparison& c : all) {
    rows.push_back(binary(c.name, kAll, kAll, c.op, c.f, {.result = boolean, .gradient = false}));
    rows.push_back(binary(str(c.name, " (int64)"), kInt, kInt, c.op, c.f,
                          {.result = boolean, .gradient = false, .special = false}));
  }
}

void add_logic(std::vector<OpRow>& rows) {
  const RowOptions is_bool{.result = boolean, .gradient = false, .special = false};
  rows.push_back(binary(
      "logical_and", kBool, kBool, [](T a, T b) { return a & b; },
      [](double a, double b) { return a * b; }, is_bool));
  rows.push_back(binary(
      "logical_or", kBool, kBool, [](T a, T b) { return a | b; },
      [](double a, double b) { return a + b > 0; }, is_bool));
  rows.push_back(binary(
      "logical_xor", kBool, kBool, [](T a, T b) { return a ^ b; },
      [](double a, double b) { return a + b == 1; }, is_bool));
}

void add_where(std::vector<OpRow>& rows) {
  OpRow row;
  row.name = "where";
  row.inputs = {kBool, kAll, kAll};
  row.shapes = {{{5, 7}, {5, 7}, {5, 7}}, {{5, 1}, {7}, {5, 7}}, {{5, 7}, {}, {5, 1}},
                {{}, {5}, {2, 1}},        {{}, {}, {}},          {{2, 3, 1}, {3, 4}, {1}}};
  row.empty = {{{0}, {0}, {0}}, {{3, 1}, {0}, {}}};
  row.op = [](const std::vector<Tensor>& x) { return std::vector{where(x[0], x[1], x[2])}; };
  row.reference = [](const std::vector<Dense>& x) {
    return std::vector{pointwise(x[0], x[1], x[2], [](double condition, double a, double b) {
      return condition != 0 ? a : b;
    })};
  };
  rows.push_back(row);
  row.name = "where (int64)";
  row.inputs = {kBool, kInt, kInt};
  row.result = int64;
  row.gradient = row.half = false;
  rows.push_back(row);
}

}  // namespace

void add_binary_rows(std::vector<OpRow>& rows) {
  add_arithmetic(rows);
  add_comparisons(rows);
  add_logic(rows);
  add_where(rows);
}

}  // namespace tandem::test
