#include <tandem/core/cpu/onednn.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <tandem/core/backend.h>
#include <tandem/core/cpu/conv_shared.h>
#include <tandem/core/cpu/onednn_kernel.h>
#include <tandem/core/cpu/team.h>
#include <tandem/core/error.h>
#include <tandem/core/memory.h>
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

// Without gaps and overlaps, in any order.
Array dense(const Array& a) {
  return a.is_dense() ? a : lying(a, MemoryFormat::contiguous);
}

// A column is slow to read where rows begin so many bytes apart that they share a few sets of the
// first cache.
bool shares_sets(std::int64_t stride) {
  return stride % 256 == 0;
}

// A transposed left operand whose columns share sets is worth a copy that does not, if it is read
// for enough columns of the result.
bool is_worth_spreading(const Matrix<float>& a, const Matrix<float>& b) {
  return a.transposed && shares_sets(a.stride) && b.width() >= 64;
}

// Is dnnl_sgemm at least as quick as Eigen? Measured with AVX2 on MLPs of widths 10 to 2048: a call
// costs about half a microsecond more; and a thin product is computed without packing its operands,
// which is slow where a column of one is read across rows that share cache sets.
bool is_quicker(const Matrix<float>& a, const Matrix<float>& b) {
  const std::int64_t m = a.height(), n = b.width();
  if (m * n * a.width() < 1 << 16) return false;
  if (!onednn_is_thin(m, n)) return true;
  if (!b.transposed && b.stride % 1024 == 0) return false;
  if (is_worth_spreading(a, b)) return true;
  const bool slow_a = a.transposed && shares_sets(a.stride) && a.stride > 256,
             slow_b = !b.transposed && shares_sets(b.stride) && b.stride > 256;
  return !slow_a && !slow_b;
}

// Some samples of a batch.
struct Range {
  std::int64_t begin, count;
  Array of(const Array& images) const {
    return count == images.size(0) ? images : images.narrow(0, begin, count);
  }
};

// Nearly equal ones.
std::vector<Range> ranges(std::int64_t n, std::int64_t parts) {
  std::vector<Range> list;
  for (std::int64_t i = 0; i < parts; ++i) {
    const std::int64_t begin = n * i / parts;
    list.push_back({begin, n * (i + 1) / parts - begin});
  }
  return list;
}

// Samples do not depend on each other, so any parts will do; the gradient of a weight is a sum over
// them, which is cut in the same way whatever the number of threads.
std::vector<Range> parts_of(const Convolution& c) {
  const std::int64_t n = c.x[0];
  const double products = double(c.y.numel()) * double(c.w.numel() / c.w[0]);
  if (c.operation == Convolution::grad_weight) return ranges(n, weight_parts(c.w, c.y, c.dtype));
  return ranges(n, std::min<std::int64_t>(n, parts_for(0.03 * products)));
}

// The weights of all parts; where they are what is computed, the first part's, and room for those
// of the others.
std::vector<Array> weights_of_parts(const Convolution& c, const Array& w, std::size_t parts) {
  std::vector<Array> list(parts, w);
  if (c.operation != Convolution::grad_weight) return list;
  const CategoryScope scope(Category::workspace);
  for (std::size_t i = 1; i < parts; ++i) {
    list[i] =
        Array::empty({w.numel()}, w.dtype(), w.device()).as_strided(w.shape(), w.strides(), 0);
  }
  return list;
}

// The first one is their sum.
void add_up(const std::vector<Array>& parts) {
  Array sum = parts[0];
  for (std::size_t i = 1; i < parts.size(); ++i) {
    backend(sum.device()).zip(zip_op<Add>, sum, parts[i], sum);
  }
}

[[noreturn]] void fail(const dnnl::error& e) {
  throw DeviceError(std::string("[onednn] ") + e.what());
}

}  // namespace

struct OneDnn::Kernels {
  std::mutex mutex;  // held while a kernel is looked for and while it runs: it holds its arguments
  std::map<std::vector<std::int64_t>, Kernel> made{};

  // For those that are missing: all are dropped when there are too many, for whoever needs that
  // many meets few of them again.
  void make_room(const std::vector<std::vector<std::int64_t>>& keys) {
    const auto missing =
        std::ranges::count_if(keys, [&](const auto& key) { return !made.contains(key); });
    if (missing > 0 && made.size() + std::size_t(missing) > kMostKernels) made.clear();
  }

  template <class Make>
  Kernel& find(std::vector<std::int64_t> key, const Make& make) {
    if (const auto at = made.find(key); at != made.end()) return at->second;
    Kernel kernel;
    try {
      kernel = make();
    } catch (const dnnl::error& e) {
      if (e.status != dnnl_unimplemented && e.status != dnnl_invalid_arguments) fail(e);
    }
    return made.emplace(std::move(key), std::move(kernel)).first->second;
  }

