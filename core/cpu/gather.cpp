// Picking along a dimension by an index, and the transpose: adding up where indices are equal.
#include <tandem/core/cpu/backend.h>
#include <tandem/core/cpu/traverse.h>

namespace tandem {
namespace {

// Positions are those of the index without its strides of zero, in row-major order.
void check_index(const char* op, const Array& index, std::int64_t size) {
  Array once = index;
  for (int d = 0; d < index.dim(); ++d) {
    if (index.strides()[d] == 0) once = once.narrow(d, 0, 1);
  }
  once = once.contiguous();
  const auto* k = once.data<std::int64_t>();
  for (std::int64_t i = 0; i < once.numel(); ++i) {
    check(k[i] >= 0 && k[i] < size, "[", op, "] index ", k[i], " at position ", i,
          " is outside [0, ", size, ")");
  }
}

// A run of n elements along the dimensions other than `dim`, for one i: `picked` is where indices
// count from, `listed` is element i, which the index says where to find.
struct Run {
  std::int64_t picked, listed, index;  // offsets of the first elements
  std::int64_t n;
};

class Runs {
 public:
  Runs(int dim, const Array& picked, const Array& listed, const Array& index)
      : first_{picked.narrow(dim, 0, 1), listed.narrow(dim, 0, 1), index.narrow(dim, 0, 1)},
        loops_({&first_[1], &first_[0], &first_[2]}),
        count_(index.size(dim)),
        step_listed_(listed.strides()[dim]),
        step_index_(index.strides()[dim]) {}

  std::int64_t stride_picked() const { return loops_.inner_stride(1); }
  std::int64_t stride_listed() const { return loops_.inner_stride(0); }
  /// 0: one index for the whole run.
  std::int64_t stride_index() const { return loops_.inner_stride(2); }

  template <class F>
  void for_each(F&& f) const {
    loops_.for_each_outer([&](const std::array<std::int64_t, 3>& offset) {
      for (std::int64_t i = 0; i < count_; ++i) {
        f(Run{offset[1], offset[0] + i * step_listed_, offset[2] + i * step_index_,
              loops_.inner()});
      }
    });
  }

 private:
  std::array<Array, 3> first_;
  host::Loops<3> loops_;
  std::int64_t count_, step_listed_, step_index_;
};

template <class T>
void gather_as(int dim, const Array& x, const Array& index, Array& y) {
  const Runs runs(dim, x, y, index);
  const std::int64_t sx = runs.stride_picked(), sy = runs.stride_listed();
  const std::int64_t si = runs.stride_index(), step = x.strides()[dim];
  runs.for_each([&](const Run& run) {
    const T* from = x.data<T>() + run.picked;
    T* to = y.fresh_data<T>() + run.listed;
    const std::int64_t* k = index.data<std::int64_t>() + run.index;
    if (si == 0 && sx == 1 && sy == 1) {
      std::copy_n(from + *k * step, run.n, to);
    } else {
      for (std::int64_t j = 0; j < run.n; ++j) to[j * sy] = from[k[j * si] * step + j * sx];
    }
  });
}

template <class T, class C>
void scatter_add_as(int dim, const Array& index, const Array& dy, Array& dx) {
  const Runs runs(dim, dx, dy, index);
  const std::int64_t sx = runs.stride_picked(), sy = runs.stride_listed();
  const std::int64_t si = runs.stride_index(), step = dx.strides()[dim];
  runs.for_each([&](const Run& run) {
    C* to = dx.fresh_data<C>() + run.picked;
    const T* from = dy.data<T>() + run.listed;
    const std::int64_t* k = index.data<std::int64_t>() + run.index;
    if (si == 0 && sx == 1 && sy == 1) {
      C* row = to + *k * step;
      for (std::int64_t j = 0; j < run.n; ++j) row[j] += host::convert<C>(from[j]);
    } else {
      for (std::int64_t j = 0; j < run.n; ++j) {
        to[k[j * si] * step + j * sx] += host::convert<C>(from[j * sy]);
      }
    }
  });
}

}  // namespace

void CpuBackend::gather(const char* op, int dim, const Array& x, const Array& index, Array& y) {
  if (y.numel() == 0) return;
  check_index(op, index, x.size(dim));
  host::with_bits_of(x.dtype(), [&]<class T>(host::Type<T>) { gather_as<T>(dim, x, index, y); });
}

void CpuBackend::scatter_add(int dim, const Array& index, const Array& dy, Array& dx) {
  if (dx.dtype() == DType::float16 || dx.dtype() == DType::bfloat16) {
    Array wide = Array::zeros(dx.shape(), DType::float32, device());
    if (dy.numel() > 0) {
      host::with_type(dy.dtype(), [&]<class T>(host::Type<T>) {
        if constexpr (host::is_half<T>) scatter_add_as<T, float>(dim, index, dy, wide);
      });
    }
    cast(wide, dx);
    return;
  }
  fill(dx, 0);
  if (dy.numel() == 0) return;
  host::with_compute_type<Domain::floats>(
      dx.dtype(), [&]<class T>(host::Type<T>) { scatter_add_as<T, T>(dim, index, dy, dx); });
}

}  // namespace tandem
