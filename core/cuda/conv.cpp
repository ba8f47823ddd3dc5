// Convolutions through cuDNN, always on channels-last tensors: what its tensor cores want, and a
// filter in NHWC takes nothing else. Images that lie otherwise are copied; the filter, which is
// small, is reordered to (O, KH, KW, C) for each call, and its gradient back.
//
// Note [Which algorithm computes a convolution]
//   The first of a fixed list of deterministic ones that cuDNN has for the shapes, the types and
//   the GPU, and that is content with kMostConvWorkspace. A batch for which all of them want more,
//   or with more elements than cuDNN counts, is computed in halves. So the choice follows from the
//   shapes, never from what memory happens to be free.
#include <algorithm>
#include <climits>

#include <tandem/core/cuda/backend.h>
#include <tandem/core/cuda/descriptors.h>
#include <tandem/core/cuda/layout.h>

namespace tandem {
namespace {

constexpr std::int64_t kMostConvWorkspace = std::int64_t(512) << 20;  // bytes

// An image (N, C, H, W) as (N, H, W, C).
Array channels_last(const Array& x) {
  return x.to(MemoryFormat::channels_last).permute({0, 2, 3, 1});
}

// A filter (O, C, KH, KW) as (O, KH, KW, C); no layout of the program's is changed, so none is
// counted.
Array reordered(const Array& w, CudaBackend& backend) {
  const Array seen = w.permute({0, 2, 3, 1});
  if (seen.is_contiguous()) return seen;
  Array filter = Array::empty(seen.shape(), w.dtype(), w.device());
  backend.copy(seen, filter);
  return filter;
}

// A result as cuDNN writes it: y itself, or room beside it that put_back() copies.
Array room_for(const Array& y) {
  const Array seen = y.permute({0, 2, 3, 1});
  return seen.is_contiguous() ? seen : Array::empty(seen.shape(), y.dtype(), y.device());
}
void put_back(const Array& from, Array& y, CudaBackend& backend) {
  if (from.storage() != y.storage()) backend.copy(from.permute({0, 3, 1, 2}), y);
}

// cuDNN takes no empty tensors: nothing to read is a result of zeros.
bool is_empty(const Array& a, const Array& b) {
  return a.numel() == 0 || b.numel() == 0;
}

// x (N, H, W, C), w (O, KH, KW, C / groups) and y (N, P, Q, O), or their gradients. One of them is
// written, and what is there before counts as much as `beta` says.
struct Problem {
  const Window2d& window;
  std::int64_t groups;
  Array x, w, y;
  float beta = 0;

  std::int64_t samples() const { return x.size(0); }
  std::int64_t most_elements() const { return std::max({x.numel(), w.numel(), y.numel()}); }
  Problem part(std::int64_t first, std::int64_t count) const {
    return {window, groups, x.narrow(0, first, count), w, y.narrow(0, first, count), beta};
  }
  gpu::ConvDescriptors descriptors() const { return {x.device(), window, groups, x, w, y}; }
};

// "x (N, C, H, W) = (2, 3, 8, 8), ... of float16 on cuda:0"
std::string words(const Problem& p) {
  const auto planes = [](const Array& a) { return a.permute({0, 3, 1, 2}).shape(); };
  return str("x (N, C, H, W) = ", planes(p.x), ", weight ", planes(p.w), ", y ", planes(p.y),
             " of ", p.x.dtype(), ", stride ", p.window.stride, ", padding ", p.window.padding,
             ", dilation ", p.window.dilation, ", groups ", p.groups, " on ", p.x.device());
}

// ---- the three directions, as cuDNN calls them

constexpr float kOne = 1;

struct Forward {
  static constexpr auto kWhat = "the convolution";
  static constexpr bool kSumsSamples = false;
  static constexpr cudnnConvolutionFwdAlgo_t kAlgorithms[] = {
      CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM,
      CUDNN_CONVOLUTION_FWD_ALGO_GEMM};

