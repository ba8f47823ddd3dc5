#include <tandem/core/cpu/traverse.h>

#include <functional>

#if defined(__F16C__)
#include <immintrin.h>
#endif

namespace tandem::host {
namespace {

template <class To, class From>
void convert_run(const From* from, To* to, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) to[i] = convert<To>(from[i]);
}

#if defined(__F16C__)
void convert_run(const Half* from, float* to, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(bits));
  }
  for (; i < n; ++i) to[i] = float(from[i]);
}

void convert_run(const float* from, Half* to, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m128i bits = _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), bits);
  }
  for (; i < n; ++i) to[i] = Half(from[i]);
}
#endif

}  // namespace

template <class C>
void gather(DType dtype, const std::byte* from, std::int64_t stride, std::int64_t n, C* to) {
  with_type(dtype, [&]<class T>(Type<T>) {
    const T* p = reinterpret_cast<const T*>(from);
    if (stride == 0) {
      std::fill_n(to, n, convert<C>(*p));
    } else if (stride == 1) {
      convert_run(p, to, n);
    } else {
      for (std::int64_t i = 0; i < n; ++i) to[i] = convert<C>(p[i * stride]);
    }
  });
}

template <class C>
void scatter(DType dtype, const C* from, std::byte* to, std::int64_t stride, std::int64_t n) {
  with_type(dtype, [&]<class T>(Type<T>) {
    T* p = reinterpret_cast<T*>(to);
    if (stride == 1) {
      convert_run(from, p, n);
    } else {
      for (std::int64_t i = 0; i < n; ++i) p[i * stride] = convert<T>(from[i]);
    }
  });
}

namespace {

// What the parts of one call have in common.
template <class Out, class In, std::size_t N>
struct Blocks {
  const Inputs<N>& inputs;
  const BlockKernel<Out, In, N>& kernel;
  std::byte* y;
  DType y_dtype;
  bool y_direct;  // the kernel writes, or reads, where the array lies
  std::array<bool, N> direct{};

  bool all_direct() const { return y_direct && std::ranges::all_of(direct, std::identity{}); }
  void run(const Loops<N + 1>& loops, const std::array<std::int64_t, N + 1>& begin) const;
};

template <class Out, class In, std::size_t N>
void Blocks<Out, In, N>::run(const Loops<N + 1>& loops,
                             const std::array<std::int64_t, N + 1>& begin) const {
  const std::int64_t n = loops.inner(), block = all_direct() ? n : std::min(n, kBlock);
  const auto y_size = std::int64_t(size_of(y_dtype));
  Out y_buffer[kBlock];
  In buffer[N][kBlock];
  std::array<const In*, N> x{};
  loops.for_each_outer([&](const std::array<std::int64_t, N + 1>& offset) {
    for (std::int64_t start = 0; start < n; start += block) {
      const std::int64_t m = std::min(block, n - start);
      for (std::size_t k = 0; k < N; ++k) {
        const std::int64_t stride = loops.inner_stride(k + 1);
        const std::int64_t at = begin[k + 1] + offset[k + 1] + start * stride;
        const std::byte* p = inputs[k]->data() + at * std::int64_t(size_of(inputs[k]->dtype()));
        if (direct[k]) {
          x[k] = reinterpret_cast<const In*>(p);
        } else {
          // A broadcast number fills its buffer once for the whole run.
          const bool filled = stride == 0 && start > 0;
          if (!filled) gather(inputs[k]->dtype(), p, stride, m, buffer[k]);
          x[k] = buffer[k];
        }
      }
      const std::int64_t to = begin[0] + offset[0] + start * loops.inner_stride(0);
      Out* target = y_direct ? reinterpret_cast<Out*>(y + to * y_size) : y_buffer;
      kernel(m, target, x);
      if (!y_direct) scatter(y_dtype, y_buffer, y + to * y_size, loops.inner_stride(0), m);
    }
  });
}

}  // namespace

template <class Out, class In, std::size_t N>
void run_blocks(Array& y, const Inputs<N>& inputs, const BlockKernel<Out, In, N>& kernel) {
  if (y.numel() == 0) return;
  std::array<const Array*, N + 1> all{&y};
  std::copy(inputs.begin(), inputs.end(), all.begin() + 1);
  const Loops<N + 1> loops(all);
  Blocks<Out, In, N> blocks{inputs, kernel, y.fresh_data(), y.dtype(),
                            loops.inner_stride(0) == 1 && y.dtype() == dtype_of<Out>};
  for (std::size_t k = 0; k < N; ++k) {
    blocks.direct[k] = loops.inner_stride(k + 1) == 1 && inputs[k]->dtype() == dtype_of<In>;
  }
  const double nanoseconds = double(y.numel()) * (blocks.all_direct() ? 0.3 : 1.0);
  for_each_part_of(y.device(), loops, nanoseconds,
                   [&](const auto& part, const auto& begin) { blocks.run(part, begin); });
}

// clang-format off
template void gather(DType, const std::byte*, std::int64_t, std::int64_t, float*);
template void gather(DType, const std::byte*, std::int64_t, std::int64_t, double*);
template void gather(DType, const std::byte*, std::int64_t, std::int64_t, std::int64_t*);
template void gather(DType, const std::byte*, std::int64_t, std::int64_t, bool*);
template void scatter(DType, const float*, std::byte*, std::int64_t, std::int64_t);
template void scatter(DType, const double*, std::byte*, std::int64_t, std::int64_t);
template void scatter(DType, const std::int64_t*, std::byte*, std::int64_t, std::int64_t);
template void scatter(DType, const bool*, std::byte*, std::int64_t, std::int64_t);

// What maps (one input), zips and the derivatives of maps (two), and those of zips (three) ask for.
template void run_blocks(Array&, const Inputs<1>&, const BlockKernel<float, float, 1>&);
template void run_blocks(Array&, const Inputs<1>&, const BlockKernel<double, double, 1>&);
template void run_blocks(Array&, const Inputs<1>&, const BlockKernel<std::int64_t, std::int64_t, 1>&);
template void run_blocks(Array&, const Inputs<1>&, const BlockKernel<bool, bool, 1>&);
template void run_blocks(Array&, const Inputs<2>&, const BlockKernel<float, float, 2>&);
template void run_blocks(Array&, const Inputs<2>&, const BlockKernel<double, double, 2>&);
template void run_blocks(Array&, const Inputs<2>&, const BlockKernel<std::int64_t, std::int64_t, 2>&);
template void run_blocks(Array&, const Inputs<2>&, const BlockKernel<bool, bool, 2>&);
template void run_blocks(Array&, const Inputs<2>&, const BlockKernel<bool, float, 2>&);
template void run_blocks(Array&, const Inputs<2>&, const BlockKernel<bool, double, 2>&);
template void run_blocks(Array&, const Inputs<2>&, const BlockKernel<bool, std::int64_t, 2>&);
template void run_blocks(Array&, const Inputs<3>&, const BlockKernel<float, float, 3>&);
template void run_blocks(Array&, const Inputs<3>&, const BlockKernel<double, double, 3>&);
// clang-format on

}  // namespace tandem::host
