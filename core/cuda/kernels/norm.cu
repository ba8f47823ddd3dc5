// Normalization. Statistics are folds over a channel's elements (fold.cuh), in float32: two passes,
// the second of which takes differences from the mean, so a large mean costs no digits.
#include <tandem/core/cuda/kernels/norm.h>
#include <tandem/core/cuda/kernels/fold.cuh>
#include <tandem/core/cuda/kernels/grid.cuh>
#include <tandem/core/cuda/kernels/types.cuh>

namespace tandem::gpu {
namespace {

__device__ inline float weight_at(const NormalWeight& w, std::int64_t channel,
                                  std::uint32_t position, float neutral) {
  return w.data == nullptr ? neutral : w.data[channel * w.channel + position * w.position];
}

__device__ inline float invstd(const NormalBy& by, std::int64_t channel) {
  return 1.f / sqrtf(by.var[channel] + by.eps);
}

// Where value i of a channel lies, counted from the channel's first element.
template <bool kLine>
__device__ inline std::int64_t place_of(const ChannelPlaces& p, std::uint32_t i) {
  if (p.inner.value == 1) return i * p.channels;
  if (kLine) return i;
  const std::uint32_t outer = p.inner.divide(i);
  return outer * p.channels * p.inner.value + (i - outer * p.inner.value);
}

// What the folds over channels share.
struct ChannelFold {
  ChannelPlaces places;
  std::uint32_t values;  // of a channel

  struct At {
    std::int64_t channel, first;
  };
  __device__ At at(std::uint32_t k) const { return {k, std::int64_t(k) * places.inner.value}; }
  __device__ bool is_line() const {
    return places.inner.value == 1 || places.inner.value == values;
  }
};

template <class T>
struct SumFold : ChannelFold {
  using Rule = SumRule;
  using Value = float;

  const T* x;
  float* sums;

  template <bool kLine>
  __device__ float load(const At& at, std::uint32_t i) const {
    return float(x[at.first + place_of<kLine>(places, i)]);
  }
  __device__ void store(const At& at, float v) const { sums[at.channel] = v; }
};

// With d = x - center: mean = center + sum d / n, m2 = sum d^2 - (sum d)^2 / n.
template <class T>
struct MomentsFold : ChannelFold {
  using Rule = PairSum;
  using Value = Pair;
  struct At : ChannelFold::At {
    float center;
  };

  const T* x;
  const float* sums;
  float *mean, *m2;

  __device__ At at(std::uint32_t k) const { return {ChannelFold::at(k), sums[k] / float(values)}; }
  template <bool kLine>
  __device__ Pair load(const At& at, std::uint32_t i) const {
    const float d = float(x[at.first + place_of<kLine>(places, i)]) - at.center;
    return {d, d * d};
  }
  __device__ void store(const At& at, Pair v) const {
    const float shift = v.a / float(values);
    mean[at.channel] = at.center + shift;
    const float sum = v.b - v.a * shift;
    m2[at.channel] = sum < 0 ? 0 : sum;  // the difference of two roundings; NaN stays
  }
};

template <class T>
struct NormalSumsFold : ChannelFold {
  using Rule = PairSum;
  using Value = Pair;
  struct At : ChannelFold::At {
    float mean;
  };

  NormalBy by;
  const T *x, *dy;
  float *sum_g, *sum_gx;

  __device__ At at(std::uint32_t k) const { return {ChannelFold::at(k), by.mean[k]}; }
  template <bool kLine>
  __device__ Pair load(const At& at, std::uint32_t i) const {
    const std::int64_t place = at.first + place_of<kLine>(places, i);
    float g = float(dy[place]);
    if (by.weight.position != 0) g *= by.weight.data[position<kLine>(i) * by.weight.position];
    return {g, g * (float(x[place]) - at.mean)};
  }
  __device__ void store(const At& at, Pair v) const {
    const float w = by.weight.position != 0 ? 1.f : weight_at(by.weight, at.channel, 0, 1.f);
    sum_g[at.channel] = v.a * w;
    sum_gx[at.channel] = v.b * w * invstd(by, at.channel);
  }

