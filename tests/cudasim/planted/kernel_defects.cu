// Small kernels with one defect each, of the kinds that people really write. With `defect` 0 the
// same kernel is its clean twin. kernel_defects.cpp says how each must be caught.
#include <cstddef>
#include <cstdint>

namespace {

constexpr unsigned kFullWarp = 0xffffffffu;

__device__ std::size_t global_index() {
  return blockIdx.x * std::size_t{blockDim.x} + threadIdx.x;
}

}  // namespace

extern "C" {

// ---- order

__global__ void missing_barrier(const float* x, float* y, int defect) {
  __shared__ float tree[128];
  tree[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) tree[threadIdx.x] += tree[threadIdx.x + half];
    if (!defect) __syncthreads();
  }
  if (threadIdx.x == 0) *y = tree[0];
}

// The second round overwrites what slower threads still read in the first.
__global__ void missing_second_barrier(const float* x, float* y, int defect) {
  __shared__ float line[128];
  float total = 0;
  for (int round = 0; round < 2; ++round) {
    line[threadIdx.x] = x[round * 128 + threadIdx.x];
    __syncthreads();
    total += line[127 - threadIdx.x];
    if (!defect) __syncthreads();
  }
  y[threadIdx.x] = total;
}

__global__ void missing_warp_sync(const float* x, float* y, int defect) {
  __shared__ float lane[32];
  lane[threadIdx.x] = x[threadIdx.x];
  if (!defect) __syncwarp();
  y[threadIdx.x] = lane[threadIdx.x ^ 1];
}

__global__ void block_race(const float* x, float* total, int defect) {
  if (defect) {
    *total += x[blockIdx.x];
  } else {
    atomicAdd(total, x[blockIdx.x]);
  }
}

__global__ void thread_race(const float* x, float* y, int defect) {
  y[defect ? threadIdx.x / 2 : threadIdx.x] = x[threadIdx.x];
}

// One bit per element: eight threads change the same byte.
__global__ void byte_race(const float* x, std::uint8_t* bits, int defect) {
  if (defect) {
    if (x[threadIdx.x] > 0) bits[threadIdx.x / 8] |= std::uint8_t(1 << threadIdx.x % 8);
  } else if (threadIdx.x % 8 == 0) {
    unsigned all = 0;
    for (int k = 0; k < 8; ++k) all |= unsigned(x[threadIdx.x + k] > 0) << k;
    bits[threadIdx.x / 8] = std::uint8_t(all);
  }
}

// The step forgets the number of blocks, so that blocks visit each other's elements.
__global__ void wrong_stride(const float* x, float* y, std::size_t n, int defect) {
  const std::size_t step = defect ? blockDim.x : std::size_t{blockDim.x} * gridDim.x;
  for (std::size_t i = global_index(); i < n; i += step) y[i] = x[i];
}

__global__ void plain_read_of_counter(int* counter, int* y, int defect) {
  const int before = atomicAdd(counter, 1);
  y[global_index()] = defect ? *counter : before;
}

// ---- addresses

__global__ void off_by_one(float* y, std::size_t n, int defect) {
  const std::size_t i = global_index();
  if (defect ? i <= n : i < n) y[i] = 1;
}

__global__ void missing_tail_check(const float* x, float* y, std::size_t n, int defect) {
  const std::size_t i = global_index();
  if (defect || i < n) y[i] = x[i];
}

__global__ void negative_index(const float* x, float* y, int defect) {
  const int i = int(threadIdx.x) - defect;
  y[threadIdx.x] = x[i];
}

__global__ void shared_overrun(const float* x, float* y, int defect) {
  __shared__ float line[64];
  line[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  y[threadIdx.x] = line[threadIdx.x + (defect && threadIdx.x == 63 ? 1 : 0)];
}

__global__ void misaligned_vector(const float* x, float4* y, int defect) {
  y[threadIdx.x] = reinterpret_cast<const float4*>(x + defect)[threadIdx.x];
}

__global__ void copy(const float* x, float* y) {
  y[threadIdx.x] = x[threadIdx.x];
}

// ---- values

__global__ void uninitialised_global(const float* x, float* y, int defect) {
  const float old = defect ? y[threadIdx.x] : 0.f;
  y[threadIdx.x] = old + x[threadIdx.x];
}

__global__ void uninitialised_shared(const float* x, float* y, int defect) {
  __shared__ float line[64];
  if (!defect || threadIdx.x < 63) line[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  y[threadIdx.x] = line[63 - threadIdx.x];
}

// ---- warps and barriers

__global__ void divergent_barrier(float* y, int defect) {
  __shared__ float line[32];
  if (defect && threadIdx.x < 16) {
    line[threadIdx.x] = 1;
    __syncthreads();
    y[threadIdx.x] = line[threadIdx.x] + 1;
  } else {
    line[threadIdx.x] = 2;
    __syncthreads();
    y[threadIdx.x] = line[31 - threadIdx.x];
  }
}

__global__ void return_before_barrier(const float* x, float* y, std::size_t n, int defect) {
  __shared__ float line[64];
  if (defect && threadIdx.x >= n) return;
  line[threadIdx.x] = threadIdx.x < n ? x[threadIdx.x] : 0.f;
  __syncthreads();
  if (threadIdx.x < n) y[threadIdx.x] = line[n - 1 - threadIdx.x];
}

// The mask names lanes that wait at the barrier behind the branch.
__global__ void mask_names_absent_lanes(const float* x, float* y, int defect) {
  float value = x[threadIdx.x];
  if (threadIdx.x < 16) {
    const unsigned mask = defect ? kFullWarp : 0xffffu;
    for (int offset = 8; offset > 0; offset /= 2) value += __shfl_xor_sync(mask, value, offset);
  }
  __syncthreads();
  y[threadIdx.x] = value;
}

__global__ void mask_without_caller(const float* x, float* y, int defect) {
  y[threadIdx.x] = __shfl_xor_sync(defect ? 0xffffu : kFullWarp, x[threadIdx.x], 1);
}

// 48 threads: the second warp has only 16 lanes, and a full reduction reads the others.
__global__ void shuffle_from_missing_lane(const float* x, float* y, int defect) {
  float value = x[threadIdx.x];
  const int first = defect || threadIdx.x < 32 ? 16 : 8;
  for (int offset = first; offset > 0; offset /= 2) {
    value += __shfl_down_sync(kFullWarp, value, offset, defect ? 32 : first * 2);
  }
  y[threadIdx.x] = value;
}

// Thread 0 waits for a flag that only a later block sets.
__global__ void waits_for_other_block(volatile int* flag, int defect) {
  if (blockIdx.x == 0 && defect) {
    while (*flag == 0) {
    }
  }
}

__global__ void traps(int defect) {
  if (defect) __trap();
}

}  // extern "C"
