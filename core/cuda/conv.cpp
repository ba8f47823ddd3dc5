// Convolutions through cuDNN, always on channels-last tensors: what its tensor cores want, and a
// filter in NHWC takes nothing else. Images that lie otherwise are copied; the filter, which is
// small, is reordered to (O, KH, KW, C) for each call, and its gradient back.
//
// The algorithms are the deterministic ones.
#include <tandem/core/cuda/backend.h>
#include <tandem/core/cuda/descriptors.h>
#include <tandem/core/cuda/layout.h>

namespace tandem {
namespace {

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

}  // namespace

// y[n, o, p, q] += bias[o], in place.
void CudaBackend::add_bias(const Array& bias, Array& y) {
  if (!bias.defined()) return;
  const Shape column = {bias.size(0), 1, 1};
  const Array wide = bias.reshape(column).expand(y.shape());
  zip(zip_op<Add>, y, wide, y);
}

void CudaBackend::conv2d(const Window2d& window, std::int64_t groups, const Array& x,
                         const Array& w, const Array& bias, Array& y) {
  gpu::refuse_float64("conv2d", x);
  if (y.numel() == 0) return;
  if (is_empty(x, w)) {
    fill(y, 0);
    return add_bias(bias, y);
  }
  const CategoryScope scope(Category::workspace);
  const Array in = channels_last(x), filter = reordered(w, *this);
  Array out = room_for(y);
  const gpu::ConvDescriptors d(device(), window, groups, in, filter, out);
  constexpr auto algorithm = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;
  const float one = 1, zero = 0;
  dnn(
      [&](cudnnHandle_t handle, std::size_t* bytes) {
        return cudnnGetConvolutionForwardWorkspaceSize(handle, d.x(), d.w(), d.convolution(), d.y(),
                                                       algorithm, bytes);
      },
      [&](cudnnHandle_t handle, void* space, std::size_t bytes) {
        TANDEM_CUDA_CHECK(
            device(), cudnnConvolutionForward(handle, &one, d.x(), in.data(), d.w(), filter.data(),
                                              d.convolution(), algorithm, space, bytes, &zero,
                                              d.y(), out.fresh_data()));
      });
  put_back(out, y, *this);
  add_bias(bias, y);
}

void CudaBackend::conv2d_grad_input(const Window2d& window, std::int64_t groups, const Array& w,
                                    const Array& dy, Array& dx) {
  gpu::refuse_float64("conv2d", dx);
  if (dx.numel() == 0) return;
  if (is_empty(w, dy)) return fill(dx, 0);
  const CategoryScope scope(Category::workspace);
  const Array filter = reordered(w, *this), grad = channels_last(dy);
  Array out = room_for(dx);
  const gpu::ConvDescriptors d(device(), window, groups, out, filter, grad);
  constexpr auto algorithm = CUDNN_CONVOLUTION_BWD_DATA_ALGO_1;
  const float one = 1, zero = 0;
  dnn(
      [&](cudnnHandle_t handle, std::size_t* bytes) {
        return cudnnGetConvolutionBackwardDataWorkspaceSize(handle, d.w(), d.y(), d.convolution(),
                                                            d.x(), algorithm, bytes);
      },
      [&](cudnnHandle_t handle, void* space, std::size_t bytes) {
        TANDEM_CUDA_CHECK(
            device(), cudnnConvolutionBackwardData(handle, &one, d.w(), filter.data(), d.y(),
                                                   grad.data(), d.convolution(), algorithm, space,
                                                   bytes, &zero, d.x(), out.fresh_data()));
      });
  put_back(out, dx, *this);
}

void CudaBackend::conv2d_grad_weight(const Window2d& window, std::int64_t groups, const Array& x,
                                     const Array& dy, Array& dw) {
  gpu::refuse_float64("conv2d", dw);
  if (dw.numel() == 0) return;
  if (is_empty(x, dy)) return fill(dw, 0);
  const CategoryScope scope(Category::workspace);
  const Array in = channels_last(x), grad = channels_last(dy);
  Array out = room_for(dw);
  const gpu::ConvDescriptors d(device(), window, groups, in, out, grad);
  constexpr auto algorithm = CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1;
  const float one = 1, zero = 0;
  dnn(
      [&](cudnnHandle_t handle, std::size_t* bytes) {
        return cudnnGetConvolutionBackwardFilterWorkspaceSize(handle, d.x(), d.y(), d.convolution(),
                                                              d.w(), algorithm, bytes);
      },
      [&](cudnnHandle_t handle, void* space, std::size_t bytes) {
        TANDEM_CUDA_CHECK(
            device(), cudnnConvolutionBackwardFilter(handle, &one, d.x(), in.data(), d.y(),
                                                     grad.data(), d.convolution(), algorithm, space,
                                                     bytes, &zero, d.w(), out.fresh_data()));
      });
  put_back(out, dw, *this);
}

}  // namespace tandem
