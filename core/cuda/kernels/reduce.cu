// Sums, extrema and their places. What a thread does with its values; fold.cuh does the rest.
#include <type_traits>

#include <tandem/core/convert.h>
#include <tandem/core/cuda/kernels/reduce.h>
#include <tandem/core/cuda/kernels/fold.cuh>
#include <tandem/core/cuda/kernels/grid.cuh>
#include <tandem/core/cuda/kernels/types.cuh>

namespace tandem::gpu {
namespace {

// What both kinds of reductions share: where x is read and y written.
template <class T, class Y>
struct PlacedFold {
  FoldPlaces places;
  const T* x;
  Y* y;

  struct At {
    const T* from;
    Y* to;
  };
  __device__ At at(std::uint32_t k) const {
    const Offsets<2> o = offsets(places.kept, k);
    return {x + o.at[0], y + o.at[1]};
  }
  __device__ bool is_line() const { return places.gone.rank == 1; }
  template <bool kLine>
  __device__ Compute<T> element(const At& at, std::uint32_t i) const {
    return Compute<T>(
        at.from[kLine ? i * places.gone.stride[0][0] : offsets(places.gone, i).at[0]]);
  }
};

template <class F, class T>
struct ReduceFold : PlacedFold<T, T> {
  using Rule = F;
  using Value = Compute<T>;
  using At = typename PlacedFold<T, T>::At;

  template <bool kLine>
  __device__ Value load(const At& at, std::uint32_t i) const {
    return F::load(this->template element<kLine>(at, i));
  }
  __device__ void store(const At& at, Value v) const { *at.to = convert<T>(v); }
};

// The better of two, NaN being the best; of equals the first.
template <class F>
struct ArgRule {
  template <class V>
  __device__ static V identity() {
    return {F::template identity<decltype(V::value)>(), kAllInside};
  }
  template <class T>
  __device__ static Best<T> combine(Best<T> a, Best<T> b) {
    const bool a_nan = a.value != a.value, b_nan = b.value != b.value;
    const bool equal = a.value == b.value || (a_nan && b_nan);
    const bool take_a =
        equal ? a.index < b.index : F::combine(a.value, b.value) == a.value || a_nan;
    return take_a ? a : b;
  }
};

template <class F, class T>
struct ArgFold : PlacedFold<T, std::int64_t> {
  using Rule = ArgRule<F>;
  using Value = Best<Compute<T>>;
  using At = typename PlacedFold<T, std::int64_t>::At;

  template <bool kLine>
  __device__ Value load(const At& at, std::uint32_t i) const {
    return {this->template element<kLine>(at, i), this->places.first + i};
  }
  __device__ void store(const At& at, Value v) const { *at.to = v.index; }
};

struct OutsideFold {
  using Rule = MinRule;
  using Value = std::int64_t;

  IndexRange range;
  const std::int64_t* index;
  std::int64_t* position;

  __device__ const std::int64_t* at(std::uint32_t) const { return index; }
  __device__ bool is_line() const { return true; }
  template <bool>
  __device__ Value load(const std::int64_t* from, std::uint32_t i) const {
    const std::int64_t k = from[i];
    const bool fine = (k >= 0 && k < range.size) || (range.may_ignore && k == range.ignored);
    return fine ? kAllInside : std::int64_t(i);
  }
  __device__ void store(const std::int64_t*, Value v) const { *position = v; }
};

template <class... F>
void reduce_by(OpList<F...>, ReduceOp op, DType dtype, const FoldPlaces& places,
               const FoldPlan& plan, const void* x, void* y, void* partials, cudaStream_t stream) {
  with_number(dtype, [&]<class T>(T) {
    const auto launch = [&](auto fold) { launch_fold(fold, plan, partials, stream); };
    ((op == reduce_op<F>
          ? launch(ReduceFold<F, T>{{places, static_cast<const T*>(x), static_cast<T*>(y)}})
          : void()),
     ...);
  });
}

}  // namespace

void launch_reduce(ReduceOp op, DType dtype, const FoldPlaces& places, const FoldPlan& plan,
                   const void* x, void* y, void* partials, cudaStream_t stream) {
  reduce_by(ReduceOps{}, op, dtype, places, plan, x, y, partials, stream);
}

void launch_arg_reduce(bool largest, DType dtype, const FoldPlaces& places, const FoldPlan& plan,
                       const void* x, std::int64_t* y, void* partials, cudaStream_t stream) {
  with_number(dtype, [&]<class T>(T) {
    const T* from = static_cast<const T*>(x);
    if (largest) {
      launch_fold(ArgFold<MaxRule, T>{{places, from, y}}, plan, partials, stream);
    } else {
      launch_fold(ArgFold<MinRule, T>{{places, from, y}}, plan, partials, stream);
    }
  });
}

void launch_first_outside(const FoldPlan& plan, const IndexRange& range, const std::int64_t* index,
                          std::int64_t* position, void* partials, cudaStream_t stream) {
  launch_fold(OutsideFold{range, index, position}, plan, partials, stream);
}

}  // namespace tandem::gpu
