#include <tandem/core/shape.h>

#include <algorithm>
#include <ostream>

#include <tandem/core/error.h>

namespace tandem {

Shape::Shape(std::initializer_list<std::int64_t> sizes)
    : Shape(std::span<const std::int64_t>(sizes.begin(), sizes.size())) {}

Shape::Shape(std::span<const std::int64_t> sizes) {
  check(sizes.size() <= std::size_t(kMaxDims), "[shape] ", sizes.size(),
        " dimensions; the most is ", kMaxDims);
  std::copy(sizes.begin(), sizes.end(), sizes_.begin());
  dim_ = int(sizes.size());
}

Shape Shape::filled(int dim, std::int64_t value) {
  Shape s;
  for (int i = 0; i < dim; ++i) s.push_back(value);
  return s;
}

void Shape::push_back(std::int64_t size) {
  insert(dim_, size);
}

void Shape::erase(int i) {
  std::copy(sizes_.begin() + i + 1, sizes_.begin() + dim_, sizes_.begin() + i);
  --dim_;
}

void Shape::insert(int i, std::int64_t size) {
  check(dim_ < kMaxDims, "[shape] more than ", kMaxDims, " dimensions");
  std::copy_backward(sizes_.begin() + i, sizes_.begin() + dim_, sizes_.begin() + dim_ + 1);
  sizes_[std::size_t(i)] = size;
  ++dim_;
}

bool Shape::operator==(const Shape& other) const {
  return std::equal(begin(), end(), other.begin(), other.end());
}

std::ostream& operator<<(std::ostream& out, const Shape& shape) {
  out << "(";
  for (int i = 0; i < shape.dim(); ++i) out << (i > 0 ? ", " : "") << shape[i];
  return out << (shape.dim() == 1 ? ",)" : ")");
}

Shape contiguous_strides(const Shape& shape) {
  Shape strides = shape;
  std::uint64_t step = 1;  // unsigned, as in numel()
  for (int i = shape.dim() - 1; i >= 0; --i) {
    strides[i] = std::int64_t(step);
    step *= std::uint64_t(std::max<std::int64_t>(shape[i], 1));
  }
  return strides;
}

Shape channels_last_strides(const Shape& shape) {
  check(shape.dim() == 4, "[channels_last] needs four dimensions (N, C, H, W): the shape is ",
        shape);
  const Shape s = contiguous_strides({shape[0], shape[2], shape[3], shape[1]});
  return {s[0], s[3], s[1], s[2]};
}

Shape strides_of(const Shape& shape, MemoryFormat format) {
  return format == MemoryFormat::contiguous ? contiguous_strides(shape)
                                            : channels_last_strides(shape);
}

std::ostream& operator<<(std::ostream& out, MemoryFormat format) {
  return out << (format == MemoryFormat::contiguous ? "contiguous" : "channels_last");
}

Shape broadcast(const char* op, const Shape& a, const Shape& b) {
  if (a == b) return a;
  const int dim = std::max(a.dim(), b.dim());
  Shape result = Shape::filled(dim, 1);
  for (int i = 1; i <= dim; ++i) {
    const std::int64_t x = i <= a.dim() ? a[a.dim() - i] : 1;
    const std::int64_t y = i <= b.dim() ? b[b.dim() - i] : 1;
    check(x == y || x == 1 || y == 1, "[", op, "] shapes do not broadcast: ", a, " and ", b,
          ". Sizes must be equal or 1, counted from the right");
    result[dim - i] = x == 1 ? y : x;
  }
  return result;
}

int wrap_dim(const char* op, int dim, int rank) {
  const int n = std::max(rank, 1);
  check(dim >= -n && dim < n, "[", op, "] dimension ", dim, " of a tensor with ", rank,
        " dimensions. Expected ", -n, " to ", n - 1);
  return dim < 0 ? dim + n : dim;
}

}  // namespace tandem