  static cudnnStatus_t ask(cudnnHandle_t handle, const gpu::ConvDescriptors& d,
                           cudnnConvolutionFwdAlgo_t algorithm, std::size_t* bytes) {
    return cudnnGetConvolutionForwardWorkspaceSize(handle, d.x(), d.w(), d.convolution(), d.y(),
                                                   algorithm, bytes);
  }
  static cudnnStatus_t run(cudnnHandle_t handle, const gpu::ConvDescriptors& d,
                           cudnnConvolutionFwdAlgo_t algorithm, Problem& p, void* space,
                           std::size_t bytes) {
    return cudnnConvolutionForward(handle, &kOne, d.x(), p.x.data(), d.w(), p.w.data(),
                                   d.convolution(), algorithm, space, bytes, &p.beta, d.y(),
                                   p.y.fresh_data());
  }
};

struct GradInput {
  static constexpr auto kWhat = "the gradient of x";
  static constexpr bool kSumsSamples = false;
  static constexpr cudnnConvolutionBwdDataAlgo_t kAlgorithms[] = {
      CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD,
      CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED,
      CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT_TILING};

  static cudnnStatus_t ask(cudnnHandle_t handle, const gpu::ConvDescriptors& d,
                           cudnnConvolutionBwdDataAlgo_t algorithm, std::size_t* bytes) {
    return cudnnGetConvolutionBackwardDataWorkspaceSize(handle, d.w(), d.y(), d.convolution(),
                                                        d.x(), algorithm, bytes);
  }
  static cudnnStatus_t run(cudnnHandle_t handle, const gpu::ConvDescriptors& d,
                           cudnnConvolutionBwdDataAlgo_t algorithm, Problem& p, void* space,
                           std::size_t bytes) {
    return cudnnConvolutionBackwardData(handle, &kOne, d.w(), p.w.data(), d.y(), p.y.data(),
                                        d.convolution(), algorithm, space, bytes, &p.beta, d.x(),
                                        p.x.fresh_data());
  }
};

struct GradWeight {
  static constexpr auto kWhat = "the gradient of the weight";
  static constexpr bool kSumsSamples = true;
  static constexpr cudnnConvolutionBwdFilterAlgo_t kAlgorithms[] = {
      CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED,
      CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT_TILING};

