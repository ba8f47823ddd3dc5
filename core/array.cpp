#include <tandem/core/array.h>

#include <algorithm>
#include <array>
#include <cstring>

#include <tandem/core/array_ops.h>
#include <tandem/core/backend.h>
#include <tandem/core/thread_state.h>
#include <tandem/core/trace.h>

namespace tandem {

// ---- Storage

std::optional<ValueRange> ValueRange::of(const void* values, std::int64_t count) {
  if (count == 0) return {};
  const auto at = [values](std::int64_t i) {
    std::int64_t v = 0;
    std::memcpy(&v, static_cast<const std::byte*>(values) + i * std::int64_t(sizeof v), sizeof v);
    return v;
  };
  ValueRange range{at(0), at(0)};
  for (std::int64_t i = 1; i < count; ++i) {
    range.least = std::min(range.least, at(i));
    range.largest = std::max(range.largest, at(i));
  }
  return range;
}

Storage::Storage(Passkey, std::byte* data, std::int64_t bytes, Device device, Category category,
                 std::shared_ptr<Storage> parent)
    : data_(data),
      bytes_(bytes),
      device_(device),
      category_(category),
      parent_(std::move(parent)) {}

std::shared_ptr<Storage> Storage::allocate(Device device, std::int64_t bytes) {
  const Category category = thread_state().category;
  Pool& pool = backend(device).pool();
  void* data = pool.allocate(bytes, category);
  try {
    return std::make_shared<Storage>(Passkey{}, static_cast<std::byte*>(data), bytes, device,
                                     category, nullptr);
  } catch (...) {
    pool.release(data, bytes, category);
    throw;
  }
}

std::shared_ptr<Storage> Storage::slice(std::shared_ptr<Storage> parent, std::int64_t offset,
                                        std::int64_t bytes) {
  check(offset >= 0 && bytes >= 0 && offset + bytes <= parent->bytes(), "[storage] bytes ", offset,
        " to ", offset + bytes, " of a block of ", parent->bytes());
  const Device device = parent->device();
  const Category category = parent->category();
  std::byte* data = parent->data() + offset;
  return std::make_shared<Storage>(Passkey{}, data, bytes, device, category, std::move(parent));
}

std::shared_ptr<Storage> Storage::pinned(Device device, std::shared_ptr<std::byte> memory,
                                         std::int64_t bytes) {
  auto storage = std::make_shared<Storage>(Passkey{}, memory.get(), bytes, device,
                                           thread_state().category, nullptr);
  storage->pinned_ = std::move(memory);
  return storage;
}

Storage::~Storage() {
  if (!parent_ && !pinned_) existing_backend(device_).pool().release(data_, bytes_, category_);
}

void Storage::relabel(Category category) {
  check(!parent_, "[storage] a slice has the category of its allocation");
  if (category == category_) return;
  if (!pinned_) backend(device_).pool().relabel(bytes_, category_, category);
  category_ = category;
}

// ---- making arrays

Array Array::empty(const Shape& shape, DType dtype, Device device, MemoryFormat format) {
  for (std::int64_t size : shape) {
    check(size >= 0, "[empty] a size is negative: ", shape);
  }
  __int128 bytes = std::int64_t(size_of(dtype));
  for (std::int64_t size : shape) bytes = std::min<__int128>(bytes * size, std::int64_t(1) << 60);
  const Shape strides = strides_of(shape, format);
  return Array(Storage::allocate(device, std::int64_t(bytes)), 0, shape, strides, dtype);
}

Array Array::empty_like(const Array& like) {
  Array a = empty(like.shape(), like.dtype(), like.device());
  a.strides_ = like.dense_strides();
  return a;
}

Array Array::full(const Shape& shape, double value, DType dtype, Device device) {
  Array a = empty(shape, dtype, device);
  backend(device).fill(a, value);
  return a;
}

Array Array::zeros(const Shape& shape, DType dtype, Device device) {
  return full(shape, 0, dtype, device);
}

Array Array::from_host(const void* data, const Shape& shape, DType dtype, Device device) {
  Array a = empty(shape, dtype, device);
  if (a.numel() > 0) backend(device).copy_from_host(a.fresh_data(), data, a.nbytes());
  if (dtype == DType::int64 && device.kind != DeviceKind::cpu) {
    a.storage()->set_known_range(ValueRange::of(data, a.numel()));
  }
  return a;
}

// ---- layout

namespace {

// Of a 4-D array, gaps or not: are its channels closer together than its pixels? Undecided where
// there is only one of either, or where elements share memory.
enum class Order : std::uint8_t { undecided, row_major, channels_last };

Order order_of(const Shape& shape, const Shape& strides) {
  if (shape.dim() != 4 || shape.numel() == 0 || shape[1] == 1) return Order::undecided;
  const int pixel = shape[3] > 1 ? 3 : 2;
  if (shape[pixel] == 1 || strides[1] == strides[pixel]) return Order::undecided;
  return strides[1] < strides[pixel] ? Order::channels_last : Order::row_major;
}

}  // namespace

bool Array::is_contiguous(MemoryFormat format) const {
  if (format == MemoryFormat::contiguous) return is_contiguous();
  return dim() == 4 && permute({0, 2, 3, 1}).is_contiguous();
}

MemoryFormat format_of(const Array& a) {
  const bool last = !a.is_contiguous() && a.is_contiguous(MemoryFormat::channels_last);
  return last ? MemoryFormat::channels_last : MemoryFormat::contiguous;
}

MemoryFormat nearest_format(const Array& a) {
  const bool last = !a.is_contiguous() && order_of(a.shape(), a.strides()) == Order::channels_last;
  return last ? MemoryFormat::channels_last : MemoryFormat::contiguous;
}

Shape Array::dense_strides() const {
  return is_dense() ? strides_ : strides_of(shape_, nearest_format(*this));
}

bool Array::is_contiguous() const {
  std::int64_t step = 1;
  for (int i = dim() - 1; i >= 0; --i) {
    if (shape_[i] == 0) return true;
    if (shape_[i] != 1 && strides_[i] != step) return numel() == 0;
    step *= shape_[i];
  }
  return true;
}

bool Array::is_dense() const {
  if (is_contiguous()) return true;
  // By rising stride, each dimension must continue where the smaller ones end.
  std::array<bool, kMaxDims> used{};
  std::int64_t step = 1;
  for (int left = 0; left < dim(); ++left) {
    int next = -1;
    for (int i = 0; i < dim(); ++i) {
      const bool fits = shape_[i] == 1 || (strides_[i] == step && shape_[i] > 1);
      if (!used[std::size_t(i)] && fits) next = i;
    }
    if (next < 0) return false;
    used[std::size_t(next)] = true;
    step *= shape_[next];
  }
  return true;
}

bool Array::same_as(const Array& o) const {
  return storage_ == o.storage_ && offset_ == o.offset_ && shape_ == o.shape_ &&
         strides_ == o.strides_ && dtype_ == o.dtype_;
}

// ---- views

namespace {
Array packed(const Array& x, MemoryFormat format) {
  Array a = Array::empty(x.shape(), x.dtype(), x.device(), format);
  backend(x.device()).copy(x, a);
  return a;
}
}  // namespace

Array Array::narrow(int dim, std::int64_t start, std::int64_t length) const {
  Array a = *this;
  a.offset_ += start * strides_[dim];
  a.shape_[dim] = length;
  return a;
}

Array Array::slice(int dim, std::int64_t start, std::int64_t stop, std::int64_t step) const {
  Array a = narrow(dim, start, std::max<std::int64_t>(0, (stop - start + step - 1) / step));
  a.strides_[dim] *= step;
  return a;
}

Array Array::select(int dim, std::int64_t index) const {
  Array a = narrow(dim, index, 1);
  a.shape_.erase(dim);
  a.strides_.erase(dim);
  return a;
}

Array Array::permute(const std::vector<int>& order) const {
  Array a = *this;
  for (int i = 0; i < dim(); ++i) {
    a.shape_[i] = shape_[order[std::size_t(i)]];
    a.strides_[i] = strides_[order[std::size_t(i)]];
  }
  return a;
}

Array Array::transpose(int a, int b) const {
  Array t = *this;
  std::swap(t.shape_[a], t.shape_[b]);
  std::swap(t.strides_[a], t.strides_[b]);
  return t;
}

Array Array::squeeze(int dim) const {
  Array a = *this;
  a.shape_.erase(dim);
  a.strides_.erase(dim);
  return a;
}

Array Array::unsqueeze(int dim) const {
  Array a = *this;
  const std::int64_t stride = dim < this->dim() ? shape_[dim] * strides_[dim] : 1;
  a.shape_.insert(dim, 1);
  a.strides_.insert(dim, stride);
  return a;
}

Array Array::expand(const Shape& shape) const {
  if (shape == shape_) return *this;
  Array a = *this;
  a.shape_ = shape;
  a.strides_ = Shape::filled(shape.dim(), 0);
  const int lead = shape.dim() - dim();
  check(lead >= 0, "[expand] ", shape_, " to ", shape);
  for (int i = 0; i < dim(); ++i) {
    const std::int64_t have = shape_[i], want = shape[lead + i];
    check(have == want || have == 1, "[expand] ", shape_, " to ", shape);
    a.strides_[lead + i] = have == want ? strides_[i] : 0;
  }
  return a;
}

Array Array::view_or_undefined(const Shape& shape) const {
  Array a = *this;
  a.shape_ = shape;
  if (is_contiguous() || numel() == 0) {
    a.strides_ = contiguous_strides(shape);
    return a;
  }
  // Both shapes are cut into the same runs of elements, from the right: a run of the old shape is
  // one stride, which the new sizes of the run then divide. Sizes of 1 do not matter.
  std::array<std::int64_t, kMaxDims> size{}, stride{};
  int old_dim = -1;
  for (int i = 0; i < dim(); ++i) {
    if (shape_[i] == 1) continue;
    size[std::size_t(++old_dim)] = shape_[i];
    stride[std::size_t(old_dim)] = strides_[i];
  }
  a.strides_ = Shape::filled(shape.dim(), 1);
  int new_dim = shape.dim() - 1;
  for (; old_dim >= 0; --old_dim) {
    auto at = std::size_t(old_dim);
    std::int64_t run = size[at];
    const std::int64_t base = stride[at];
    for (; at > 0 && stride[at - 1] == size[at] * stride[at]; --at) run *= size[at - 1];
    old_dim = int(at);
    std::int64_t filled = 1;
    while (new_dim >= 0 && filled < run) {
      a.strides_[new_dim] = base * filled;
      filled *= shape[new_dim--];
    }
    if (filled != run) return {};
  }
  return a;
}

Array Array::reshape(const Shape& shape) const {
  Array a = view_or_undefined(shape);
  if (a.defined()) return a;
  trace::count_reshape();
  return packed(*this, MemoryFormat::contiguous).view_or_undefined(shape);
}

Array Array::as_strided(const Shape& shape, const Shape& strides, std::int64_t offset) const {
  std::int64_t last = offset;
  bool forward = true;
  for (int i = 0; i < shape.dim(); ++i) {
    last += (shape[i] - 1) * strides[i];
    forward = forward && strides[i] >= 0;
  }
  const std::int64_t held = storage_->bytes() / std::int64_t(size_of(dtype_));
  check(
      shape.dim() == strides.dim() && offset >= 0 && forward && (shape.numel() == 0 || last < held),
      "[as_strided] sizes ", shape, ", strides ", strides, ", offset ", offset,
      " reach beyond a block of ", held, " elements");
  return Array(storage_, offset, shape, strides, dtype_);
}

Array Array::carve(std::int64_t byte_offset, const Shape& shape, DType dtype) const {
  const std::int64_t bytes = shape.numel() * std::int64_t(size_of(dtype));
  return Array(Storage::slice(storage_, byte_offset, bytes), 0, shape, contiguous_strides(shape),
               dtype);
}

// ---- copies

Array Array::to(Device device, CopyOptions options) const {
  if (device == this->device()) return *this;
  Array a = empty(shape_, dtype_, device);
  a.strides_ = dense_strides();
  copy(a, *this, options);
  return a;
}

Array Array::to(DType dtype) const {
  if (dtype == dtype_) return *this;
  Array a = empty(shape_, dtype, device());
  a.strides_ = dense_strides();
  backend(device()).cast(*this, a);
  return a;
}

Array Array::to(MemoryFormat format) const {
  if (is_contiguous(format)) return *this;
  const Order before = order_of(shape_, strides_);
  Array a = packed(*this, format);
  if (before != Order::undecided && before != order_of(shape_, a.strides_)) {
    trace::count_conversion();
  }
  return a;
}

Array Array::clone() const {
  Array a = empty_like(*this);
  backend(device()).copy(*this, a);
  return a;
}

Array Array::pin_memory() const {
  check(device().kind == DeviceKind::cpu, "[pin_memory] the tensor is on ", device(),
        ". Only memory of a CPU can be pinned");
  if (is_pinned()) return *this;
  std::shared_ptr<std::byte> memory = pinned_memory(nbytes());
  if (memory == nullptr) return *this;
  Array a(Storage::pinned(device(), std::move(memory), nbytes()), 0, shape_, dense_strides(),
          dtype_);
  backend(device()).copy(*this, a);
  return a;
}

double Array::item() const {
  check(numel() == 1, "[item] needs exactly one element, the shape is ", shape_);
  switch (dtype_) {
    case DType::float32:
      return double(to_vector<float>()[0]);
    case DType::float64:
      return to_vector<double>()[0];
    case DType::float16:
      return double(float(to_vector<Half>()[0]));
    case DType::bfloat16:
      return double(float(to_vector<BFloat16>()[0]));
    case DType::int64:
      return double(to_vector<std::int64_t>()[0]);
    case DType::int32:
      return double(to_vector<std::int32_t>()[0]);
    case DType::uint8:
      return double(to_vector<std::uint8_t>()[0]);
    default:
      return double(to_vector<bool>()[0]);
  }
}

void Array::copy_to_host(void* out) const {
  const Array x = is_contiguous() ? *this : packed(*this, MemoryFormat::contiguous);
  if (x.numel() > 0) backend(device()).copy_to_host(out, x.data(), x.nbytes());
}

}  // namespace tandem
