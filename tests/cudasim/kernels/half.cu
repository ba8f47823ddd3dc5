// Casts and arithmetic in float16 and bfloat16, with the types of cuda_fp16.h and cuda_bf16.h. Much
// of those headers is inline assembly, which the interpreter has to understand.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "grid.cuh"
#include "kernels.h"

namespace cudasim::kernels {
namespace {

// Arrays of 16-bit values cross the interface as their bits.
const __half* as_half(const std::uint16_t* x) {
  return reinterpret_cast<const __half*>(x);
}
__half* as_half(std::uint16_t* x) {
  return reinterpret_cast<__half*>(x);
}
const __nv_bfloat16* as_bfloat16(const std::uint16_t* x) {
  return reinterpret_cast<const __nv_bfloat16*>(x);
}
__nv_bfloat16* as_bfloat16(std::uint16_t* x) {
  return reinterpret_cast<__nv_bfloat16*>(x);
}

// a * x + y. Before compute_80 there is no bfloat16 arithmetic: float, rounded at the end.
__device__ __nv_bfloat16 fused(__nv_bfloat16 a, __nv_bfloat16 x, __nv_bfloat16 y) {
#if __CUDA_ARCH__ >= 800
  return __hfma(a, x, y);
#else
  return __float2bfloat16_rn(fmaf(__bfloat162float(a), __bfloat162float(x), __bfloat162float(y)));
#endif
}

}  // namespace

extern "C" __global__ void float_to_half_kernel(const float* x, __half* y, std::size_t n) {
  for (std::size_t i : GridStride(n)) y[i] = __float2half_rn(x[i]);
}

extern "C" __global__ void half_to_float_kernel(const __half* x, float* y, std::size_t n) {
  for (std::size_t i : GridStride(n)) y[i] = __half2float(x[i]);
}

extern "C" __global__ void float_to_bfloat16_kernel(const float* x, __nv_bfloat16* y,
                                                    std::size_t n) {
  for (std::size_t i : GridStride(n)) y[i] = __float2bfloat16_rn(x[i]);
}

extern "C" __global__ void bfloat16_to_float_kernel(const __nv_bfloat16* x, float* y,
                                                    std::size_t n) {
  for (std::size_t i : GridStride(n)) y[i] = __bfloat162float(x[i]);
}

extern "C" __global__ void half_axpy_kernel(float a, const __half* x, __half* y, std::size_t n) {
  const __half factor = __float2half_rn(a);
  for (std::size_t i : GridStride(n)) y[i] = __hfma(factor, x[i], y[i]);
}

extern "C" __global__ void half2_axpy_kernel(float a, const __half2* x, __half2* y,
                                             std::size_t pairs) {
  const __half2 factor = __float2half2_rn(a);
  for (std::size_t i : GridStride(pairs)) y[i] = __hfma2(factor, x[i], y[i]);
}

extern "C" __global__ void bfloat16_axpy_kernel(float a, const __nv_bfloat16* x, __nv_bfloat16* y,
                                                std::size_t n) {
  const __nv_bfloat16 factor = __float2bfloat16_rn(a);
  for (std::size_t i : GridStride(n)) y[i] = fused(factor, x[i], y[i]);
}

extern "C" __global__ void half_mix_kernel(const __half* x, __half* y, std::size_t n) {
  for (std::size_t i : GridStride(n)) {
    const __half square = x[i] * x[i];
    y[i] = __hmax(square - x[i], __float2half_rn(0.f)) * __float2half_rn(0.5f);
  }
}

extern "C" __global__ void bfloat16_mix_kernel(const __nv_bfloat16* x, __nv_bfloat16* y,
                                               std::size_t n) {
  for (std::size_t i : GridStride(n)) {
    const __nv_bfloat16 square = x[i] * x[i];
    y[i] = __hmax(square - x[i], __float2bfloat16_rn(0.f)) * __float2bfloat16_rn(0.5f);
  }
}

cudaError_t float_to_half(const float* x, std::uint16_t* y, std::size_t n, cudaStream_t stream) {
  float_to_half_kernel<<<blocks_for(n), kBlock, 0, stream>>>(x, as_half(y), n);
  return cudaGetLastError();
}

cudaError_t half_to_float(const std::uint16_t* x, float* y, std::size_t n, cudaStream_t stream) {
  half_to_float_kernel<<<blocks_for(n), kBlock, 0, stream>>>(as_half(x), y, n);
  return cudaGetLastError();
}

cudaError_t float_to_bfloat16(const float* x, std::uint16_t* y, std::size_t n,
                              cudaStream_t stream) {
  float_to_bfloat16_kernel<<<blocks_for(n), kBlock, 0, stream>>>(x, as_bfloat16(y), n);
  return cudaGetLastError();
}

cudaError_t bfloat16_to_float(const std::uint16_t* x, float* y, std::size_t n,
                              cudaStream_t stream) {
  bfloat16_to_float_kernel<<<blocks_for(n), kBlock, 0, stream>>>(as_bfloat16(x), y, n);
  return cudaGetLastError();
}

cudaError_t half_axpy(float a, const std::uint16_t* x, std::uint16_t* y, std::size_t n,
                      cudaStream_t stream) {
  half_axpy_kernel<<<blocks_for(n), kBlock, 0, stream>>>(a, as_half(x), as_half(y), n);
  return cudaGetLastError();
}

cudaError_t half2_axpy(float a, const std::uint16_t* x, std::uint16_t* y, std::size_t n,
                       cudaStream_t stream) {
  half2_axpy_kernel<<<blocks_for(n / 2), kBlock, 0, stream>>>(
      a, reinterpret_cast<const __half2*>(x), reinterpret_cast<__half2*>(y), n / 2);
  return cudaGetLastError();
}

cudaError_t bfloat16_axpy(float a, const std::uint16_t* x, std::uint16_t* y, std::size_t n,
                          cudaStream_t stream) {
  bfloat16_axpy_kernel<<<blocks_for(n), kBlock, 0, stream>>>(a, as_bfloat16(x), as_bfloat16(y), n);
  return cudaGetLastError();
}

cudaError_t half_mix(const std::uint16_t* x, std::uint16_t* y, std::size_t n, cudaStream_t stream) {
  half_mix_kernel<<<blocks_for(n), kBlock, 0, stream>>>(as_half(x), as_half(y), n);
  return cudaGetLastError();
}

cudaError_t bfloat16_mix(const std::uint16_t* x, std::uint16_t* y, std::size_t n,
                         cudaStream_t stream) {
  bfloat16_mix_kernel<<<blocks_for(n), kBlock, 0, stream>>>(as_bfloat16(x), as_bfloat16(y), n);
  return cudaGetLastError();
}

}  // namespace cudasim::kernels
