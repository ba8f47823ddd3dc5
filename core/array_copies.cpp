// Copies of arrays: within a device, between devices, many at once, joined. Part of array_ops.h.
#include <tandem/core/array_ops.h>
#include <tandem/core/trace.h>

namespace tandem {

namespace {

// A 4-D array goes into one of the other layout.
void count_if_converted(const Array& from, const Array& to) {
  const auto last = [](const Array& a) { return nearest_format(a) == MemoryFormat::channels_last; };
  const auto rows = [](const Array& a) {
    return nearest_format(a) == MemoryFormat::contiguous &&
           !a.is_contiguous(MemoryFormat::channels_last) && !expanded(a);
  };
  if (from.dim() == 4 && ((last(from) && rows(to)) || (rows(from) && last(to)))) {
    trace::count_conversion();
  }
}

// `to` has just been filled with `from` (dense, on another device): what is known of its indices?
void note_range(Array& to, const Array& from) {
  const bool whole = to.nbytes() == to.storage()->bytes() && to.is_dense();
  if (to.dtype() != DType::int64 || to.device().kind == DeviceKind::cpu || !whole) return;
  to.storage()->set_known_range(from.device().kind == DeviceKind::cpu
                                    ? ValueRange::of(from.data(), from.numel())
                                    : from.storage()->known_range());
}

}  // namespace

void copy(Array& to, const Array& from, CopyOptions options) {
  check(to.shape() == from.shape() && to.dtype() == from.dtype(), "[copy] ", from.dtype(), " ",
        from.shape(), " into ", to.dtype(), " ", to.shape());
  check_writable("copy", to);
  to.storage()->raise_version();
  if (to.numel() == 0) return;
  if (to.device() == from.device()) {
    count_if_converted(from, to);
    backend(to.device()).copy(unharmed(from, to), to);
    return;
  }
  const bool last = from.is_contiguous(MemoryFormat::channels_last) &&
                    to.is_contiguous(MemoryFormat::channels_last);
  const bool same_layout = to.strides() == from.strides()
                               ? to.is_dense()
                               : last || (to.is_contiguous() && from.is_contiguous());
  // What travels is dense: as the target lies if that is dense, else as the source does.
  const MemoryFormat format = nearest_format(to.is_dense() ? to : from);
  const Array source = same_layout ? from : from.to(format);
  Array target = same_layout || to.is_contiguous(format)
                     ? to
                     : Array::empty(to.shape(), to.dtype(), to.device(), format);
  Backend& here = backend(to.device());
  if (options.non_blocking && source.is_pinned()) {
    here.copy_from_pinned(target.fresh_data(), source.data(), to.nbytes());
  } else {
    here.copy_from_device(target.fresh_data(), backend(from.device()), source.data(), to.nbytes());
  }
  trace::count_copy(from.device(), to.device(), to.nbytes());
  note_range(to, source);
  if (target.storage() == to.storage()) return;
  count_if_converted(target, to);
  backend(to.device()).copy(target, to);
}

void copy_all(std::span<Array> to, std::span<const Array> from) {
  check(to.size() == from.size(), "[copy_all] ", from.size(), " arrays into ", to.size());
  for (std::size_t i = 0; i < to.size(); ++i) {
    check(to[i].shape() == from[i].shape() && to[i].dtype() == from[i].dtype(), "[copy_all] ",
          from[i].dtype(), " ", from[i].shape(), " into ", to[i].dtype(), " ", to[i].shape());
    check_same_device("copy_all", {&to[0], &to[i], &from[i]});
    check_writable("copy_all", to[i]);
    to[i].storage()->raise_version();
    count_if_converted(from[i], to[i]);
  }
  if (!to.empty()) backend(to[0].device()).copy_all(from, to);
}

void fill(Array& to, double value) {
  to.storage()->raise_version();
  backend(to.device()).fill(to, value);
}

MemoryFormat common_format(std::span<const Array> arrays) {
  MemoryFormat format = MemoryFormat::contiguous;
  for (const Array& a : arrays) {
    if (nearest_format(a) == MemoryFormat::channels_last) {
      format = MemoryFormat::channels_last;
    } else if (a.dim() != 4 || (a.size(1) > 1 && a.size(2) * a.size(3) > 1 && a.numel() > 0)) {
      return MemoryFormat::contiguous;
    }
  }
  return format;
}

Array concat(std::span<const Array> arrays, int dim) {
  check(!arrays.empty(), "[cat] nothing to join");
  Shape shape = arrays[0].shape();
  shape[dim] = 0;
  for (const Array& a : arrays) {
    check_same_device("cat", {&arrays[0], &a});
    shape[dim] += a.size(dim);
    Shape expected = arrays[0].shape();
    expected[dim] = a.dim() > dim ? a.size(dim) : 0;
    check(a.shape() == expected && a.dtype() == arrays[0].dtype(), "[cat] ", a.dtype(), " ",
          a.shape(), " does not fit to ", arrays[0].dtype(), " ", arrays[0].shape(),
          " along dimension ", dim);
  }
  Array y = Array::empty(shape, arrays[0].dtype(), arrays[0].device(), common_format(arrays));
  std::int64_t start = 0;
  for (const Array& a : arrays) {
    Array part = y.narrow(dim, start, a.size(dim));
    count_if_converted(a, part);
    if (a.numel() > 0) backend(y.device()).copy(a, part);
    start += a.size(dim);
  }
  return y;
}

}  // namespace tandem
