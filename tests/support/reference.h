// Float64 truth for the op table: dense host arrays and formulas written out as loops.
//
// Slow, obvious, and free of the library: only Shape is borrowed, as a list of sizes.
// Next: op_table.h.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <tandem/core/shape.h>

namespace tandem::test {

using Index = std::vector<std::int64_t>;

struct Dense {
  Shape shape;
  std::vector<double> values;  // row-major

  double at(const Index& index) const;
  /// The element that `index` of a larger shape means under broadcasting.
  double at_broadcast(const Index& index) const;
};

/// The array of `shape` whose element at `index` is f(index).
Dense dense(const Shape& shape, const std::function<double(const Index&)>& f);

// y = f(x), y = f(a, b), y = f(a, b, c), broadcasting from the right.
Dense pointwise(const Dense& x, const std::function<double(double)>& f);
Dense pointwise(const Dense& a, const Dense& b, const std::function<double(double, double)>& f);
Dense pointwise(const Dense& a, const Dense& b, const Dense& c,
                const std::function<double(double, double, double)>& f);

/// f(all elements along `dims`, in row-major order), for each position of the other dimensions.
/// Dimensions are not negative; none: all of them.
Dense fold(const Dense& x, const std::vector<int>& dims, bool keepdim,
           const std::function<double(const std::vector<double>&)>& f);

/// exp(x - max) / sum exp(x - max) along `dim`, or its logarithm.
Dense softmax_along(const Dense& x, int dim, bool log);

/// Row times column, with the rules for vectors and batches of numpy.matmul.
Dense matrix_product(const Dense& a, const Dense& b);

Dense reshaped(const Dense& x, const Shape& shape);
/// Dimension i of the result is dimension order[i] of x.
Dense permuted(const Dense& x, const std::vector<int>& order);
/// start, start + step, ... (`length` of them) along `dim`.
Dense sliced(const Dense& x, int dim, std::int64_t start, std::int64_t length,
             std::int64_t step = 1);
Dense joined(const std::vector<Dense>& parts, int dim);

}  // namespace tandem::test