 private:
  template <bool kLine>
  __device__ std::uint32_t position(std::uint32_t i) const {
    if (places.inner.value == 1) return 0;
    return kLine ? i : i - places.inner.divide(i) * places.inner.value;
  }
};

// ---- every element

struct Element {
  std::int64_t channel;
  std::uint32_t position;
};

__device__ inline Element element(const NormalPiece& p, std::uint32_t i) {
  const std::uint32_t row = p.inner.divide(i);
  const std::uint32_t channel = row - p.channels.divide(row) * p.channels.value;
  return {p.channel + channel, i - row * p.inner.value};
}

template <class T>
__global__ void normalize_elements(const __grid_constant__ NormalPiece p,
                                   const __grid_constant__ NormalBy by, const T* x, T* y) {
  for (std::uint32_t i : GridStride(p.numel)) {
    const Element e = element(p, i);
    const float alpha = invstd(by, e.channel) * weight_at(by.weight, e.channel, e.position, 1.f);
    const float beta = weight_at(by.bias, e.channel, e.position, 0.f);
    y[i] = convert<T>((float(x[i]) - by.mean[e.channel]) * alpha + beta);
  }
}

template <class T>
__global__ void normalize_grad_elements(const __grid_constant__ NormalPiece p,
                                        const __grid_constant__ NormalBy by, const T* x,
                                        const T* dy, const float* mean_g, const float* mean_gx,
                                        T* dx) {
  for (std::uint32_t i : GridStride(p.numel)) {
    const Element e = element(p, i);
    const float scale = invstd(by, e.channel);
    const float g = float(dy[i]) * weight_at(by.weight, e.channel, e.position, 1.f);
    const float xhat = (float(x[i]) - by.mean[e.channel]) * scale;
    dx[i] = convert<T>((g - mean_g[e.channel] - xhat * mean_gx[e.channel]) * scale);
  }
}

}  // namespace

void launch_channel_sums(DType dtype, const ChannelPlaces& places, const FoldPlan& plan,
                         const void* x, float* sums, void* partials, cudaStream_t stream) {
  with_float(dtype, [&]<class T>(T) {
    launch_fold(SumFold<T>{{places, plan.values}, static_cast<const T*>(x), sums}, plan, partials,
                stream);
  });
}

void launch_moments(DType dtype, const ChannelPlaces& places, const FoldPlan& plan, const void* x,
                    const float* sums, float* mean, float* m2, void* partials,
                    cudaStream_t stream) {
  with_float(dtype, [&]<class T>(T) {
    launch_fold(MomentsFold<T>{{places, plan.values}, static_cast<const T*>(x), sums, mean, m2},
                plan, partials, stream);
  });
}

void launch_normalize_sums(DType dtype, const ChannelPlaces& places, const FoldPlan& plan,
                           const NormalBy& by, const void* x, const void* dy, float* sum_g,
                           float* sum_gx, void* partials, cudaStream_t stream) {
  with_float(dtype, [&]<class T>(T) {
    launch_fold(NormalSumsFold<T>{{places, plan.values},
                                  by,
                                  static_cast<const T*>(x),
                                  static_cast<const T*>(dy),
                                  sum_g,
                                  sum_gx},
                plan, partials, stream);
  });
}

void launch_normalize(DType dtype, const NormalPiece& p, const NormalBy& by, const void* x, void* y,
                      cudaStream_t stream) {
  with_float(dtype, [&]<class T>(T) {
    normalize_elements<<<blocks_for(p.numel), kThreads, 0, stream>>>(
        p, by, static_cast<const T*>(x), static_cast<T*>(y));
  });
}

void launch_normalize_grad(DType dtype, const NormalPiece& p, const NormalBy& by, const void* x,
                           const void* dy, const float* mean_g, const float* mean_gx, void* dx,
                           cudaStream_t stream) {
  with_float(dtype, [&]<class T>(T) {
    normalize_grad_elements<<<blocks_for(p.numel), kThreads, 0, stream>>>(
        p, by, static_cast<const T*>(x), static_cast<const T*>(dy), mean_g, mean_gx,
        static_cast<T*>(dx));
  });
}

}  // namespace tandem::gpu
