// Rows of the pointwise ops with one tensor (core/ops/pointwise.h), and dropout.
#include <cmath>

#include "tests/support/op_table.h"

#include <tandem/core/ops/dropout.h>
#include <tandem/core/ops/factories.h>
#include <tandem/core/ops/pointwise.h>
#include <tandem/core/random.h>

namespace tandem::test {
namespace {

using T = const Tensor&;

const Domain kAll{-2, 2};
const Domain kPositive{0.2, 3};
const Domain kInt{-9, 9, {}, false, int64};
const Domain kBool{0, 1, {}, false, boolean};

// y = f(x) without a number
void add_functions(std::vector<OpRow>& rows) {
  rows.push_back(unary(
      "neg", kAll, [](T x) { return -x; }, [](double x) { return -x; }));
  rows.push_back(unary(
      "abs", {-2, 2, {0}}, [](T x) { return abs(x); }, [](double x) { return x < 0 ? -x : x; }));
  rows.push_back(unary(
      "exp", {-3, 3}, [](T x) { return exp(x); }, [](double x) { return std::exp(x); }));
  rows.push_back(unary(
      "log", kPositive, [](T x) { return log(x); }, [](double x) { return std::log(x); }));
  rows.push_back(unary(
      "sqrt", kPositive, [](T x) { return sqrt(x); }, [](double x) { return std::sqrt(x); }));
  rows.push_back(unary(
      "tanh", {-3, 3}, [](T x) { return tanh(x); }, [](double x) { return std::tanh(x); }));
  rows.push_back(unary(
      "sigmoid", {-4, 4}, [](T x) { return sigmoid(x); },
      [](double x) { return 1 / (1 + std::exp(-x)); }));
  rows.push_back(unary(
      "relu", {-2, 2, {0}}, [](T x) { return relu(x); }, [](double x) { return x < 0 ? 0 : x; }));
  rows.push_back(unary(
      "gelu", {-3, 3}, [](T x) { return gelu(x); },
      [](double x) { return x * 0.5 * std::erfc(-x / std::sqrt(2.0)); }));
  rows.push_back(unary(
      "silu", {-4, 4}, [](T x) { return silu(x); },
      [](double x) { return x / (1 + std::exp(-x)); }));
  rows.push_back(unary(
      "leaky_relu", {-2, 2, {0}}, [](T x) { return leaky_relu(x); },
      [](double x) { return x < 0 ? 0.01 * x : x; }));
  rows.push_back(unary(
      "leaky_relu (negative slope)", {-2, 2, {0}}, [](T x) { return leaky_relu(x, -0.5); },
      [](double x) { return x < 0 ? -0.5 * x : x; }));
  rows.push_back(unary(
      "clamp", {-2, 2, {-1, 0.5}}, [](T x) { return clamp(x, -1, 0.5); },
      [](double x) { return x < -1    ? -1
                            : x > 0.5 ? 0.5
                                      : x; }));
}

// One operand is a number.
void add_numbers(std::vector<OpRow>& rows) {
  rows.push_back(unary(
      "add (number)", kAll, [](T x) { return 0.75 + (x + 0.5); }, [](double x) { return x + 1.25; },
      {.half_roundings = 2}));
  rows.push_back(unary(
      "sub (number)", kAll, [](T x) { return x - 0.75; }, [](double x) { return x - 0.75; }));
  rows.push_back(unary(
      "sub (from a number)", kAll, [](T x) { return 0.75 - x; },
      [](double x) { return 0.75 - x; }));
  rows.push_back(unary(
      "mul (number)", kAll, [](T x) { return x * 1.75; }, [](double x) { return x * 1.75; }));
  rows.push_back(unary(
      "div (number)", kAll, [](T x) { return x / 3; }, [](double x) { return x / 3; }));
  rows.push_back(unary(
      "div (of a number)", kPositive, [](T x) { return 3 / x; }, [](double x) { return 3 / x; }));
  rows.push_back(unary(
      "pow (cube)", kAll, [](T x) { return pow(x, 3); }, [](double x) { return x * x * x; }));
  rows.push_back(unary(
      "pow (square)", kAll, [](T x) { return pow(x, 2); }, [](double x) { return x * x; }));
  rows.push_back(unary(
      "pow (fraction)", kPositive, [](T x) { return pow(x, 1.5); },
      [](double x) { return std::pow(x, 1.5); }));
  rows.push_back(unary(
      "pow (negative)", kPositive, [](T x) { return pow(x, -2); },
      [](double x) { return 1 / (x * x); }));
  rows.push_back(unary(
      "pow (of a number)", kAll, [](T x) { return pow(2.5, x); },
      [](double x) { return std::pow(2.5, x); }));
}

void add_comparisons(std::vector<OpRow>& rows) {
  const RowOptions is_bool{.result = boolean, .gradient = false};
  const Domain near_half{-1, 2};
  rows.push_back(unary(
      "eq (number)", near_half, [](T x) { return x == 0.5; }, [](double x) { return x == 0.5; },
      is_bool));
  rows.push_back(unary(
      "ne (number)", near_half, [](T x) { return x != 0.5; }, [](double x) { return x != 0.5; },
      is_bool));
  rows.push_back(unary(
      "lt (number)", near_half, [](T x) { return x < 0.5; }, [](double x) { return x < 0.5; },
      is_bool));
  rows.push_back(unary(
      "le (number)", near_half, [](T x) { return x <= 0.5; }, [](double x) { return x <= 0.5; },
      is_bool));
  rows.push_back(unary(
      "gt (number)", near_half, [](T x) { return x > 0.5; }, [](double x) { return x > 0.5; },
      is_bool));
  rows.push_back(unary(
      "ge (number)", near_half, [](T x) { return x >= 0.5; }, [](double x) { return x >= 0.5; },
      is_bool));
  rows.push_back(unary(
      "logical_not", kBool, [](T x) { return !x; }, [](double x) { return x == 0; },
      {boolean, false, false}));
}

void add_integers(std::vector<OpRow>& rows) {
  const RowOptions is_int{.result = int64, .gradient = false, .special = false};
  const RowOptions is_float{.result = float32, .gradient = false, .special = false};
  rows.push_back(unary(
      "neg (int64)", kInt, [](T x) { return -x; }, [](double x) { return -x; }, is_int));
  rows.push_back(unary(
      "abs (int64)", kInt, [](T x) { return abs(x); }, [](double x) { return std::fabs(x); },
      is_int));
  rows.push_back(unary(
      "relu (int64)", kInt, [](T x) { return relu(x); }, [](double x) { return x < 0 ? 0 : x; },
      is_int));
  rows.push_back(unary(
      "clamp (int64)", kInt, [](T x) { return clamp(x, -3, 4); },
      [](double x) { return x < -3  ? -3
                            : x > 4 ? 4
                                    : x; }, is_int));
  rows.push_back(unary(
      "add (int64 and number)", kInt, [](T x) { return x + 5; }, [](double x) { return x + 5; },
      is_int));
  rows.push_back(unary(
      "mul (int64 and number)", kInt, [](T x) { return 3 * x; }, [](double x) { return x * 3; },
      is_int));
  rows.push_back(unary(
      "mul (int64 and fraction)", kInt, [](T x) { return x * 0.5; },
      [](double x) { return x * 0.5; }, is_float));
  rows.push_back(unary(
      "div (int64 and number)", kInt, [](T x) { return x / 2; }, [](double x) { return x / 2; },
      is_float));
  rows.push_back(unary(
      "exp (int64)", kInt, [](T x) { return exp(x); }, [](double x) { return std::exp(x); },
      is_float));
  rows.push_back(unary(
      "sqrt (bool)", kBool, [](T x) { return sqrt(x); }, [](double x) { return x; }, is_float));
}

// Dropout's mask is random; these properties are not. dropout_test.cpp knows the mask itself.
void add_dropout(std::vector<OpRow>& rows) {
  const RowOptions plain{.special = false};
  rows.push_back(unary(
      "dropout (p 0)", kAll, [](T x) { return dropout(x, 0); }, [](double x) { return x; }, plain));
  rows.push_back(unary(
      "dropout (p 1)", kAll, [](T x) { return dropout(x, 1); }, [](double) { return 0; }, plain));
  rows.push_back(unary(
      "dropout (evaluation)", kAll, [](T x) { return dropout(x, 0.5, false); },
      [](double x) { return x; }, plain));
  // The same key gives the same mask to another tensor: y - x mask = 0, and so is its gradient.
  rows.push_back(unary(
      "dropout (one key gives one mask)", kAll,
      [](T x) {
        manual_seed(7);
        const Tensor mask = dropout(ones(x.shape(), {x.dtype(), x.device()}), 0.5);
        manual_seed(7);
        return dropout(x, 0.5) - x * mask;
      },
      [](double) { return 0; }, plain));
}

}  // namespace

void add_pointwise_rows(std::vector<OpRow>& rows) {
  add_functions(rows);
  add_numbers(rows);
  add_comparisons(rows);
  add_integers(rows);
  add_dropout(rows);
}

}  // namespace tandem::test
