// Matrix products in plain loops: what products.cpp queues. Column-major, as in BLAS.
#pragma once

#include "runtime/operand.h"

#include <cstdint>

namespace cudasim::blas {

struct Product {
  std::int64_t batches, m, n, k;
  bool transpose_a, transpose_b;
  double alpha, beta;
  Inputs inputs;
};

// C = alpha op(A) op(B) + beta C for every batch. The sums are float64, rounded once to C's type.
// Dimensions: A {batches, columns, rows}, likewise B and C. Unless alpha and k are non-zero, A and
// B are not touched; unless beta is, C is not read.
void multiply(const Product& product, const Operand& a, const Operand& b, const Operand& c);

}  // namespace cudasim::blas
