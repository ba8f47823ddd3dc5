// Tensor: what users hold. A shared handle to a value, its gradient and its history.
//
// Copying a Tensor copies the handle, as in Python. Ops are free functions (ops/*.h); the common
// ones are methods too, under PyTorch's names. In-place methods end in an underscore; they are
// refused where a gradient would be lost: use them under NoGrad, or on tensors without history.
// Next: autograd.h (how history works), ops/factories.h (how tensors are made).
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include <tandem/core/array.h>

namespace tandem {

struct TensorImpl;
class Tensor;

/// A number that takes part in an op without becoming a tensor.
class Scalar {
 public:
  // clang-format off
  Scalar(double v) : value_(v) {}
  Scalar(float v) : value_(double(v)) {}
  Scalar(int v) : value_(std::int64_t(v)) {}
  Scalar(std::int64_t v) : value_(v) {}
  Scalar(bool v) : value_(v) {}
  // clang-format on

  double to_double() const;
  std::int64_t to_int64() const;
  /// float32, int64 or bool: what a tensor of it would be.
  DType dtype() const;

 private:
  std::variant<double, std::int64_t, bool> value_;
};

/// For factories. Defaults: float32 (randint, arange of integers: int64), the thread's default
/// device, no gradient.
struct TensorOptions {
  std::optional<DType> dtype{};
  std::optional<Device> device{};
  bool requires_grad = false;
};

class Tensor {
 public:
  /// An undefined tensor: defined() is false.
  Tensor() = default;
  explicit Tensor(Array value);

  bool defined() const { return impl_ != nullptr; }

  // ---- what it is
  const Shape& shape() const { return array().shape(); }
  /// Size of dimension `dim`, negative from the end.
  std::int64_t size(int dim) const;
  int dim() const { return array().dim(); }
  std::int64_t numel() const { return array().numel(); }
  DType dtype() const { return array().dtype(); }
  Device device() const { return array().device(); }
  bool is_contiguous(MemoryFormat format = MemoryFormat::contiguous) const {
    return array().is_contiguous(format);
  }
  /// Raised by every in-place write of this tensor or a view of it.
  std::uint64_t version() const { return array().version(); }

  // ---- gradients
  bool requires_grad() const;
  /// REQUIRES: a leaf of a floating type.
  Tensor& requires_grad_(bool on = true);
  bool is_leaf() const;
  /// Undefined until a backward has reached this leaf. Shares memory with what is kept.
  Tensor grad() const;
  /// REQUIRES: undefined, or of this tensor's shape, dtype and device.
  void set_grad(const Tensor& grad);
  /// Back to undefined.
  void zero_grad();
  /// REQUIRES: one element, or a seed of this tensor's shape. Adds to .grad of the leaves.
  void backward(const Tensor& seed = {}, bool retain_graph = false) const;
  void backward(bool retain_graph) const;
  /// Called in every backward() as soon as this leaf's gradient of that pass is final, with the
  /// accumulated .grad. REQUIRES: a leaf that requires grad.
  void register_hook(std::function<void(const Tensor& grad)> hook);
  /// The same value without history.
  Tensor detach() const;

  // ---- values on the host
  /// The only element; converted to T. REQUIRES: numel() == 1.
  template <class T>
  T item() const;
  /// All elements in row-major order. REQUIRES: T is the dtype.
  template <class T>
  std::vector<T> to_vector() const {
    return array().to_vector<T>();
  }

  // ---- copies
  Tensor to(Device device, CopyOptions options = {}) const;
  Tensor to(DType dtype) const;
  /// The same values in another layout; the gradient comes back in this tensor's. Throws UsageError
  /// for channels_last without four dimensions.
  Tensor to(MemoryFormat format) const;
  Tensor contiguous(MemoryFormat format = MemoryFormat::contiguous) const;
  Tensor clone() const;
  /// A copy in pinned memory, which to(gpu, {.non_blocking = true}) reads while the host goes on.
  /// Where there is no GPU: this tensor. REQUIRES: on a CPU.
  Tensor pin_memory() const;
  bool is_pinned() const { return array().is_pinned(); }

  // ---- views (ops/views.h)
  Tensor view(const Shape& shape) const;
  Tensor reshape(const Shape& shape) const;
  Tensor flatten(int start_dim = 0, int end_dim = -1) const;
  Tensor permute(const std::vector<int>& dims) const;
  Tensor transpose(int dim0, int dim1) const;
  Tensor t() const;
  Tensor squeeze() const;
  Tensor squeeze(int dim) const;
  Tensor unsqueeze(int dim) const;
  Tensor expand(const Shape& shape) const;
  Tensor narrow(int dim, std::int64_t start, std::int64_t length) const;
  Tensor slice(int dim, std::int64_t start, std::int64_t stop, std::int64_t step = 1) const;
  Tensor select(int dim, std::int64_t index) const;
  /// select(0, index)
  Tensor operator[](std::int64_t index) const;
  std::vector<Tensor> split(std::int64_t size, int dim = 0) const;
  std::vector<Tensor> chunk(std::int64_t chunks, int dim = 0) const;

  // ---- math (ops/pointwise.h, ops/reduce.h, ops/linalg.h, ops/softmax.h)
  Tensor exp() const;
  Tensor log() const;
  Tensor sqrt() const;
  Tensor abs() const;
  Tensor tanh() const;
  Tensor sigmoid() const;
  Tensor relu() const;
  Tensor clamp(Scalar min, Scalar max) const;
  Tensor pow(Scalar exponent) const;
  Tensor sum() const;
  Tensor sum(const std::vector<int>& dims, bool keepdim = false) const;
  Tensor mean() const;
  Tensor mean(const std::vector<int>& dims, bool keepdim = false) const;
  Tensor max() const;
  Tensor min() const;
  Tensor argmax() const;
  Tensor argmax(int dim, bool keepdim = false) const;
  Tensor matmul(const Tensor& other) const;
  Tensor softmax(int dim) const;
  Tensor log_softmax(int dim) const;

  // ---- in place; each is one write. Refused on tensors that take part in a gradient.
  Tensor& copy_(const Tensor& from);  // any device and dtype, broadcasting
  Tensor& fill_(Scalar value);
  Tensor& zero_();
  Tensor& add_(const Tensor& other, double alpha = 1);
  Tensor& sub_(const Tensor& other, double alpha = 1);
  Tensor& mul_(const Tensor& other);
  Tensor& mul_(Scalar other);
  Tensor& div_(Scalar other);

  // ---- for the library
  const Array& array() const;
  /// Replaces the value inside the handle (all copies of the handle see it): Module::to().
  void set_array(Array value);
  const std::shared_ptr<TensorImpl>& impl() const { return impl_; }
  bool is_same(const Tensor& other) const { return impl_ == other.impl_; }

 private:
  void check_in_place(const char* op) const;

  std::shared_ptr<TensorImpl> impl_;
};

template <>
double Tensor::item<double>() const;
template <>
float Tensor::item<float>() const;
template <>
std::int64_t Tensor::item<std::int64_t>() const;
template <>
int Tensor::item<int>() const;
template <>
bool Tensor::item<bool>() const;

/// Prints values and, where they are not the defaults, dtype, device and history, like PyTorch:
///   tensor([[1.0000, 2.0000],
///           [3.0000, 4.0000]])
std::ostream& operator<<(std::ostream& out, const Tensor& t);

}  // namespace tandem

#include <tandem/core/ops/pointwise.h>  // operators: a + b
