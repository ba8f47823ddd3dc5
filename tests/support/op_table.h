// The op table: one row per op. A row says how to call the op and what it means in float64; the
// checks (op_checks.h) and the benchmarks iterate the rows.
//
// To add an op, add a row to the op_rows_*.cpp of its family:
//   unary("tanh", {-3, 3}, [](const Tensor& x) { return tanh(x); },
//         [](double x) { return std::tanh(x); })
// That gives its value, gradient, devices, layouts, half types, empty input, special values and
// memory hygiene, each as a test case of its own. References are written out in double
// (reference.h), never through the library.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/check.h"
#include "tests/support/reference.h"

#include <tandem/core/tensor.h>

namespace tandem::test {

/// Which values an input takes: uniform in [low, high), at least 0.05 away from kinks, where a
/// derivative jumps. `distinct`: no two are alike, with gaps that survive rounding to 16 bits.
struct Domain {
  double low = -2, high = 2;
  std::vector<double> kinks{};
  bool distinct = false;
  DType dtype = float32;  // float32 stands for whichever float a check runs in
};

/// For each input its shape.
using Shapes = std::vector<Shape>;

struct OpRow {
  std::string name;
  std::vector<Domain> inputs;
  /// The first is what bench/ times. Every check but `empty` runs over all of them.
  std::vector<Shapes> shapes;

  std::function<std::vector<Tensor>(const std::vector<Tensor>&)> op;
  std::function<std::vector<Dense>(const std::vector<Dense>&)> reference;

  /// Empty calls; none: the op refuses them.
  std::vector<Shapes> empty{};
  /// dtype of the outputs; none: the float that the check runs in.
  std::optional<DType> result{};
  bool gradient = true;             // is it differentiable?
  bool layouts = true;              // does it take any strides? (view() does not)
  bool special = false;             // pointwise, and the reference knows NaN and infinities
  bool moves = false;               // it copies between devices, or to the host
  bool half = true;                 // does it take float16 and bfloat16?
  double half_roundings = 1;        // roundings to 16 bits between input and output
  Tolerance tolerance{5e-7, 1e-6};  // in float32: a few units in the last place
};

/// All rows, in the order of core/ops/*.h.
const std::vector<OpRow>& op_table();

/// The values of input `i` for `shape`, rounded to `float_type` or the domain's own dtype.
Dense op_input(const Domain& domain, const Shape& shape, DType float_type, std::uint64_t seed);

/// Inputs of the row's first shapes on `device`, row-major.
std::vector<Tensor> op_inputs(const OpRow& row, Device device, DType float_type = float32);

// ---- rows of common kinds; what is left out of `more` has OpRow's defaults

/// What a row may say beyond its formula.
struct RowOptions {
  std::optional<DType> result{};
  bool gradient = true;
  bool special = true;
  double half_roundings = 1;
  Tolerance tolerance{5e-7, 1e-6};
};

/// One tensor in, one of the same shape out.
OpRow unary(std::string name, Domain domain, std::function<Tensor(const Tensor&)> op,
            std::function<double(double)> f, RowOptions more = {});

/// Two tensors in, which broadcast.
OpRow binary(std::string name, Domain a, Domain b,
             std::function<Tensor(const Tensor&, const Tensor&)> op,
             std::function<double(double, double)> f, RowOptions more = {});

/// One tensor in, one or several out, of any shape: reductions and views.
OpRow from_one(std::string name, Domain domain, std::vector<Shape> shapes,
               std::function<std::vector<Tensor>(const Tensor&)> op,
               std::function<std::vector<Dense>(const Dense&)> reference,
               std::vector<Shape> empty = {});

// The families; each is one file.
void add_pointwise_rows(std::vector<OpRow>& rows);
void add_binary_rows(std::vector<OpRow>& rows);
void add_reduce_rows(std::vector<OpRow>& rows);
void add_linalg_rows(std::vector<OpRow>& rows);
void add_image_rows(std::vector<OpRow>& rows);
void add_norm_rows(std::vector<OpRow>& rows);
void add_view_rows(std::vector<OpRow>& rows);
void add_indexing_rows(std::vector<OpRow>& rows);
void add_loss_rows(std::vector<OpRow>& rows);

}  // namespace tandem::test