  // A part of the batch has a kernel of its own, not shared with another part: it holds its
  // arguments. None if oneDNN refuses one.
  std::vector<Kernel*> find_parts(Convolution c, const std::vector<Range>& parts) {
    std::vector<std::vector<std::int64_t>> keys;
    for (const Range& rows : parts) {
      c.x[0] = c.y[0] = rows.count;
      keys.push_back(c.key());
      keys.back().push_back(std::int64_t(keys.size()));
    }
    make_room(keys);
    std::vector<Kernel*> kernels;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      c.x[0] = c.y[0] = parts[i].count;
      Kernel& kernel = find(keys[i], [&] { return make_kernel(c); });
      if (!kernel) return {};
      kernels.push_back(&kernel);
    }
    return kernels;
  }

  bool convolve(const Convolution& c, const Array& x, const Array& w, const Array& bias,
                const Array& y) {
    const OneThread one;
    const std::lock_guard lock(mutex);
    const std::vector<Range> parts = parts_of(c);
    const std::vector<Kernel*> kernels = find_parts(c, parts);
    if (kernels.empty()) return false;
    const Array images = lying(x, c.images), results = lying(y, c.images);
    const std::vector<Array> weights = weights_of_parts(c, w, parts.size());
    for_each_part(y.device(), int(parts.size()), [&](int part) {
      const auto i = std::size_t(part);
      const OneThread one_of_part;
      run(*kernels[i], parts[i].of(images), weights[i], bias, parts[i].of(results));
    });
    if (c.operation == Convolution::grad_weight) add_up(weights);
    return true;
  }

  void run(Kernel& kernel, const Array& x, const Array& w, const Array& bias, const Array& y) {
    try {
      kernel.run(dnnl::stream(onednn_engine()), x, w, bias, y);  // parts run at once
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
  const std::vector<std::int64_t> key = product_key(a, b, c, accumulate);
  kernels_->make_room({key});
  Kernel& kernel = kernels_->find(key, [&] { return make_kernel(a, b, c, accumulate); });
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

bool onednn_takes(const Matrix<float>& a, const Matrix<float>& b) {
  return onednn() && is_quicker(a, b);
}

bool onednn_is_thin(std::int64_t m, std::int64_t n) {
  return 1.0 / double(m) + 1.0 / double(n) >= 0.0038;  // oneDNN's own limit with AVX2
}

bool onednn_has_avx512() {
#if defined(__x86_64__)
  static const bool has = __builtin_cpu_supports("avx512f") != 0;
  return has;
#else
  return false;
#endif
}

Array onednn_spread(Device device, Matrix<float>& a, const Matrix<float>& b) {
  if (!is_worth_spreading(a, b)) return {};
  constexpr std::int64_t kLine = 16;
  const std::int64_t lines = (a.columns + kLine - 1) / kLine * kLine;
  const std::int64_t stride = shares_sets(lines) ? lines + kLine : lines;
  Array copy;
  try {
    const CategoryScope workspace(Category::workspace);
    copy = Array::empty({a.rows, stride}, float32, device);
  } catch (const OutOfMemory&) {
    return {};  // it is slower without
  }
  float* const to = copy.fresh_data<float>();
  for (std::int64_t i = 0; i < a.rows; ++i) {
    std::copy_n(a.data + i * a.stride, a.columns, to + i * stride);
  }
  a.data = to;
  a.stride = stride;
  return copy;
}

bool onednn_product(const Matrix<float>& a, const Matrix<float>& b, float* c, std::int64_t c_stride,
                    bool accumulate) {
  const OneThread one;
  const std::int64_t n = b.width();
  // What is thin, or of at most two steps, oneDNN cuts into blocks of 4032 columns, but halves the
  // rest where it is wider than 6048: the halves need not be whole panels (gemm.cpp).
  const bool in_blocks = onednn_is_thin(a.height(), n) || a.width() <= 2;
  for (std::int64_t j = 0, width = 0; j < n; j += width) {
    width = in_blocks && n - j > 6048 ? 4032 : n - j;
    const Matrix<float> part = b.columns_from(j, width);
    const dnnl_status_t status = dnnl_sgemm(
        a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', a.height(), width, a.width(), 1.0f,
        a.data, a.stride, part.data, part.stride, accumulate ? 1.0f : 0.0f, c + j, c_stride);
    if (status != dnnl_success) return false;
  }
  return true;
}

}  // namespace tandem::host
