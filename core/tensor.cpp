#include <tandem/core/tensor.h>

#include <tandem/core/autograd.h>
#include <tandem/core/thread_state.h>

namespace tandem {

Tensor::Tensor(Array value) : impl_(std::make_shared<TensorImpl>()) {
  impl_->value = std::move(value);
}

const Array& Tensor::array() const {
  check(defined(), "[tensor] an undefined tensor was used. Was it ever assigned?");
  return impl_->value;
}

void Tensor::set_array(Array value) {
  check(defined(), "[set_array] an undefined tensor has no value to replace");
  check(is_leaf(), "[set_array] only a leaf's value can be replaced");
  impl_->value = std::move(value);
  impl_->grad = {};
}

std::int64_t Tensor::size(int dim) const {
  check(this->dim() > 0, "[size] a 0-dim tensor has no dimension ", dim);
  return shape()[wrap_dim("size", dim, this->dim())];
}

bool Tensor::requires_grad() const {
  return impl_ && (impl_->requires_grad || impl_->node != nullptr);
}

bool Tensor::is_leaf() const {
  return !impl_ || impl_->node == nullptr;
}

Tensor& Tensor::requires_grad_(bool on) {
  check(is_leaf(), "[requires_grad_] this tensor was computed by ",
        is_leaf() ? "nothing" : impl_->node->name, "; only a leaf can change. detach() it first");
  check(!on || is_floating(dtype()), "[requires_grad_] ", dtype(),
        " cannot have a gradient. Only floating types can");
  impl_->requires_grad = on;
  return *this;
}

Tensor Tensor::grad() const {
  check(defined(), "[grad] the tensor is undefined");
  return impl_->grad.defined() ? Tensor(impl_->grad) : Tensor();
}

void Tensor::set_grad(const Tensor& grad) {
  check(defined() && is_leaf(), "[set_grad] only a leaf has a gradient of its own");
  if (!grad.defined()) {
    impl_->grad = {};
    return;
  }
  check(grad.shape() == shape() && grad.dtype() == dtype() && grad.device() == device(),
        "[set_grad] the gradient is ", grad.dtype(), " ", grad.shape(), " on ", grad.device(),
        ", the tensor ", dtype(), " ", shape(), " on ", device());
  impl_->grad = grad.array();
}

void Tensor::zero_grad() {
  if (impl_) impl_->grad = {};
}

void Tensor::backward(const Tensor& seed, bool retain_graph) const {
  tandem::backward({this, 1}, seed.defined() ? std::span(&seed, 1) : std::span<const Tensor>(),
                   {.retain_graph = retain_graph});
}

void Tensor::backward(bool retain_graph) const {
  backward(Tensor(), retain_graph);
}

void Tensor::register_hook(std::function<void(const Tensor& grad)> hook) {
  check(is_leaf() && requires_grad(),
        "[register_hook] only a leaf that requires a gradient can have a hook");
  impl_->hooks.push_back(std::move(hook));
}

Tensor Tensor::detach() const {
  return Tensor(array());
}

void Tensor::check_in_place(const char* op) const {
  check(!thread_state().grad_enabled || !requires_grad(), "[", op,
        "] in place on a tensor that takes part in a gradient. Do it under NoGrad, or use the op "
        "that returns a new tensor");
}

}  // namespace tandem
