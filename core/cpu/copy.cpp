// Copies within a device: strided copy, conversion, fill.
#include <tandem/core/cpu/backend.h>
#include <tandem/core/cpu/traverse.h>

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

// A transposition in squares, so that neither side jumps through memory for long.
template <class T>
void copy_plane(const Loops<2>& l, const T* x, T* y) {
  constexpr std::int64_t kSide = 32;
  const auto d = std::size_t(l.dim - 1);
  const std::int64_t rows = l.size[d - 1], columns = l.size[d];
  for (std::int64_t r = 0; r < rows; r += kSide) {
    for (std::int64_t c = 0; c < columns; c += kSide) {
      for (std::int64_t i = r; i < std::min(r + kSide, rows); ++i) {
        copy_strided(x + i * l.stride[1][d - 1] + c * l.stride[1][d], l.stride[1][d],
                     y + i * l.stride[0][d - 1] + c * l.stride[0][d], l.stride[0][d],
                     std::min(kSide, columns - c));
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
  if (transposes) {
    Loops<2> planes = loops;  // the two innermost dimensions are done at once
    --planes.dim;
    planes.for_each_outer([&](const std::array<std::int64_t, 2>& offset) {
      copy_plane(loops, from + offset[1], to + offset[0]);
    });
    return;
  }
  loops.for_each_outer([&](const std::array<std::int64_t, 2>& offset) {
    copy_strided(from + offset[1], loops.inner_stride(1), to + offset[0], loops.inner_stride(0),
                 loops.inner());
  });
}

}  // namespace

void CpuBackend::copy(const Array& x, Array& y) {
  if (y.numel() == 0) return;
  switch (size_of(x.dtype())) {
    case 1:
      return copy_as<std::uint8_t>(x, y);
    case 2:
      return copy_as<std::uint16_t>(x, y);
    case 4:
      return copy_as<std::uint32_t>(x, y);
    default:
      return copy_as<std::uint64_t>(x, y);
  }
}

void CpuBackend::cast(const Array& x, Array& y) {
  if (y.numel() == 0) return;
  const Loops<2> loops({&y, &x});
  host::with_type(y.dtype(), [&]<class To>(host::Type<To>) {
    host::with_type(x.dtype(), [&]<class From>(host::Type<From>) {
      const From* from = x.data<From>();
      To* to = y.fresh_data<To>();
      const std::int64_t sx = loops.inner_stride(1), sy = loops.inner_stride(0);
      loops.for_each_outer([&](const std::array<std::int64_t, 2>& offset) {
        const From* p = from + offset[1];
        To* q = to + offset[0];
        for (std::int64_t i = 0; i < loops.inner(); ++i) {
          q[i * sy] = host::convert<To>(p[i * sx]);
        }
      });
    });
  });
}

void CpuBackend::fill(Array& y, double value) {
  if (y.numel() == 0) return;
  const Loops<1> loops({&y});
  host::with_type(y.dtype(), [&]<class T>(host::Type<T>) {
    const T v = host::convert<T>(value);
    const std::int64_t stride = loops.inner_stride(0);
    loops.for_each_outer([&](const std::array<std::int64_t, 1>& offset) {
      T* p = y.fresh_data<T>() + offset[0];
      if (stride == 1) {
        std::fill_n(p, loops.inner(), v);
      } else {
        for (std::int64_t i = 0; i < loops.inner(); ++i) p[i * stride] = v;
      }
    });
  });
}

}  // namespace tandem
