// Autocast: which ops compute in a 16-bit type while an amp::Autocast is alive, and which insist on
// float32. core/ has the rules and the state (thread_state.h); amp/autocast.h is what users write.
//
// Note [Groups of autocast]
//   Each op that takes part says so in its first line, and calls itself with other arguments:
//     if (const Recast to = recast(CastGroup::low, {a, b})) return matmul(to(a), to(b));
//   Only *eligible* arguments are cast: floating, not float64, on a kind of device that autocast is
//   on for. The groups are PyTorch's for CUDA, on every kind of device alike:
//     low     to the fast type    matmul, linear, conv2d, attention         (PyTorch's L)
//     full    to float32          exp, log, pow, losses, layer_norm         (F)
//                                 softmax, log_softmax, sum                 (S, N: they set a dtype
//                                                      argument, which comes to the same here)
//     widest  to the widest type  cat, stack; float16 with bfloat16 is an error                 (P)
//   All others follow their arguments: relu, dropout, pooling, batch_norm, add, mul, ...
//   In-place ops never cast. Closures run on arrays, below all this: a gradient has the type of
//   what it is the gradient of, so that of a float32 weight is float32.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <utility>
#include <vector>

#include <tandem/core/tensor.h>
#include <tandem/core/thread_state.h>

namespace tandem {

enum class CastGroup : std::uint8_t { low, full, widest };

/// What autocast makes of an op's arguments: nothing (false), or a cast for those that need it.
class Recast {
 public:
  Recast() = default;
  explicit Recast(DType dtype) : any_(true), dtype_(dtype) {}

  explicit operator bool() const { return any_; }
  DType dtype() const { return dtype_; }
  /// x, or x in dtype() if it is eligible; recorded, so that its gradient is cast back.
  Tensor operator()(const Tensor& x) const;
  std::vector<Tensor> operator()(const std::vector<Tensor>& xs) const;

 private:
  bool any_ = false;
  DType dtype_{};
};

namespace detail {
Recast find_recast(CastGroup group, const Tensor* const* first, std::size_t count);
}

/// True if some argument is eligible and of another type than the group asks for. Undefined ones
/// are passed over. Throws UsageError in group widest if float16 meets bfloat16.
inline Recast recast(CastGroup group,
                     std::initializer_list<std::reference_wrapper<const Tensor>> xs) {
  if (!thread_state().autocast.on) [[likely]]
    return {};
  const Tensor* list[8];
  std::size_t n = 0;
  for (const Tensor& x : xs) list[n++] = &x;
  return detail::find_recast(group, list, n);
}
Recast recast(CastGroup group, const std::vector<Tensor>& xs);

/// Casts of weights to the fast type, each made once. Holds values without history: every use
/// records a cast of its own, so a weight first used under NoGrad still gets its gradient later,
/// and the gradients of several uses are summed in float32. An entry is good for the array and the
/// version it was made from: a weight that was written since is cast again.
/// Thread safety: belongs to one thread.
class CastCache {
 public:
  /// REQUIRES: x is defined.
  Array get(const Tensor& x, DType dtype);
  void clear() { entries_.clear(); }
  std::size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    Array source;  // held, so that its memory is not another weight's
    std::uint64_t version = 0;
    Array cast;
  };
  std::map<std::pair<const TensorImpl*, DType>, Entry> entries_;
};

/// For a thread that has taken over another's state: a cache of its own, if the other had one,
/// which ends with this object. Replicas have one for each forward.
class OwnCasts {
 public:
  OwnCasts();
  ~OwnCasts() { thread_state().autocast.casts = before_; }
  OwnCasts(const OwnCasts&) = delete;
  OwnCasts& operator=(const OwnCasts&) = delete;

 private:
  CastCache cache_;
  CastCache* before_;
};

/// Ops take their arguments as they are while it lives, on every kind of device. Backward runs so.
class NoAutocast {
 public:
  NoAutocast() : before_(thread_state().autocast) {
    thread_state().autocast = {.casts = before_.casts};
  }
  ~NoAutocast() { thread_state().autocast = before_; }
  NoAutocast(const NoAutocast&) = delete;
  NoAutocast& operator=(const NoAutocast&) = delete;

 private:
  AutocastState before_;
};

}  // namespace tandem
