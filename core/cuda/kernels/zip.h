// Launchers of zip.cu and zip_grad.cu: the rules of ZipOps on a GPU.
#pragma once

#include <cuda_runtime_api.h>

#include <tandem/core/cuda/kernels/strided.h>
#include <tandem/core/dtype.h>
#include <tandem/core/functors.h>

namespace tandem::gpu {

/// o = (y, a, b); a and b of `dtype`, which is one that the rule accepts, but not float64. y is of
/// `dtype`, or bool if the rule compares.
void launch_zip(ZipOp op, DType dtype, const Operands<3>& o, cudaStream_t stream);
/// o = (dx, a, b, dy) of `dtype`: float32, float16 or bfloat16. REQUIRES: the rule's derivative
/// with respect to `operand` is a formula.
void launch_zip_grad(ZipOp op, int operand, DType dtype, const Operands<4>& o, cudaStream_t stream);

}  // namespace tandem::gpu
