// Pointwise kernels: y[i] = f(x1[i], x2[i], ...), the two loops that maps, zips and their
// derivatives share.
//
// Operands that lie alike and are aligned move in packs of up to 16 bytes, by a kernel of its own
// for each rule and type. All other layouts share one kernel of each type, in which the op code
// chooses the rule. Arithmetic is float for 16- and 32-bit floats. Included by .cu files only.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <type_traits>

#include <tandem/core/functors.h>
#include <tandem/core/cuda/kernels/grid.cuh>
#include <tandem/core/cuda/kernels/types.cuh>

namespace tandem::gpu {

/// Does rule F compute in C? (A variable, since device code may not call what is for the host.)
template <class F, class C>
inline constexpr bool computes = std::is_same_v<C, bool>    ? F::domain == Domain::bools
                                 : std::is_same_v<C, float> ? F::domain != Domain::bools
                                                            : F::domain == Domain::numbers;

/// Elements of a pack: long formulas would be repeated too often in the code of a full one.
template <class T>
constexpr int pack_of(int most) {
  return std::min(most, kPerPack<T>);
}
inline constexpr int kShortFormula = 8, kLongFormula = 4, kVeryLongFormula = 1;

template <class Out, class In, int N>
struct Pointers {
  Out* y;
  const In* x[N];

  explicit Pointers(const Operands<N + 1>& o) : y(static_cast<Out*>(o.at[0])) {
    for (int k = 0; k < N; ++k) x[k] = static_cast<const In*>(o.at[k + 1]);
  }
};

template <class Out, class F, class In>
__device__ inline Out apply(const F& f, const In (&x)[1]) {
  using C = Compute<In>;
  return convert<Out>(f(convert<C>(x[0])));
}
template <class Out, class F, class In>
__device__ inline Out apply(const F& f, const In (&x)[2]) {
  using C = Compute<In>;
  return convert<Out>(f(convert<C>(x[0]), convert<C>(x[1])));
}
template <class Out, class F, class In>
__device__ inline Out apply(const F& f, const In (&x)[3]) {
  using C = Compute<In>;
  return convert<Out>(f(convert<C>(x[0]), convert<C>(x[1]), convert<C>(x[2])));
}

template <int V, class F, class Out, class In, int N>
__global__ void __launch_bounds__(kThreads)
    packed_kernel(const F f, const Pointers<Out, In, N> p, std::uint32_t n) {
  for (std::uint32_t i : GridStride(n / V)) {
    Pack<In, V> x[N];
    Pack<Out, V> y;
#pragma unroll
    for (int k = 0; k < N; ++k) x[k] = reinterpret_cast<const Pack<In, V>*>(p.x[k])[i];
#pragma unroll
    for (int j = 0; j < V; ++j) {
      In element[N];
#pragma unroll
      for (int k = 0; k < N; ++k) element[k] = x[k].v[j];
      y.v[j] = apply<Out>(f, element);
    }
    reinterpret_cast<Pack<Out, V>*>(p.y)[i] = y;
  }
  if constexpr (V > 1) {  // what does not fill a pack
    const std::uint32_t i = n / V * V + blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
      In element[N];
#pragma unroll
      for (int k = 0; k < N; ++k) element[k] = p.x[k][i];
      p.y[i] = apply<Out>(f, element);
    }
  }
}

template <class F, class Out, class In, int N>
__global__ void __launch_bounds__(kThreads)
    strided_kernel(const F f, const Pointers<Out, In, N> p, const Strided<N + 1> layout) {
  for (std::uint32_t i : GridStride(layout.numel)) {
    const Offsets<N + 1> o = offsets(layout, i);
    In element[N];
#pragma unroll
    for (int k = 0; k < N; ++k) element[k] = p.x[k][o.at[k + 1]];
    p.y[o.at[0]] = apply<Out>(f, element);
  }
}

template <int kMost, class Out, class In, class F, int M>
void launch_packed(const F& f, const Operands<M>& o, cudaStream_t stream) {
  constexpr int V = std::min(pack_of<In>(kMost), pack_of<Out>(kMost));
  const std::uint32_t n = o.layout.numel;
  packed_kernel<V, F, Out, In, M - 1>
      <<<blocks_for((n + V - 1) / V), kThreads, 0, stream>>>(f, Pointers<Out, In, M - 1>(o), n);
}

template <class Out, class In, class F, int M>
void launch_strided(const F& f, const Operands<M>& o, cudaStream_t stream) {
  strided_kernel<F, Out, In, M - 1><<<blocks_for(o.layout.numel), kThreads, 0, stream>>>(
      f, Pointers<Out, In, M - 1>(o), o.layout);
}

/// call(F{}) with the F at position `op` of the list.
template <class R, int kAt = 0, class F, class... Rest, class Call>
__device__ inline R choose(int op, OpList<F, Rest...>, const Call& call) {
  if constexpr (sizeof...(Rest) == 0) {
    return call(F{});
  } else {
    if (op == kAt) return call(F{});
    return choose<R, kAt + 1>(op, OpList<Rest...>{}, call);
  }
}

}  // namespace tandem::gpu
