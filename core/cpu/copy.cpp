// Copies within a device: strided copy, conversion, fill.
#include <cstring>

#include <tandem/core/cpu/backend.h>
#include <tandem/core/cpu/traverse.h>

// GCC's vectoriser of straight-line code sends the squares of copy_plane() through the stack, which
// takes several times as long as no vectors at all.
#if defined(__GNUC__) && !defined(__clang__)
#define TANDEM_NO_SLP [[gnu::optimize("no-tree-slp-vectorize")]]
#else
#define TANDEM_NO_SLP
#endif

namespace tandem {
namespace {

using host::Loops;

template <class T>
void copy_strided(const T* x, std::int64_t sx, T* y, std::int64_t sy, std::int64_t n) {
  if (sx == 1 && sy == 1) {
    std::memcpy(y, x, std::size_t(n) * sizeof(T));
  } else {
    for (std::int64_t i = 0; i < n; ++i) y[i * sy] = x[i * sx];
  }
}

// A transposition (x is contiguous along rows, y along columns of the plane) in squares that pass
// through a buffer: neither side jumps through memory, and strides of a power of two do no harm.
template <class T>
TANDEM_NO_SLP void copy_plane(const Loops<2>& l, const T* x, T* y) {
  constexpr std::int64_t kSide = 32;
  const auto d = std::size_t(l.dim - 1);
  const std::int64_t rows = l.size[d - 1], columns = l.size[d];
  const std::int64_t sx = l.stride[1][d], sy_row = l.stride[0][d - 1], sy = l.stride[0][d];
  T square[kSide][kSide + 1];  // [column][row]
  for (std::int64_t r = 0; r < rows; r += kSide) {
    const std::int64_t height = std::min(kSide, rows - r);
    for (std::int64_t c = 0; c < columns; c += kSide) {
      const std::int64_t width = std::min(kSide, columns - c);
      for (std::int64_t j = 0; j < width; ++j) {
        const T* from = x + r + (c + j) * sx;
        if (height == kSide) {  // of a size that the compiler knows
          std::memcpy(square[j], from, kSide * sizeof(T));
        } else {
          std::copy_n(from, height, square[j]);
        }
      }
      for (std::int64_t i = 0; i < height; ++i) {
        T* to = y + (r + i) * sy_row + c * sy;
        for (std::int64_t j = 0; j < width; ++j) to[j * sy] = square[j][i];
      }
    }
  }
}

template <class T>
void copy_as(const Array& x, Array& y) {
  const T* from = x.data<T>();
  T* to = y.fresh_data<T>();
  Loops<2> loops({&y, &x});
  const bool transposes = loops.dim >= 2 && loops.inner_stride(1) != 1 &&
                          loops.stride[1][std::size_t(loops.dim - 2)] == 1;
  const auto copy_part = [&](const Loops<2>& part, const std::array<std::int64_t, 2>& begin) {
    Loops<2> outer = part;
    if (transposes) --outer.dim;  // the two innermost dimensions are done at once
    outer.for_each_outer([&](const std::array<std::int64_t, 2>& offset) {
      const T* x_run = from + begin[1] + offset[1];
      T* y_run = to + begin[0] + offset[0];
      if (transposes) {
        copy_plane(part, x_run, y_run);
      } else {
        copy_strided(x_run, part.inner_stride(1), y_run, part.inner_stride(0), part.inner());
      }
    });
  };
  host::for_each_part_of(y.device(), loops, double(y.numel()), copy_part);
}

}  // namespace

void CpuBackend::copy(const Array& x, Array& y) {
  if (y.numel() == 0) return;
  if (x.strides() == y.strides() && y.is_dense()) {  // the same bytes in the same order
    std::byte* to = y.fresh_data();
    const std::byte* from = x.data();
    host::for_each_range(
        device(), y.nbytes(), 0.1 * double(y.nbytes()),
        [=](std::int64_t begin, std::int64_t end) {
          std::memcpy(to + begin, from + begin, std::size_t(end - begin));
        },
        4096);
    return;
  }
  host::with_bits_of(x.dtype(), [&]<class T>(host::Type<T>) { copy_as<T>(x, y); });
}

// Through the widest type of x's kind, which loses nothing: a map that changes nothing.
void CpuBackend::cast(const Array& x, Array& y) {
  const auto through = [&]<class C>(host::Type<C>) {
    host::for_each_block<C, C, 1>(
        y, {&x}, [](std::int64_t n, C* to, const C* from) { std::copy_n(from, n, to); });
  };
  if (x.dtype() == DType::float64) {
    through(host::Type<double>{});
  } else if (is_floating(x.dtype())) {
    through(host::Type<float>{});
  } else {
    through(host::Type<std::int64_t>{});
  }
}

void CpuBackend::fill(Array& y, double value) {
  if (y.numel() == 0) return;
  const Loops<1> loops({&y});
  host::with_type(y.dtype(), [&]<class T>(host::Type<T>) {
    const T v = host::convert<T>(value);
    T* data = y.fresh_data<T>();
    const auto fill_part = [&](const Loops<1>& part, const std::array<std::int64_t, 1>& begin) {
      const std::int64_t stride = part.inner_stride(0);
      part.for_each_outer([&](const std::array<std::int64_t, 1>& offset) {
        T* p = data + begin[0] + offset[0];
        if (stride == 1) {
          std::fill_n(p, part.inner(), v);
        } else {
          for (std::int64_t i = 0; i < part.inner(); ++i) p[i * stride] = v;
        }
      });
    };
    host::for_each_part_of(device(), loops, 0.2 * double(y.numel()), fill_part);
  });
}

}  // namespace tandem
