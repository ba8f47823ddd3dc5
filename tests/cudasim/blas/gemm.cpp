// See gemm.h.
#include "blas/gemm.h"

#include "ptx/small_float.h"

#include <bit>
#include <cmath>

namespace cudasim::blas {
namespace {

// TF32 keeps 10 of 23 mantissa bits; ties go away from zero (PTX: cvt.rna.tf32.f32).
double round_to_tf32(double value) {
  const auto x = static_cast<float>(value);
  if (!std::isfinite(x)) return x;
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return std::bit_cast<float>((bits + 0x1000u) & ~0x1fffu);
}

// The elements of op(X) of one batch, `outer` vectors of length `inner` that lie side by side:
// rows of op(A), columns of op(B). `swapped`: the elements of a vector lie in different columns of
// X.
std::vector<double> vectors(const Operand& x, std::int64_t batch, std::int64_t outer,
                            std::int64_t inner, bool swapped, Inputs inputs) {
  Operand view = x;
  view.data = static_cast<const char*>(x.data) +
              batch * x.strides[0] * static_cast<std::int64_t>(size_of(x.type));
  const std::int64_t column = x.strides[1], row = x.strides[2];
  view.dims = {outer, inner};
  view.strides = swapped ? std::vector{row, column} : std::vector{column, row};
  std::vector<double> values = read_all(view);
  for (double& v : values) v = round_input(inputs, v);
  return values;
}

}  // namespace

double round_input(Inputs inputs, double value) {
  switch (inputs) {
    case Inputs::exact:
      return value;
    case Inputs::tf32:
      return round_to_tf32(value);
    case Inputs::float16:
      return ptx::Half(value);
    case Inputs::bfloat16:
      return ptx::BFloat16(value);
  }
  return value;
}

void multiply(const Product& p, const Operand& a, const Operand& b, const Operand& c) {
  const bool product = p.alpha != 0 && p.k > 0;
  std::vector<double> out(c.count(), 0.0);
  if (p.beta != 0) out = read_all(c);
  std::size_t at = 0;
  for (std::int64_t batch = 0; batch < p.batches; ++batch) {
    std::vector<double> rows, columns;
    if (product) {
      rows = vectors(a, batch, p.m, p.k, !p.transpose_a, p.inputs);
      columns = vectors(b, batch, p.n, p.k, p.transpose_b, p.inputs);
    }
    for (std::int64_t j = 0; j < p.n; ++j)
      for (std::int64_t i = 0; i < p.m; ++i, ++at) {
        double sum = 0;
        if (product)
          for (std::int64_t l = 0; l < p.k; ++l) sum += rows[i * p.k + l] * columns[j * p.k + l];
        // beta = 0 means that C is not read: 0 times NaN would be NaN.
        out[at] = p.alpha * sum + (p.beta != 0 ? p.beta * out[at] : 0.0);
      }
  }
  write_all(c, out);
}

}  // namespace cudasim::blas
