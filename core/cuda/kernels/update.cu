// Optimizer steps: the rules of UpdateOps, one pass over parameters, gradients and states.
#include <tandem/core/cuda/kernels/update.h>
#include <tandem/core/cuda/kernels/grid.cuh>
#include <tandem/core/cuda/kernels/types.cuh>

namespace tandem::gpu {
namespace {

constexpr int kGradient = 1;  // place in UpdateTensor::data

template <class Rule>
struct Arguments {
  std::uint32_t tensors;
  UpdateTensor tensor[kUpdateTensors];
  typename Rule::template Step<float> step[kUpdateTensors];
};

// What is in a state that the rule is about to write for the first time is nobody's business.
template <class Step>
__device__ inline bool reads_states(const Step& step) {
  if constexpr (requires { step.first; }) {
    return !step.first;
  } else {
    return true;
  }
}

__device__ inline void store(DType dtype, void* to, std::int64_t i, float value) {
  switch (dtype) {
    case DType::float16:
      static_cast<Half*>(to)[i] = Half(value);
      break;
    case DType::bfloat16:
      static_cast<BFloat16*>(to)[i] = BFloat16(value);
      break;
    default:
      static_cast<float*>(to)[i] = value;
      break;
  }
}

template <int kArrays, class Step>
__device__ inline void update_element(const Step& step, const UpdateTensor& t, std::int64_t i) {
  float v[kUpdateArrays]{};
#pragma unroll
  for (int k = 0; k < kArrays; ++k) {
    const bool reads = t.data[k] != nullptr && (k <= kGradient || reads_states(step));
    v[k] = reads ? load_float(t.dtype[k], t.data[k], i) : 0;
  }
  step(v[0], v[1], v[2], v[3], v[4]);
#pragma unroll
  for (int k = 0; k < kArrays; ++k) {
    if (k != kGradient && t.data[k] != nullptr) store(t.dtype[k], t.data[k], i, v[k]);
  }
}

// Elements that move as one: with five arrays, four would take more registers than half of a
// multiprocessor's threads can have.
template <int kArrays>
inline constexpr int pack_size = kArrays > 3 ? 2 : 4;

// A pack from element i on, all arrays float32.
template <int kArrays, class Step>
__device__ inline void update_pack(const Step& step, const UpdateTensor& t, std::int64_t i) {
  constexpr int V = pack_size<kArrays>;
  Pack<float, V> v[kUpdateArrays]{};
#pragma unroll
  for (int k = 0; k < kArrays; ++k) {
    const bool reads = t.data[k] != nullptr && (k <= kGradient || reads_states(step));
    const auto* from = reinterpret_cast<const Pack<float, V>*>(static_cast<float*>(t.data[k]) + i);
    v[k] = reads ? *from : Pack<float, V>{};
  }
#pragma unroll
  for (int j = 0; j < V; ++j) step(v[0].v[j], v[1].v[j], v[2].v[j], v[3].v[j], v[4].v[j]);
#pragma unroll
  for (int k = 0; k < kArrays; ++k) {
    if (k == kGradient || t.data[k] == nullptr) continue;
    *reinterpret_cast<Pack<float, V>*>(static_cast<float*>(t.data[k]) + i) = v[k];
  }
}

template <class Rule>
__global__ void __launch_bounds__(kThreads) update_kernel(const Arguments<Rule> a) {
  constexpr int kArrays = 2 + Rule::states, V = pack_size<kArrays>;
  const auto [k, start, count] = chunk_of_block(a.tensor, a.tensors, kUpdateChunk);
  const UpdateTensor& t = a.tensor[k];
  const auto& step = a.step[k];
  const std::uint32_t packs = t.packed ? count / V : 0;
  for (std::uint32_t i = threadIdx.x; i < packs; i += kThreads) {
    update_pack<kArrays>(step, t, start + i * V);
  }
  for (std::uint32_t i = packs * V + threadIdx.x; i < count; i += kThreads) {
    update_element<kArrays>(step, t, start + i);
  }
}

template <class Rule>
void run(const UpdateTable& table, cudaStream_t stream) {
  Arguments<Rule> a;
  static_assert(sizeof(a) <= 4096);
  a.tensors = table.tensors;
  for (std::uint32_t k = 0; k < table.tensors; ++k) {
    a.tensor[k] = table.tensor[k];
    a.step[k] = typename Rule::template Step<float>(table.coefficients[k]);
  }
  update_kernel<Rule><<<table.chunks, kThreads, 0, stream>>>(a);
}

template <class... Rule>
void run(OpList<Rule...>, UpdateOp op, const UpdateTable& table, cudaStream_t stream) {
  constexpr void (*runs[])(const UpdateTable&, cudaStream_t) = {&run<Rule>...};
  runs[int(op)](table, stream);
}

}  // namespace

void launch_update(UpdateOp op, const UpdateTable& table, cudaStream_t stream) {
  run(UpdateOps{}, op, table, stream);
}

}  // namespace tandem::gpu
