// Many tensors times one factor, measured in the same pass.
#include <tandem/core/cuda/kernels/rescale.h>
#include <tandem/core/update_rules.h>
#include <tandem/core/cuda/kernels/block_reduce.cuh>
#include <tandem/core/cuda/kernels/grid.cuh>
#include <tandem/core/cuda/kernels/types.cuh>

namespace tandem::gpu {
namespace {

// x = x factor; found takes in what was seen.
template <class T>
__device__ inline T rescaled(T x, float factor, Pair& found) {
  float v = convert<float>(x);
  if (!RescaleRule::finite(v)) found.b = 1;
  if (factor != 1) v *= factor;
  found.a = SumOfSquaresRule::combine(found.a, SumOfSquaresRule::load(v));
  return convert<T>(v);
}

// Threads take groups of elements, whether these move as packs or not: the order of additions must
// not depend on where a tensor lies.
template <class T>
__global__ void __launch_bounds__(kThreads)
    rescale_kernel(const RescaleTable table, float factor, Pair* partial) {
  constexpr int V = kPerPack<T>;
  const auto [k, start, count] = chunk_of_block(table.tensor, table.tensors, kRescaleChunk);
  T* const x = static_cast<T*>(table.tensor[k].data) + start;
  Pair found{0, 0};
  for (std::uint32_t i = threadIdx.x * V; i < count; i += kThreads * V) {
    if (table.packed && i + V <= count) {
      Pack<T, V> pack = *reinterpret_cast<const Pack<T, V>*>(x + i);
#pragma unroll
      for (int j = 0; j < V; ++j) pack.v[j] = rescaled(pack.v[j], factor, found);
      if (factor != 1) *reinterpret_cast<Pack<T, V>*>(x + i) = pack;
    } else {
      const std::uint32_t end = i + V < count ? i + V : count;
      for (std::uint32_t j = i; j < end; ++j) {
        const T y = rescaled(x[j], factor, found);
        if (factor != 1) x[j] = y;
      }
    }
  }
  found = fold_block<PairSum>(found);
  if (threadIdx.x == 0) partial[blockIdx.x] = found;
}

__global__ void __launch_bounds__(kThreads)
    rescale_found_kernel(const RescaleTable table, const Pair* partial, Pair* found) {
  const RescaleTensor& t = table.tensor[blockIdx.x];
  Pair sum{0, 0};
  for (std::uint32_t i = threadIdx.x; i < t.chunks; i += kThreads) {
    sum = PairSum::combine(sum, partial[t.first_chunk + i]);
  }
  sum = fold_block<PairSum>(sum);
  if (threadIdx.x == 0) found[blockIdx.x] = {sum.a, sum.b > 0 ? 1.0f : 0.0f};
}

}  // namespace

void launch_rescale(DType dtype, float factor, const RescaleTable& table, float* partial,
                    cudaStream_t stream) {
  with_float(dtype, [&]<class T>(T) {
    rescale_kernel<T>
        <<<table.chunks, kThreads, 0, stream>>>(table, factor, reinterpret_cast<Pair*>(partial));
  });
}

void launch_rescale_found(const RescaleTable& table, const float* partial, float* found,
                          cudaStream_t stream) {
  rescale_found_kernel<<<table.tensors, kThreads, 0, stream>>>(
      table, reinterpret_cast<const Pair*>(partial), reinterpret_cast<Pair*>(found));
}

}  // namespace tandem::gpu
