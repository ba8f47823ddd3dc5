// Casts: y = x converted.
//
// What mixed precision does all day, between float32 and the 16-bit floats, moves in packs. The
// other pairs share two kernels, which go through the widest type of x's kind as the CPU does.
#include <tandem/core/cuda/kernels/copy.h>
#include <tandem/core/cuda/kernels/pointwise.cuh>

namespace tandem::gpu {
namespace {

struct Same {
  __device__ float operator()(float x) const { return x; }
};

// Element i of an array of floats, or of one of integers and bools.
__device__ float load(DType dtype, const void* x, std::uint32_t i, float) {
  return load_float(dtype, x, i);
}
__device__ std::int64_t load(DType dtype, const void* x, std::uint32_t i, std::int64_t) {
  switch (dtype) {
    case DType::int64:
      return static_cast<const std::int64_t*>(x)[i];
    case DType::int32:
      return static_cast<const std::int32_t*>(x)[i];
    default:  // a bool is a byte, 0 or 1
      return static_cast<const std::uint8_t*>(x)[i];
  }
}

template <class C>
__device__ void store(DType dtype, void* y, std::uint32_t i, C value) {
  switch (dtype) {
    case DType::float16:
      static_cast<Half*>(y)[i] = convert<Half>(value);
      break;
    case DType::bfloat16:
      static_cast<BFloat16*>(y)[i] = convert<BFloat16>(value);
      break;
    case DType::int64:
      static_cast<std::int64_t*>(y)[i] = convert<std::int64_t>(value);
      break;
    case DType::int32:
      static_cast<std::int32_t*>(y)[i] = convert<std::int32_t>(value);
      break;
    case DType::uint8:
      static_cast<std::uint8_t*>(y)[i] = convert<std::uint8_t>(value);
      break;
    case DType::boolean:
      static_cast<bool*>(y)[i] = convert<bool>(value);
      break;
    default:
      static_cast<float*>(y)[i] = convert<float>(value);
      break;
  }
}

template <class C>
__global__ void __launch_bounds__(kThreads)
    cast_kernel(DType from, DType to, const void* x, void* y, const Strided<2> layout) {
  for (std::uint32_t i : GridStride(layout.numel)) {
    const Offsets<2> o = offsets(layout, i);
    store(to, y, o.at[0], load(from, x, o.at[1], C{}));
  }
}

template <class C>
void launch(DType from, DType to, const Operands<2>& o, cudaStream_t stream) {
  cast_kernel<C>
      <<<blocks_for(o.layout.numel), kThreads, 0, stream>>>(from, to, o.at[1], o.at[0], o.layout);
}

// Are these the types of a launch in packs? Then it is done.
template <class To, class From>
bool launched(DType from, DType to, const Operands<2>& o, cudaStream_t stream) {
  if (!o.packed || from != dtype_of<From> || to != dtype_of<To>) return false;
  launch_packed<kShortFormula, To, From>(Same{}, o, stream);
  return true;
}

}  // namespace

void launch_cast(DType from, DType to, const Operands<2>& o, cudaStream_t stream) {
  if (launched<Half, float>(from, to, o, stream) || launched<float, Half>(from, to, o, stream) ||
      launched<BFloat16, float>(from, to, o, stream) ||
      launched<float, BFloat16>(from, to, o, stream)) {
    return;
  }
  if (is_floating(from)) {
    launch<float>(from, to, o, stream);
  } else {
    launch<std::int64_t>(from, to, o, stream);
  }
}

}  // namespace tandem::gpu
