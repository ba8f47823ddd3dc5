// Launchers of map.cu and map_grad.cu: the rules of MapOps on a GPU.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include <tandem/core/cuda/kernels/strided.h>
#include <tandem/core/dtype.h>
#include <tandem/core/functors.h>

namespace tandem::gpu {

/// The numbers of a map in both of the types that rules compute in.
struct MapNumbers {
  Params<float> real;
  Params<std::int64_t> whole;
};

/// o = (y, x) of `dtype`, which is one that the rule accepts, but not float64.
void launch_map(MapOp op, DType dtype, const MapNumbers& numbers, const Operands<2>& o,
                cudaStream_t stream);
/// o = (dx, saved, dy) of `dtype`: float32, float16 or bfloat16.
void launch_map_grad(MapOp op, DType dtype, const MapNumbers& numbers, const Operands<3>& o,
                     cudaStream_t stream);

}  // namespace tandem::gpu
