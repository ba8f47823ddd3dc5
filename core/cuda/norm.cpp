// Normalization: statistics of channels, and what is done to every element with them. Statistics
// are float32 (statistics_type()).
#include <tandem/core/cuda/backend.h>
#include <tandem/core/cuda/folds.h>
#include <tandem/core/cuda/kernels/norm.h>

namespace tandem {
namespace {

using gpu::kMostElements;

std::uint32_t narrow_size(std::int64_t size) {
  return gpu::narrow<std::uint32_t>("normalize", size, kMostElements);
}

gpu::ChannelPlaces channel_places(const Array& x) {
  return {gpu::Divisor(narrow_size(x.size(2))), x.size(1)};
}

gpu::FoldPlan channel_plan(const Array& x) {
  return gpu::plan_fold(narrow_size(x.size(1)), narrow_size(x.size(0) * x.size(2)), x.size(2) == 1);
}

gpu::NormalWeight weight_of(const Array& w) {
  if (!w.defined()) return {};
  return {w.data<float>(), w.size(0) == 1 ? 0 : w.strides()[0],
          w.size(1) == 1 ? 0 : w.strides()[1]};
}

gpu::NormalBy normal_by(const Normal& by) {
  return {by.mean.data<float>(), by.var.data<float>(), float(by.eps), weight_of(by.weight),
          weight_of(by.bias)};
}

// Calls f(piece, offset of its first element) for launches that together are all of x.
template <class F>
void for_each_normal_piece(const Array& x, F&& f) {
  const std::int64_t outer = x.size(0), channels = x.size(1), inner = x.size(2);
  constexpr std::int64_t kMost = kMostElements;
  gpu::NormalPiece piece{0, gpu::Divisor(narrow_size(inner)), gpu::Divisor(kMostElements), 0};
  if (channels <= kMost / inner) {
    piece.channels = gpu::Divisor(narrow_size(channels));
    const std::int64_t size = channels * inner, most = kMost / size;
    for (std::int64_t o = 0; o < outer; o += most) {
      piece.numel = narrow_size(std::min(most, outer - o) * size);
      f(piece, o * size);
    }
    return;
  }
  for (std::int64_t row = 0; row < outer * channels;) {
    piece.channel = row % channels;
    const std::int64_t rows = std::min(kMost / inner, channels - piece.channel);
    piece.numel = narrow_size(rows * inner);
    f(piece, row * inner);
    row += rows;
  }
}

}  // namespace

void CudaBackend::moments(const Array& x, Array& mean, Array& m2) {
  if (x.numel() == 0) {
    fill(mean, 0);
    fill(m2, 0);
    return;
  }
  gpu::refuse_float64("moments", x);
  const gpu::ChannelPlaces places = channel_places(x);
  const gpu::FoldPlan plan = channel_plan(x);
  Array partials = gpu::partials_for(plan, device());
  Array sums = gpu::workspace(x.size(1) * std::int64_t(sizeof(float)), device());
  float* const sum = reinterpret_cast<float*>(sums.fresh_data());
  launch("moments", [&](cudaStream_t s) {
    gpu::launch_channel_sums(x.dtype(), places, plan, x.data(), sum, gpu::data_of(partials), s);
    gpu::launch_moments(x.dtype(), places, plan, x.data(), sum, mean.fresh_data<float>(),
                        m2.fresh_data<float>(), gpu::data_of(partials), s);
  });
}

void CudaBackend::normalize(const Array& x, const Normal& by, Array& y) {
  if (y.numel() == 0) return;
  gpu::refuse_float64("normalize", x);
  const auto size = std::int64_t(size_of(x.dtype()));
  launch("normalize", [&](cudaStream_t s) {
    for_each_normal_piece(x, [&](const gpu::NormalPiece& piece, std::int64_t at) {
      gpu::launch_normalize(x.dtype(), piece, normal_by(by), x.data() + at * size,
                            y.fresh_data() + at * size, s);
    });
  });
}

void CudaBackend::normalize_sums(const Array& x, const Normal& by, const Array& dy, Array& sum_g,
                                 Array& sum_gx) {
  if (x.numel() == 0) {
    fill(sum_g, 0);
    fill(sum_gx, 0);
    return;
  }
  gpu::refuse_float64("normalize", x);
  const gpu::ChannelPlaces places = channel_places(x);
  const gpu::FoldPlan plan = channel_plan(x);
  Array partials = gpu::partials_for(plan, device());
  launch("normalize_sums", [&](cudaStream_t s) {
    gpu::launch_normalize_sums(x.dtype(), places, plan, normal_by(by), x.data(), dy.data(),
                               sum_g.fresh_data<float>(), sum_gx.fresh_data<float>(),
                               gpu::data_of(partials), s);
  });
}

void CudaBackend::normalize_grad(const Array& x, const Normal& by, const Array& dy,
                                 const Array& mean_g, const Array& mean_gx, Array& dx) {
  if (dx.numel() == 0) return;
  gpu::refuse_float64("normalize", x);
  const auto size = std::int64_t(size_of(x.dtype()));
  launch("normalize_grad", [&](cudaStream_t s) {
    for_each_normal_piece(x, [&](const gpu::NormalPiece& piece, std::int64_t at) {
      gpu::launch_normalize_grad(x.dtype(), piece, normal_by(by), x.data() + at * size,
                                 dy.data() + at * size, mean_g.data<float>(), mean_gx.data<float>(),
                                 dx.fresh_data() + at * size, s);
    });
  });
}

}  // namespace tandem
