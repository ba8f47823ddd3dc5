#include <tandem/core/cpu/onednn.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <tandem/core/backend.h>
#include <tandem/core/cpu/onednn_kernel.h>
#include <tandem/core/error.h>
#include <tandem/core/numerics.h>

namespace tandem::host {
namespace {

constexpr std::size_t kMostKernels = 256;

bool takes(DType dtype) {
  return onednn() && (dtype == float32 || dtype == bfloat16);
}

// oneDNN has no quick kernel for two images that lie differently: both go as the result lies, or,
// if that has it both ways, as the operand.
MemoryFormat format_for(const Array& result, const Array& operand) {
  constexpr auto last = MemoryFormat::channels_last;
  const bool follows = format_of(operand) == last && result.is_contiguous(last);
  return follows ? last : format_of(result);
}

Array copied(const Array& a, MemoryFormat format) {
  const CategoryScope scope(Category::workspace);
  Array copy = Array::empty(a.shape(), a.dtype(), a.device(), format);
  backend(a.device()).copy(a, copy);
  return copy;
}

// `image` in a format, copied if need be.
Array lying(const Array& image, MemoryFormat format) {
  return image.is_contiguous(format) ? image : copied(image, format);
}

// Without gaps and overlaps, in any order.
Array dense(const Array& a) {
  return a.is_dense() ? a : copied(a, MemoryFormat::contiguous);
}

// Is dnnl_sgemm at least as quick as Eigen? Measured with AVX2 on MLPs of widths 10 to 2048: a call
// costs about half a microsecond more; and a thin product is computed without packing its operands,
// which is slow where a column of one is read across rows that share cache sets.
bool is_quicker(const Matrix<float>& a, const Matrix<float>& b) {
  const std::int64_t m = a.transposed ? a.columns : a.rows, k = a.transposed ? a.rows : a.columns,
                     n = b.transposed ? b.rows : b.columns;
  if (m * n * k < 1 << 16) return false;
  if (1.0 / double(m) + 1.0 / double(n) < 0.0038) return true;  // oneDNN's own limit of "thin"
  const auto shares_sets = [](std::int64_t stride) { return stride >= 512 && stride % 256 == 0; };
  return !(a.transposed && shares_sets(a.stride)) && !(!b.transposed && shares_sets(b.stride));
}

[[noreturn]] void fail(const dnnl::error& e) {
  throw DeviceError(std::string("[onednn] ") + e.what());
}

}  // namespace

struct OneDnn::Kernels {
  std::mutex mutex;  // held while a kernel is looked for and while it runs: it holds its arguments
  dnnl::stream stream{onednn_engine()};
  std::map<std::vector<std::int64_t>, Kernel> made{};

  // All are dropped when there are too many: whoever needs that many meets few of them again.
  template <class Make>
  Kernel& find(std::vector<std::int64_t> key, const Make& make) {
    if (const auto at = made.find(key); at != made.end()) return at->second;
    if (made.size() >= kMostKernels) made.clear();
    Kernel kernel;
    try {
      kernel = make();
    } catch (const dnnl::error& e) {
      if (e.status != dnnl_unimplemented && e.status != dnnl_invalid_arguments) fail(e);
    }
    return made.emplace(std::move(key), std::move(kernel)).first->second;
  }

  bool convolve(const Convolution& c, const Array& x, const Array& w, const Array& bias,
                const Array& y) {
    const OneThread one;
    const std::lock_guard lock(mutex);
    Kernel& kernel = find(c.key(), [&] { return make_kernel(c); });
    if (!kernel) return false;
    run(kernel, lying(x, c.images), w, bias, lying(y, c.images));
    return true;
  }

  void run(Kernel& kernel, const Array& x, const Array& w, const Array& bias, const Array& y) {
    try {
      kernel.run(stream, x, w, bias, y);
    } catch (const dnnl::error& e) {
      fail(e);
    }
  }
};

OneDnn::OneDnn() : kernels_(std::make_unique<Kernels>()) {}
OneDnn::~OneDnn() = default;

std::int64_t OneDnn::kernels() const {
  const std::lock_guard lock(kernels_->mutex);
  return std::ranges::count_if(kernels_->made, [](const auto& made) { return bool(made.second); });
}

bool OneDnn::gemm(const Array& a, const Array& b, Array& c, bool accumulate) {
  if (c.dtype() != bfloat16 || !takes(c.dtype())) return false;
  const OneThread one;
  const std::lock_guard lock(kernels_->mutex);
  Kernel& kernel = kernels_->find(product_key(a, b, c, accumulate),
                                  [&] { return make_kernel(a, b, c, accumulate); });
  if (!kernel) return false;
  kernels_->run(kernel, a, b, {}, c);
  return true;
}

bool OneDnn::conv2d(const Window2d& window, std::int64_t groups, const Array& x, const Array& w,
                    const Array& bias, Array& y) {
  if (!takes(y.dtype()) || x.numel() == 0 || w.numel() == 0 || y.numel() == 0) return false;
  const Array weight = dense(w), start = bias.defined() ? dense(bias) : bias;
  return kernels_->convolve({Convolution::forward, window, groups, y.dtype(), format_for(y, x),
                             x.shape(), w.shape(), y.shape(), weight.strides(), bias.defined()},
                            x, weight, start, y);
}

bool OneDnn::conv2d_grad_input(const Window2d& window, std::int64_t groups, const Array& w,
                               const Array& dy, Array& dx) {
  if (!takes(dx.dtype()) || dx.numel() == 0 || w.numel() == 0 || dy.numel() == 0) return false;
  const MemoryFormat format = format_for(dx, dy);
  // Computed as eight channels: with three Eigen takes two thirds of the time, with one half.
  if (format == MemoryFormat::channels_last && w.size(1) < 4) return false;
  const Array weight = dense(w);
  return kernels_->convolve({Convolution::grad_input, window, groups, dx.dtype(), format,
                             dx.shape(), w.shape(), dy.shape(), weight.strides(), false},
                            dx, weight, {}, dy);
}

bool OneDnn::conv2d_grad_weight(const Window2d& window, std::int64_t groups, const Array& x,
                                const Array& dy, Array& dw) {
  if (!takes(dw.dtype()) || x.numel() == 0 || dw.numel() == 0 || dy.numel() == 0) return false;
  constexpr auto last = MemoryFormat::channels_last;
  const bool any = format_of(x) == last || format_of(dy) == last;
  return kernels_->convolve(
      {Convolution::grad_weight, window, groups, dw.dtype(), any ? last : MemoryFormat::contiguous,
       x.shape(), dw.shape(), dy.shape(), dw.strides(), false},
      x, dw, {}, dy);
}

bool onednn_product(const Matrix<float>& a, const Matrix<float>& b, float* c, std::int64_t c_stride,
                    bool accumulate) {
  if (!onednn() || !is_quicker(a, b)) return false;
  const OneThread one;
  const std::int64_t m = a.transposed ? a.columns : a.rows, k = a.transposed ? a.rows : a.columns,
                     n = b.transposed ? b.rows : b.columns;
  const dnnl_status_t status =
      dnnl_sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', m, n, k, 1.0f, a.data,
                 a.stride, b.data, b.stride, accumulate ? 1.0f : 0.0f, c, c_stride);
  return status == dnnl_success;
}

}  // namespace tandem::host
