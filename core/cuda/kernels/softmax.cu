// Softmax and its gradient, a warp or a block for each row, and the negative log-likelihood.
// Arithmetic is float32; a row is read again rather than kept, since it is in the cache by then.
#include <tandem/core/cuda/kernels/fold.h>
#include <tandem/core/cuda/kernels/softmax.h>
#include <tandem/core/cuda/kernels/block_reduce.cuh>
#include <tandem/core/cuda/kernels/grid.cuh>
#include <tandem/core/cuda/kernels/types.cuh>

namespace tandem::gpu {
namespace {

constexpr int kWideBlock = 1024;  // for the longest rows

// A row of one array, in float32.
template <class T>
struct Row {
  T* first;
  std::int64_t stride;

  __device__ float operator[](std::uint32_t i) const { return float(first[i * stride]); }
  __device__ void put(std::uint32_t i, float v) const {
    first[i * stride] = convert<std::remove_const_t<T>>(v);
  }
};

// softmax: exp(x - max) / sum exp(x - max); log_softmax: (x - max) - log(that sum)
template <class T>
__global__ void softmax_rows(const __grid_constant__ RowPlaces<2> p, bool log, const T* x, T* y) {
  const Team team(p.length > kLongRow);
  if (team.row >= p.rows.numel) return;  // whole warps
  const Offsets<2> at = offsets(p.rows, team.row);
  const Row<const T> from{x + at.at[1], p.stride[1]};
  const Row<T> to{y + at.at[0], p.stride[0]};

  float largest = MaxRule::identity<float>();
  for (std::uint32_t i = team.lane; i < p.length; i += team.width) {
    largest = MaxRule::combine(largest, from[i]);
  }
  largest = team.fold<MaxRule>(largest);
  float sum = 0;
  for (std::uint32_t i = team.lane; i < p.length; i += team.width) {
    sum += expf(from[i] - largest);
  }
  sum = team.fold<SumRule>(sum);
  const float log_sum = log ? logf(sum) : 0;
  for (std::uint32_t i = team.lane; i < p.length; i += team.width) {
    const float shifted = from[i] - largest;
    to.put(i, log ? shifted - log_sum : expf(shifted) / sum);
  }
}

// softmax: dx = y (dy - sum(dy y)); log_softmax: dx = dy - exp(y) sum(dy)
template <class T>
__global__ void softmax_grad_rows(const __grid_constant__ RowPlaces<3> p, bool log, const T* y,
                                  const T* dy, T* dx) {
  const Team team(p.length > kLongRow);
  if (team.row >= p.rows.numel) return;  // whole warps
  const Offsets<3> at = offsets(p.rows, team.row);
  const Row<const T> value{y + at.at[1], p.stride[1]}, grad{dy + at.at[2], p.stride[2]};
  const Row<T> to{dx + at.at[0], p.stride[0]};

  float sum = 0;
  for (std::uint32_t i = team.lane; i < p.length; i += team.width) {
    sum += log ? grad[i] : grad[i] * value[i];
  }
  sum = team.fold<SumRule>(sum);
  for (std::uint32_t i = team.lane; i < p.length; i += team.width) {
    const float v = value[i], g = grad[i];
    to.put(i, log ? g - expf(v) * sum : v * (g - sum));
  }
}

template <class T>
__global__ void nll_rows(const __grid_constant__ NllPlaces p, const T* logp,
                         const std::int64_t* target, const float* weight, float* loss,
                         float* row_weight) {
  for (std::uint32_t i : GridStride(p.rows)) {
    const std::int64_t c = target[i * p.target];
    const bool ignored = c == p.ignore_index;
    const float w = ignored ? 0.f : weight != nullptr ? weight[c * p.weight] : 1.f;
    row_weight[i * p.row_weight] = w;
    loss[i * p.loss] = ignored ? 0.f : -(w * float(logp[i * p.logp_row + c * p.logp_class]));
  }
}

template <class T>
__global__ void nll_grad_elements(const __grid_constant__ NllPlaces p, const std::int64_t* target,
                                  const float* row_weight, const float* dloss, T* dlogp) {
  for (std::uint32_t e : GridStride(p.rows * p.classes.value)) {
    const std::uint32_t i = p.classes.divide(e), c = e - i * p.classes.value;
    const std::int64_t t = target[i * p.target];
    float v = 0;
    if (t == c && t != p.ignore_index) v = -(row_weight[i * p.row_weight] * dloss[i * p.loss]);
    dlogp[i * p.logp_row + c * p.logp_class] = convert<T>(v);
  }
}

// f(blocks, threads) for rows that are folded by warps or by blocks.
template <class F>
void with_teams(std::uint32_t rows, std::uint32_t length, F&& f) {
  if (length > kLongRow) {
    f(rows, length > 16 * kLongRow ? kWideBlock : kThreads);
  } else {
    f((rows - 1) / (kThreads / kWarp) + 1, kThreads);
  }
}

}  // namespace

void launch_softmax(bool log, DType dtype, const RowPlaces<2>& p, const void* x, void* y,
                    cudaStream_t stream) {
  with_float(dtype, [&]<class T>(T) {
    with_teams(p.rows.numel, p.length, [&](unsigned blocks, int threads) {
      softmax_rows<<<blocks, threads, 0, stream>>>(p, log, static_cast<const T*>(x),
                                                   static_cast<T*>(y));
    });
  });
}

void launch_softmax_grad(bool log, DType dtype, const RowPlaces<3>& p, const void* y,
                         const void* dy, void* dx, cudaStream_t stream) {
  with_float(dtype, [&]<class T>(T) {
    with_teams(p.rows.numel, p.length, [&](unsigned blocks, int threads) {
      softmax_grad_rows<<<blocks, threads, 0, stream>>>(
          p, log, static_cast<const T*>(y), static_cast<const T*>(dy), static_cast<T*>(dx));
    });
  });
}

void launch_nll(DType dtype, const NllPlaces& p, const void* logp, const std::int64_t* target,
                const float* weight, float* loss, float* row_weight, cudaStream_t stream) {
  with_float(dtype, [&]<class T>(T) {
    nll_rows<<<blocks_for(p.rows), kThreads, 0, stream>>>(p, static_cast<const T*>(logp), target,
                                                          weight, loss, row_weight);
  });
}

void launch_nll_grad(DType dtype, const NllPlaces& p, const std::int64_t* target,
                     const float* row_weight, const float* dloss, void* dlogp,
                     cudaStream_t stream) {
  const std::uint64_t n = std::uint64_t(p.rows) * p.classes.value;
  with_float(dtype, [&]<class T>(T) {
    nll_grad_elements<<<blocks_for(n), kThreads, 0, stream>>>(p, target, row_weight, dloss,
                                                              static_cast<T*>(dlogp));
  });
}

}  // namespace tandem::gpu
