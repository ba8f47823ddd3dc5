// Real kernels of the kinds a training library needs, small enough to be read in one go. The tests
// run their PTX through the interpreter, and their launchers on the simulated runtime or on a real
// GPU.
//
// Every launcher is asynchronous on `stream`, takes device pointers and returns the launch error.
// The kernels carry C names ("relu" is relu_kernel in the PTX). No float atomics: results are
// reproducible.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace cudasim::kernels {

// pointwise.cu
cudaError_t relu(const float* x, float* y, std::size_t n, cudaStream_t stream);
cudaError_t gelu(const float* x, float* y, std::size_t n, cudaStream_t stream);  // x * Phi(x)
cudaError_t axpy(float a, const float* x, float* y, std::size_t n,
                 cudaStream_t stream);                                      // y += a x
cudaError_t scale4(float a, float* x, std::size_t n, cudaStream_t stream);  // n a multiple of 4

// y[i, j, k] = a[i, j, k] + b[i, j, k]; a stride of 0 repeats the operand along its axis.
struct Broadcast {
  int size[3];
  int a_stride[3];
  int b_stride[3];
};
cudaError_t add_broadcast(const float* a, const float* b, float* y, Broadcast shape,
                          cudaStream_t stream);

// *found becomes nonzero if a scaled gradient is not finite; g *= inverse_scale.
cudaError_t unscale(float* g, std::size_t n, float inverse_scale, int* found, cudaStream_t stream);

// op: 0 x, 1 -x, 2 |x|, 3 x^2, 4 1/x, 5 sqrt(x), 6 1/sqrt(x), 7 exp(x), 8 log(x), 9 tanh(x)
cudaError_t apply(int op, const float* x, float* y, std::size_t n, cudaStream_t stream);

// reduce.cu: x is (rows, cols)
cudaError_t row_sum(const float* x, float* y, int rows, int cols, cudaStream_t stream);
// Two passes; `partial` holds kSumBlocks floats. The order of the sum depends on n only.
constexpr int kSumBlocks = 64;
cudaError_t sum(const float* x, float* partial, float* result, std::size_t n, cudaStream_t stream);
cudaError_t softmax(const float* x, float* y, int rows, int cols, cudaStream_t stream);
// dx = dy - softmax(x) * sum(dy), with y = log_softmax(x)
cudaError_t log_softmax_backward(const float* y, const float* dy, float* dx, int rows, int cols,
                                 cudaStream_t stream);
cudaError_t arg_max(const float* x, int* index, int rows, int cols, cudaStream_t stream);
// mean and biased variance of every row, merged from per-thread Welford statistics
cudaError_t row_statistics(const float* x, float* mean, float* variance, int rows, int cols,
                           cudaStream_t stream);

// optimizer.cu
struct AdamOptions {
  float lr, beta1, beta2, epsilon, correction1, correction2;  // correction_i = 1 - beta_i^step
};
cudaError_t adam(float* p, const float* g, float* m, float* v, std::size_t n, AdamOptions options,
                 cudaStream_t stream);
cudaError_t sgd_momentum(float* p, const float* g, float* m, std::size_t n, float lr,
                         float momentum, cudaStream_t stream);
// The same step for many tensors at once, one row of blocks per tensor: pointers travel by value.
constexpr int kTensors = 16;
struct TensorList {
  float* p[kTensors];
  const float* g[kTensors];
  std::size_t n[kTensors];
  int count;
};
cudaError_t sgd_many(TensorList tensors, float lr, cudaStream_t stream);

// Philox 4x32-10, counter i / 4, word i % 4. keep[i] is 0 or 1.
cudaError_t dropout(const float* x, float* y, std::uint8_t* keep, std::size_t n, float p,
                    std::uint64_t seed, cudaStream_t stream);

// half.cu: 16-bit values travel as their bits
cudaError_t float_to_half(const float* x, std::uint16_t* y, std::size_t n, cudaStream_t stream);
cudaError_t half_to_float(const std::uint16_t* x, float* y, std::size_t n, cudaStream_t stream);
cudaError_t float_to_bfloat16(const float* x, std::uint16_t* y, std::size_t n, cudaStream_t stream);
cudaError_t bfloat16_to_float(const std::uint16_t* x, float* y, std::size_t n, cudaStream_t stream);
// y = fma(a, x, y) in 16-bit arithmetic
cudaError_t half_axpy(float a, const std::uint16_t* x, std::uint16_t* y, std::size_t n,
                      cudaStream_t stream);
cudaError_t half2_axpy(float a, const std::uint16_t* x, std::uint16_t* y, std::size_t n,
                       cudaStream_t stream);  // n even
cudaError_t bfloat16_axpy(float a, const std::uint16_t* x, std::uint16_t* y, std::size_t n,
                          cudaStream_t stream);
// y = max(x * x - x, 0) / 2 with +, -, *, max of the 16-bit type
cudaError_t half_mix(const std::uint16_t* x, std::uint16_t* y, std::size_t n, cudaStream_t stream);
cudaError_t bfloat16_mix(const std::uint16_t* x, std::uint16_t* y, std::size_t n,
                         cudaStream_t stream);

// indexing.cu
cudaError_t transpose(const float* x, float* y, int rows, int cols, cudaStream_t stream);
// y is contiguous (size[0], size[1], size[2]); x has strides in elements, negative ones allowed
struct Strided {
  int size[3];
  long long stride[3];
};
cudaError_t strided_copy(const float* x, float* y, Strided shape, cudaStream_t stream);

cudaError_t histogram(const std::uint8_t* x, unsigned* bins, std::size_t n, cudaStream_t stream);
// y[i] = table[index[i]]; a row of zeros where index[i] < 0
cudaError_t gather_rows(const float* table, const int* index, float* y, int count, int cols,
                        cudaStream_t stream);
// table[index[i]] += y[i], in the order of i: one block per table row looks for its indices
cudaError_t scatter_add_rows(const float* y, const int* index, float* table, int count, int rows,
                             int cols, cudaStream_t stream);

}  // namespace cudasim::kernels