  static cudnnStatus_t ask(cudnnHandle_t handle, const gpu::ConvDescriptors& d,
                           cudnnConvolutionBwdFilterAlgo_t algorithm, std::size_t* bytes) {
    return cudnnGetConvolutionBackwardFilterWorkspaceSize(handle, d.x(), d.y(), d.convolution(),
                                                          d.w(), algorithm, bytes);
  }
  static cudnnStatus_t run(cudnnHandle_t handle, const gpu::ConvDescriptors& d,
                           cudnnConvolutionBwdFilterAlgo_t algorithm, Problem& p, void* space,
                           std::size_t bytes) {
    return cudnnConvolutionBackwardFilter(handle, &kOne, d.x(), p.x.data(), d.y(), p.y.data(),
                                          d.convolution(), algorithm, space, bytes, &p.beta, d.w(),
                                          p.w.fresh_data());
  }
};

// ---- choosing

// This algorithm cannot do it; another one may.
bool is_refusal(cudnnStatus_t status) {
  return CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_NOT_SUPPORTED;
}

enum class Outcome { done, refused, wants_more };

template <class Direction, class Algorithm>
Outcome try_one(CudaBackend& backend, Problem& p, const gpu::ConvDescriptors& d,
                Algorithm algorithm, std::int64_t most_workspace) {
  Outcome outcome = Outcome::done;
  const auto note = [&](cudnnStatus_t status) {
    if (!is_refusal(status)) return status;
    outcome = Outcome::refused;
    return CUDNN_STATUS_SUCCESS;
  };
  backend.dnn(
      [&](cudnnHandle_t handle, std::size_t* bytes) {
        const cudnnStatus_t status = note(Direction::ask(handle, d, algorithm, bytes));
        if (outcome == Outcome::done && std::int64_t(*bytes) > most_workspace) {
          outcome = Outcome::wants_more;
        }
        if (outcome != Outcome::done) *bytes = 0;
        return status;
      },
      [&](cudnnHandle_t handle, void* space, std::size_t bytes) {
        if (outcome != Outcome::done) return;
        gpu::check_status(note(Direction::run(handle, d, algorithm, p, space, bytes)),
                          Direction::kWhat, backend.device());
      });
  return outcome;
}

template <class Direction>
Outcome try_all(CudaBackend& backend, Problem& p, std::int64_t most_workspace) {
  const gpu::ConvDescriptors d = p.descriptors();
  Outcome best = Outcome::refused;
  for (const auto algorithm : Direction::kAlgorithms) {
    const Outcome outcome = try_one<Direction>(backend, p, d, algorithm, most_workspace);
    if (outcome == Outcome::done) return outcome;
    if (outcome == Outcome::wants_more) best = outcome;
  }
  return best;
}

template <class Direction>
void compute(CudaBackend& backend, Problem p) {
  const std::int64_t samples = p.samples(), half = samples / 2;
  if (samples == 1 || p.most_elements() <= INT_MAX) {
    Outcome outcome = try_all<Direction>(backend, p, kMostConvWorkspace);
    if (outcome == Outcome::wants_more && samples == 1) {
      outcome = try_all<Direction>(backend, p, LLONG_MAX);
    }
    if (outcome == Outcome::done) return;
    if (outcome == Outcome::refused) {
      throw DeviceError(str("[conv2d] cuDNN has no deterministic algorithm for ", Direction::kWhat,
                            ": ", words(p), ". Other sizes or another type may do"));
    }
  }
  compute<Direction>(backend, p.part(0, half));
  if (Direction::kSumsSamples) p.beta = 1;
  compute<Direction>(backend, p.part(half, samples - half));
}

// Before anything is launched: can each sample be computed by itself?
void check_countable(const Problem& p) {
  check(p.w.numel() <= INT_MAX && p.part(0, 1).most_elements() <= INT_MAX,
        "[conv2d] cuDNN counts at most ", INT_MAX, " elements of an image or a weight: ", words(p));
}

}  // namespace

// y[n, o, p, q] += bias[o], in place.
void CudaBackend::add_bias(const Array& bias, Array& y) {
  if (!bias.defined()) return;
  const Shape column = {bias.size(0), 1, 1};
  const Array wide = bias.reshape(column).expand(y.shape());
  zip(zip_op<Add>, y, wide, y);
}

// The result begins as the bias, to which cuDNN adds before it rounds to 16 bits: one rounding, as
// on CPUs.
void CudaBackend::conv2d(const Window2d& window, std::int64_t groups, const Array& x,
                         const Array& w, const Array& bias, Array& y) {
  gpu::refuse_float64("conv2d", x);
  if (y.numel() == 0) return;
  if (is_empty(x, w)) {
    fill(y, 0);
    return add_bias(bias, y);
  }
  const CategoryScope scope(Category::workspace);
  Problem p{window, groups, channels_last(x), reordered(w, *this), room_for(y)};
  check_countable(p);
  if (bias.defined()) {
    copy(bias.expand(p.y.shape()), p.y);
    p.beta = 1;
  }
  compute<Forward>(*this, p);
  put_back(p.y, y, *this);
}

void CudaBackend::conv2d_grad_input(const Window2d& window, std::int64_t groups, const Array& w,
                                    const Array& dy, Array& dx) {
  gpu::refuse_float64("conv2d", dx);
  if (dx.numel() == 0) return;
  if (is_empty(w, dy)) return fill(dx, 0);
  const CategoryScope scope(Category::workspace);
  const Problem p{window, groups, room_for(dx), reordered(w, *this), channels_last(dy)};
  check_countable(p);
  compute<GradInput>(*this, p);
  put_back(p.x, dx, *this);
}

// In halves the sums of the samples meet in dw, whose type rounds each.
void CudaBackend::conv2d_grad_weight(const Window2d& window, std::int64_t groups, const Array& x,
                                     const Array& dy, Array& dw) {
  gpu::refuse_float64("conv2d", dw);
  if (dw.numel() == 0) return;
  if (is_empty(x, dy)) return fill(dw, 0);
  const CategoryScope scope(Category::workspace);
  const Problem p{window, groups, channels_last(x), room_for(dw), channels_last(dy)};
  check_countable(p);
  compute<GradWeight>(*this, p);
  put_back(p.w, dw, *this);
}

}  // namespace tandem
