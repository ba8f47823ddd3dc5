// See gemm.h.
#include "blas/gemm.h"

namespace cudasim::blas {
namespace {

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
  return read_all(view, inputs);
}

}  // namespace

void multiply(const Product& p, const Operand& a, const Operand& b, const Operand& c) {
  std::vector<double> sums(c.count(), 0.0);
  std::size_t at = 0;
  if (p.alpha != 0 && p.k > 0)
    for (std::int64_t batch = 0; batch < p.batches; ++batch) {
      const auto rows = vectors(a, batch, p.m, p.k, !p.transpose_a, p.inputs);
      const auto columns = vectors(b, batch, p.n, p.k, p.transpose_b, p.inputs);
      for (std::int64_t j = 0; j < p.n; ++j)
        for (std::int64_t i = 0; i < p.m; ++i, ++at)
          for (std::int64_t l = 0; l < p.k; ++l)
            sums[at] += rows[i * p.k + l] * columns[j * p.k + l];
    }
  write_scaled(c, std::move(sums), p.alpha, p.beta);
}

}  // namespace cudasim::blas
