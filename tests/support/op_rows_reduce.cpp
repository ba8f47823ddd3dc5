// Rows of reductions, softmax and matrix products (core/ops/reduce.h, softmax.h, linalg.h).
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "tests/support/op_table.h"

#include <tandem/core/ops/linalg.h>
#include <tandem/core/ops/reduce.h>
#include <tandem/core/ops/softmax.h>

namespace tandem::test {
namespace {

using T = const Tensor&;
using Values = std::vector<double>;
using Dims = std::vector<int>;

const Domain kAll{-2, 2};
const Domain kApart{-2, 2, {}, true};
const Domain kInt{-9, 9, {}, false, int64};
const Domain kBool{0, 1, {}, false, boolean};

double total(const Values& v) {
  return std::accumulate(v.begin(), v.end(), 0.0);
}
double average(const Values& v) {
  return total(v) / double(v.size());
}
double largest(const Values& v) {
  return *std::max_element(v.begin(), v.end());
}
double smallest(const Values& v) {
  return *std::min_element(v.begin(), v.end());
}
double first_largest(const Values& v) {
  return double(std::max_element(v.begin(), v.end()) - v.begin());
}
double first_smallest(const Values& v) {
  return double(std::min_element(v.begin(), v.end()) - v.begin());
}

const std::vector<Shape> kAnyShapes{{5, 7}, {}, {1}, {2, 3, 4}, {1037}, {40, 33}, {1, 2, 1, 3}};
const std::vector<Shape> kThreeDims{{2, 3, 4}, {3, 1, 5}, {17, 3, 33}};
// Every way to choose among three dimensions, and some with negative ones.
const std::vector<Dims> kChoices{{0}, {1}, {2}, {0, 1}, {0, 2}, {1, 2}, {0, 1, 2}};

struct Reduction {
  const char* name;
  Domain domain;
  Tensor (*all)(T);
  Tensor (*over)(T, const Dims&, bool);
  double (*f)(const Values&);
  std::optional<DType> result;
  double half_roundings;
  bool takes_empty;
};

// Sums of a thousand numbers below 2 in float32: their rounding errors add up.
const Tolerance kSums{2e-6, 2e-5};

void add_reduction(std::vector<OpRow>& rows, const Reduction& r) {
  OpRow whole = from_one(
      r.name, r.domain, kAnyShapes, [r](T x) { return std::vector{r.all(x)}; },
      [r](const Dense& x) { return std::vector{fold(x, {}, false, r.f)}; });
  OpRow some = from_one(
      str(r.name, " (over dims)"), r.domain, kThreeDims,
      [r](T x) {
        std::vector<Tensor> results;
        for (const Dims& dims : kChoices) results.push_back(r.over(x, dims, false));
        results.push_back(r.over(x, {-1}, false));
        results.push_back(r.over(x, {-1, 0}, false));
        return results;
      },
      [r](const Dense& x) {
        std::vector<Dense> results;
        for (const Dims& dims : kChoices) results.push_back(fold(x, dims, false, r.f));
        results.push_back(fold(x, {2}, false, r.f));
        results.push_back(fold(x, {0, 2}, false, r.f));
        return results;
      });
  OpRow keep = from_one(
      str(r.name, " (keepdim)"), r.domain, kThreeDims,
      [r](T x) {
        return std::vector{r.over(x, {1}, true), r.over(x, {0, -1}, true), r.over(x, {}, true)};
      },
      [r](const Dense& x) {
        return std::vector{fold(x, {1}, true, r.f), fold(x, {0, 2}, true, r.f),
                           fold(x, {}, true, r.f)};
      });
  if (r.takes_empty) {
    whole.empty = {{{0}}, {{3, 0}}};
    some.empty = {{{0, 3, 2}}, {{3, 0, 2}}, {{3, 2, 0}}};
    keep.empty = some.empty;
  }
  for (OpRow* row : {&whole, &some, &keep}) {
    row->result = r.result;
    row->gradient = !r.result;
    row->half_roundings = r.half_roundings;
    row->tolerance = kSums;
    rows.push_back(std::move(*row));
  }
}

struct ArgReduction {
  const char* name;
  Tensor (*all)(T);
  Tensor (*along)(T, int, bool);
  double (*f)(const Values&);
};

void add_arg_reduction(std::vector<OpRow>& rows, const ArgReduction& r) {
  for (const bool ints : {false, true}) {  // integers have ties: the first one counts
    OpRow row = from_one(
        ints ? str(r.name, " (int64)") : str(r.name), ints ? kInt : kApart, kThreeDims,
        [r](T x) {
          return std::vector{r.all(x), r.along(x, 0, false), r.along(x, 1, true),
                             r.along(x, -1, false)};
        },
        [r](const Dense& x) {
          return std::vector{fold(x, {}, false, r.f), fold(x, {0}, false, r.f),
                             fold(x, {1}, true, r.f), fold(x, {2}, false, r.f)};
        });
    row.result = int64;
    row.gradient = false;
    rows.push_back(row);
  }
}

void add_softmax(std::vector<OpRow>& rows) {
  for (const bool log : {false, true}) {
    for (const bool wide : {false, true}) {
      OpRow row = from_one(
          str(log ? "log_softmax" : "softmax", wide ? " (large values)" : ""),
          wide ? Domain{-80, 80} : Domain{-3, 3}, {{5, 7}, {2, 3, 4}, {11}, {3, 1}, {4, 150}},
          [log](T x) {
            std::vector<Tensor> results;
            for (int d = -1; d < x.dim(); ++d) {
              results.push_back(log ? log_softmax(x, d) : softmax(x, d));
            }
            return results;
          },
          [log](const Dense& x) {
            std::vector<Dense> results{softmax_along(x, x.shape.dim() - 1, log)};
            for (int d = 0; d < x.shape.dim(); ++d) results.push_back(softmax_along(x, d, log));
            return results;
          },
          {{0, 3}, {2, 0}});
      // exp() magnifies the error of x - max by |x - max|
      row.tolerance = wide ? Tolerance{2e-5, 1e-6} : Tolerance{2e-6, 1e-6};
      rows.push_back(row);
    }
  }
}

OpRow product(std::string name, std::vector<Shapes> shapes, std::vector<Shapes> empty) {
  OpRow row;
  row.name = std::move(name);
  row.inputs = {kAll, kAll};
  row.shapes = std::move(shapes);
  row.empty = std::move(empty);
  row.op = [](const std::vector<Tensor>& x) { return std::vector{matmul(x[0], x[1])}; };
  row.reference = [](const std::vector<Dense>& x) {
    return std::vector{matrix_product(x[0], x[1])};
  };
  row.tolerance = kSums;
  return row;
}

Dense affine(const std::vector<Dense>& in) {
  const Dense y = matrix_product(in[0], permuted(in[1], {1, 0}));
  return in.size() < 3 ? y : pointwise(y, in[2], [](double a, double b) { return a + b; });
}

void add_linear(std::vector<OpRow>& rows) {
  OpRow row;
  row.name = "linear";
  row.inputs = {kAll, kAll, kAll};
  row.shapes = {{{3, 4}, {5, 4}, {5}}, {{2, 3, 4}, {5, 4}, {5}},    {{4}, {5, 4}, {5}},
                {{1, 4}, {1, 4}, {1}}, {{2, 1, 2, 4}, {3, 4}, {3}}, {{33, 70}, {41, 70}, {41}}};
  row.empty = {{{0, 4}, {5, 4}, {5}}, {{3, 0}, {5, 0}, {5}}, {{2, 0, 4}, {5, 4}, {5}}};
  row.op = [](const std::vector<Tensor>& x) { return std::vector{linear(x[0], x[1], x[2])}; };
  row.reference = [](const std::vector<Dense>& x) { return std::vector{affine(x)}; };
  row.tolerance = kSums;
  row.half_roundings = 2;  // the product, then the sum with the bias
  rows.push_back(row);

  row.name = "linear (no bias)";
  row.inputs.pop_back();
  for (Shapes& shapes : row.shapes) shapes.pop_back();
  for (Shapes& shapes : row.empty) shapes.pop_back();
  row.op = [](const std::vector<Tensor>& x) { return std::vector{linear(x[0], x[1])}; };
  row.half_roundings = 1;
  rows.push_back(row);
}

// Few elements: where a sum is 0 but for its rounding, the derivative is anybody's guess.
void add_linear_relu(std::vector<OpRow>& rows) {
  OpRow row;
  row.name = "linear_relu";
  row.inputs = {kAll, kAll, kAll};
  row.shapes = {{{3, 4}, {5, 4}, {5}}, {{2, 3, 4}, {5, 4}, {5}}, {{4}, {5, 4}, {5}},
                {{1, 4}, {1, 4}, {1}}, {{40, 3}, {3, 3}, {3}},   {{2, 5}, {300, 5}, {300}}};
  row.empty = {{{0, 4}, {5, 4}, {5}}, {{3, 0}, {5, 0}, {5}}, {{2, 0, 4}, {5, 4}, {5}}};
  row.op = [](const std::vector<Tensor>& x) { return std::vector{linear_relu(x[0], x[1], x[2])}; };
  row.reference = [](const std::vector<Dense>& x) {
    return std::vector{pointwise(affine(x), [](double v) { return std::max(v, 0.0); })};
  };
  row.tolerance = kSums;
  row.half_roundings = 2;  // the product, then the sum with the bias
  rows.push_back(row);
}

}  // namespace

void add_reduce_rows(std::vector<OpRow>& rows) {
  add_reduction(rows, {"sum", kAll, sum, sum, total, {}, 1, true});
  add_reduction(rows, {"mean", kAll, mean, mean, average, {}, 2, true});
  add_reduction(rows, {"max", kApart, max, max, largest, {}, 1, false});
  add_reduction(rows, {"min", kApart, min, min, smallest, {}, 1, false});
  add_reduction(rows, {"sum (int64)", kInt, sum, sum, total, int64, 1, true});
  add_reduction(rows, {"sum (bool)", kBool, sum, sum, total, int64, 1, true});
  add_reduction(rows, {"max (int64)", kInt, max, max, largest, int64, 1, false});
  add_reduction(rows, {"min (int64)", kInt, min, min, smallest, int64, 1, false});
  add_arg_reduction(rows, {"argmax", argmax, argmax, first_largest});
  add_arg_reduction(rows, {"argmin", argmin, argmin, first_smallest});
  add_softmax(rows);
}

void add_linalg_rows(std::vector<OpRow>& rows) {
  rows.push_back(product(
      "matmul", {{{3, 4}, {4, 5}}, {{1, 1}, {1, 1}}, {{1, 7}, {7, 1}}, {{33, 70}, {70, 41}}},
      {{{0, 4}, {4, 5}}, {{3, 0}, {0, 5}}, {{3, 4}, {4, 0}}}));
  rows.push_back(product("matmul (vectors)",
                         {{{4}, {4}}, {{3, 4}, {4}}, {{4}, {4, 5}}, {{1}, {1}}, {{300}, {300}}},
                         {{{0}, {0}}, {{3, 0}, {0}}, {{0}, {0, 5}}}));
  rows.push_back(product("matmul (batches)",
                         {{{2, 3, 4}, {2, 4, 5}},
                          {{2, 3, 4}, {4, 5}},
                          {{3, 4}, {2, 4, 5}},
                          {{2, 1, 3, 4}, {3, 4, 2}},
                          {{1, 3, 4}, {2, 4, 5}},
                          {{4}, {2, 4, 3}},
                          {{2, 3, 4}, {4}},
                          {{2, 3, 1, 4}, {1, 3, 4, 2}}},
                         {{{0, 3, 4}, {0, 4, 5}}, {{2, 3, 0}, {2, 0, 5}}, {{2, 0, 4}, {4, 5}}}));
  add_linear(rows);
  add_linear_relu(rows);
}

}  // namespace tandem::test
