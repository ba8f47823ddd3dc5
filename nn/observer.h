// LayerObserver: sees the calls of layers on its thread; nn::summary() is made of one.
//
// Layer::operator() and Box go through call(), which asks whether somebody is looking: one test of
// a thread-local pointer. Next: summary.h.
#pragma once

#include <concepts>
#include <utility>

#include <tandem/core/tensor.h>

namespace tandem::nn {

struct Module;

class LayerObserver {
 public:
  /// From now on this thread's calls come here, and not to the observer before.
  LayerObserver() : before_(std::exchange(current_, this)) {}
  virtual ~LayerObserver() { current_ = before_; }
  LayerObserver(const LayerObserver&) = delete;
  LayerObserver& operator=(const LayerObserver&) = delete;

  static LayerObserver* current() { return current_; }

  virtual void on_call(Module& module, const Tensor& x) = 0;
  /// Not called if forward() throws.
  virtual void on_return(Module& module, const Tensor& y) = 0;

 private:
  static inline thread_local constinit LayerObserver* current_ = nullptr;
  LayerObserver* before_;
};

/// module.forward(x), shown to the observer if there is one and M is a Module.
template <class M>
Tensor call(M& module, const Tensor& x) {
  if constexpr (std::derived_from<M, Module>) {
    if (LayerObserver* const observer = LayerObserver::current()) [[unlikely]] {
      observer->on_call(module, x);
      Tensor y = module.forward(x);
      observer->on_return(module, y);
      return y;
    }
  }
  return module.forward(x);
}

}  // namespace tandem::nn
