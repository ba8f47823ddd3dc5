// Pointwise kernels: one value in, one value out, grid-stride. See kernels.h for what each
// computes.
#include "grid.cuh"
#include "kernels.h"

namespace cudasim::kernels {

extern "C" __global__ void relu_kernel(const float* x, float* y, std::size_t n) {
  for (std::size_t i : GridStride(n)) y[i] = x[i] > 0.f ? x[i] : 0.f;
}

extern "C" __global__ void gelu_kernel(const float* x, float* y, std::size_t n) {
  for (std::size_t i : GridStride(n)) y[i] = 0.5f * x[i] * (1.f + erff(x[i] * 0.70710678f));
}

extern "C" __global__ void axpy_kernel(float a, const float* x, float* y, std::size_t n) {
  for (std::size_t i : GridStride(n)) y[i] += a * x[i];
}

extern "C" __global__ void scale4_kernel(float a, float4* x, std::size_t quads) {
  for (std::size_t i : GridStride(quads)) {
    float4 v = x[i];
    v.x *= a;
    v.y *= a;
    v.z *= a;
    v.w *= a;
    x[i] = v;
  }
}

extern "C" __global__ void add_broadcast_kernel(const float* a, const float* b, float* y,
                                                Broadcast s) {
  const std::size_t n = std::size_t(s.size[0]) * s.size[1] * s.size[2];
  for (std::size_t i : GridStride(n)) {
    const int k = int(i % s.size[2]);
    const int j = int(i / s.size[2] % s.size[1]);
    const int l = int(i / s.size[2] / s.size[1]);
    y[i] = a[l * s.a_stride[0] + j * s.a_stride[1] + k * s.a_stride[2]] +
           b[l * s.b_stride[0] + j * s.b_stride[1] + k * s.b_stride[2]];
  }
}

extern "C" __global__ void unscale_kernel(float* g, std::size_t n, float inverse_scale,
                                          int* found) {
  bool bad = false;
  for (std::size_t i : GridStride(n)) {
    g[i] *= inverse_scale;
    bad |= !isfinite(g[i]);
  }
  if (__ballot_sync(kFullWarp, bad) != 0 && threadIdx.x % kWarp == 0) atomicOr(found, 1);
}

extern "C" __global__ void apply_kernel(int op, const float* x, float* y, std::size_t n) {
  for (std::size_t i : GridStride(n)) {
    float v = x[i];
    switch (op) {
      case 1:
        v = -v;
        break;
      case 2:
        v = fabsf(v);
        break;
      case 3:
        v = v * v;
        break;
      case 4:
        v = 1.f / v;
        break;
      case 5:
        v = sqrtf(v);
        break;
      case 6:
        v = rsqrtf(v);
        break;
      case 7:
        v = expf(v);
        break;
      case 8:
        v = logf(v);
        break;
      case 9:
        v = tanhf(v);
        break;
      default:
        break;
    }
    y[i] = v;
  }
}

cudaError_t relu(const float* x, float* y, std::size_t n, cudaStream_t stream) {
  relu_kernel<<<blocks_for(n), kBlock, 0, stream>>>(x, y, n);
  return cudaGetLastError();
}

cudaError_t gelu(const float* x, float* y, std::size_t n, cudaStream_t stream) {
  gelu_kernel<<<blocks_for(n), kBlock, 0, stream>>>(x, y, n);
  return cudaGetLastError();
}

cudaError_t axpy(float a, const float* x, float* y, std::size_t n, cudaStream_t stream) {
  axpy_kernel<<<blocks_for(n), kBlock, 0, stream>>>(a, x, y, n);
  return cudaGetLastError();
}

cudaError_t scale4(float a, float* x, std::size_t n, cudaStream_t stream) {
  scale4_kernel<<<blocks_for(n / 4), kBlock, 0, stream>>>(a, reinterpret_cast<float4*>(x), n / 4);
  return cudaGetLastError();
}

cudaError_t add_broadcast(const float* a, const float* b, float* y, Broadcast shape,
                          cudaStream_t stream) {
  const std::size_t n = std::size_t(shape.size[0]) * shape.size[1] * shape.size[2];
  add_broadcast_kernel<<<blocks_for(n), kBlock, 0, stream>>>(a, b, y, shape);
  return cudaGetLastError();
}

cudaError_t unscale(float* g, std::size_t n, float inverse_scale, int* found, cudaStream_t stream) {
  unscale_kernel<<<blocks_for(n), kBlock, 0, stream>>>(g, n, inverse_scale, found);
  return cudaGetLastError();
}

cudaError_t apply(int op, const float* x, float* y, std::size_t n, cudaStream_t stream) {
  apply_kernel<<<blocks_for(n), kBlock, 0, stream>>>(op, x, y, n);
  return cudaGetLastError();
}

}  // namespace cudasim::kernels
