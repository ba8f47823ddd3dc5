// Optimizer steps and dropout: several arrays at once, structures by value, a counter-based
// generator.
#include "grid.cuh"
#include "kernels.h"

namespace cudasim::kernels {
namespace {

// One round multiplies and swaps; ten rounds mix a counter and a key into four random words.
// Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011.
__device__ uint4 philox(uint4 counter, uint2 key) {
  for (int round = 0; round < 10; ++round) {
    const unsigned high0 = __umulhi(0xD2511F53u, counter.x), low0 = 0xD2511F53u * counter.x;
    const unsigned high1 = __umulhi(0xCD9E8D57u, counter.z), low1 = 0xCD9E8D57u * counter.z;
    counter = make_uint4(high1 ^ counter.y ^ key.x, low1, high0 ^ counter.w ^ key.y, low0);
    key.x += 0x9E3779B9u;
    key.y += 0xBB67AE85u;
  }
  return counter;
}

}  // namespace

extern "C" __global__ void adam_kernel(float* p, const float* g, float* m, float* v, std::size_t n,
                                       AdamOptions o) {
  for (std::size_t i : GridStride(n)) {
    m[i] = o.beta1 * m[i] + (1.f - o.beta1) * g[i];
    v[i] = o.beta2 * v[i] + (1.f - o.beta2) * g[i] * g[i];
    p[i] -= o.lr * (m[i] / o.correction1) / (sqrtf(v[i] / o.correction2) + o.epsilon);
  }
}

extern "C" __global__ void sgd_momentum_kernel(float* p, const float* g, float* m, std::size_t n,
                                               float lr, float momentum) {
  for (std::size_t i : GridStride(n)) {
    m[i] = momentum * m[i] + g[i];
    p[i] -= lr * m[i];
  }
}

extern "C" __global__ void sgd_many_kernel(TensorList t, float lr) {
  for (int k = blockIdx.y; k < t.count; k += gridDim.y) {
    for (std::size_t i : GridStride(t.n[k])) t.p[k][i] -= lr * t.g[k][i];
  }
}

extern "C" __global__ void dropout_kernel(const float* x, float* y, std::uint8_t* keep,
                                          std::size_t n, float p, std::uint64_t seed) {
  const uint2 key = make_uint2(unsigned(seed), unsigned(seed >> 32));
  for (std::size_t quad : GridStride((n + 3) / 4)) {
    const uint4 random = philox(make_uint4(unsigned(quad), unsigned(quad >> 32), 0, 0), key);
    const unsigned word[4] = {random.x, random.y, random.z, random.w};
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const std::size_t i = quad * 4 + k;
      if (i >= n) break;
      const float uniform = float(word[k] >> 8) * (1.f / 16777216.f);
      keep[i] = uniform >= p;
      y[i] = uniform >= p ? x[i] / (1.f - p) : 0.f;
    }
  }
}

cudaError_t adam(float* p, const float* g, float* m, float* v, std::size_t n, AdamOptions options,
                 cudaStream_t stream) {
  adam_kernel<<<blocks_for(n), kBlock, 0, stream>>>(p, g, m, v, n, options);
  return cudaGetLastError();
}

cudaError_t sgd_momentum(float* p, const float* g, float* m, std::size_t n, float lr,
                         float momentum, cudaStream_t stream) {
  sgd_momentum_kernel<<<blocks_for(n), kBlock, 0, stream>>>(p, g, m, n, lr, momentum);
  return cudaGetLastError();
}

cudaError_t sgd_many(TensorList tensors, float lr, cudaStream_t stream) {
  sgd_many_kernel<<<dim3(4, tensors.count), kBlock, 0, stream>>>(tensors, lr);
  return cudaGetLastError();
}

cudaError_t dropout(const float* x, float* y, std::uint8_t* keep, std::size_t n, float p,
                    std::uint64_t seed, cudaStream_t stream) {
  dropout_kernel<<<blocks_for((n + 3) / 4), kBlock, 0, stream>>>(x, y, keep, n, p, seed);
  return cudaGetLastError();
}

}  // namespace cudasim::kernels
