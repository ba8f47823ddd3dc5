// Products of few rows with many, x W': what a linear layer computes of a small batch. Private to
// core/cpu.
//
// Own code, because oneDNN needs 5 percent more time for 64 rows with 256 of 784 numbers and 30
// percent more for 16 with 512 (AVX2, one thread). The fewer rows are rearranged, into panels of 16
// that are turned. The others are read as they lie: one number at a time is multiplied with a row
// of a panel, and a tile of 6 x 16 sums lies in registers. Every sum is made by itself, in the
// order of the inner dimension, so its bits do not depend on the sizes of the result.
#pragma once

#include <tandem/core/cpu/gemm.h>

namespace tandem::host {

/// Is this product one for panels_product()? Where that was measured to be quicker.
bool panels_take(const Matrix<float>& a, const Matrix<float>& b);
/// c = a b, or c += a b if `accumulate`. c is row-major. REQUIRES: panels_take(a, b), or it took
/// the product that this is a part of.
void panels_product(const Matrix<float>& a, const Matrix<float>& b, float* c, std::int64_t c_stride,
                    bool accumulate);

}  // namespace tandem::host
