// where: y = condition ? a : b. Elements are bits here.
#include <tandem/core/cuda/kernels/copy.h>
#include <tandem/core/cuda/kernels/bits.cuh>
#include <tandem/core/cuda/kernels/grid.cuh>

namespace tandem::gpu {
namespace {

template <class U>
struct Choice {
  const bool* condition;
  const U *a, *b;
  U* y;

  explicit Choice(const Operands<4>& o)
      : condition(static_cast<const bool*>(o.at[1])),
        a(static_cast<const U*>(o.at[2])),
        b(static_cast<const U*>(o.at[3])),
        y(static_cast<U*>(o.at[0])) {}
};

template <class U>
__global__ void __launch_bounds__(kThreads)
    where_kernel(const Choice<U> c, const Strided<4> layout) {
  for (std::uint32_t i : GridStride(layout.numel)) {
    const Offsets<4> o = offsets(layout, i);
    c.y[o.at[0]] = c.condition[o.at[1]] ? c.a[o.at[2]] : c.b[o.at[3]];
  }
}

template <class U>
__global__ void __launch_bounds__(kThreads)
    where_packed_kernel(const Choice<U> c, std::uint32_t n) {
  constexpr int V = kPerPack<U>;
  for (std::uint32_t i : GridStride(n / V)) {
    const auto condition = reinterpret_cast<const Pack<bool, V>*>(c.condition)[i];
    const auto a = reinterpret_cast<const Pack<U, V>*>(c.a)[i];
    const auto b = reinterpret_cast<const Pack<U, V>*>(c.b)[i];
    Pack<U, V> y;
#pragma unroll
    for (int j = 0; j < V; ++j) y.v[j] = condition.v[j] ? a.v[j] : b.v[j];
    reinterpret_cast<Pack<U, V>*>(c.y)[i] = y;
  }
  const std::uint32_t i = n / V * V + blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c.y[i] = c.condition[i] ? c.a[i] : c.b[i];
}

}  // namespace

void launch_where(int bytes, const Operands<4>& o, cudaStream_t stream) {
  with_bits(bytes, [&]<class U>(U) {
    const std::uint32_t n = o.layout.numel;
    const Choice<U> choice(o);
    if (o.packed) {
      where_packed_kernel<<<blocks_for(n / kPerPack<U> + 1), kThreads, 0, stream>>>(choice, n);
    } else {
      where_kernel<<<blocks_for(n), kThreads, 0, stream>>>(choice, o.layout);
    }
  });
}

}  // namespace tandem::gpu
