#include <tandem/core/function.h>

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include <tandem/core/error.h>
#include <tandem/core/ops/operands.h>

namespace tandem {

// ---- FunctionContext

void FunctionContext::save_for_backward(const std::vector<Tensor>& tensors) {
  saved_.clear();
  defined_.clear();
  for (const Tensor& t : tensors) {
    defined_.push_back(t.defined());
    saved_.push_back(t.defined() ? Saved(t.array()) : Saved());
  }
}

std::vector<Tensor> FunctionContext::saved() const {
  std::vector<Tensor> tensors;
  for (std::size_t i = 0; i < saved_.size(); ++i) {
    tensors.push_back(defined_[i] ? Tensor(saved_[i].get()) : Tensor());
  }
  return tensors;
}

// ---- FunctionCall

namespace {

// What an array looks like, without keeping its memory.
struct Look {
  bool defined = false;
  Shape shape;
  DType dtype{};
  Device device{};

  explicit Look(const Array& a) : defined(a.defined()) {
    if (defined) *this = Look(a.shape(), a.dtype(), a.device());
  }
  Look(const Shape& s, DType t, Device d) : defined(true), shape(s), dtype(t), device(d) {}
  bool matches(const Array& a) const {
    return defined && a.shape() == shape && a.dtype() == dtype && a.device() == device;
  }
};

std::vector<Look> looks(const std::vector<Array>& arrays) {
  return {arrays.begin(), arrays.end()};
}

void check_gradient(const char* name, std::size_t i, const Look& input, const Array& g) {
  check(input.defined, "[backward of ", name, "] argument ", i,
        " is not a tensor, but a gradient was returned for it. Return Tensor() there");
  check(input.matches(g), "[backward of ", name, "] the gradient of argument ", i, " is ",
        g.dtype(), " ", g.shape(), " on ", g.device(), ", the argument ", input.dtype, " ",
        input.shape, " on ", input.device);
}

}  // namespace

void FunctionCall::add_argument(const Tensor& x) {
  const bool needed = tracked(x);
  context.needed_.push_back(needed);
  edges.push_back(needed ? gradient_edge(x) : Edge{});
  inputs.push_back(x.defined() ? x.array() : Array());
}

bool FunctionCall::any_needed() const {
  return std::any_of(edges.begin(), edges.end(), [](const Edge& e) { return bool(e); });
}

std::vector<Tensor> FunctionCall::record(const char* name, FunctionCall call,
                                         const std::vector<Tensor>& outputs, Backward backward) {
  std::vector<Array> values;
  for (const Tensor& y : outputs) values.push_back(y.defined() ? y.array() : Array());
  if (!call.any_needed()) {
    std::vector<Tensor> plain;
    for (Array& y : values) plain.push_back(y.defined() ? Tensor(std::move(y)) : Tensor());
    return plain;
  }
  std::vector<bool> differentiable;
  for (const Array& y : values) differentiable.push_back(y.defined() && is_floating(y.dtype()));
  auto closure = [name, context = std::move(call.context), in = looks(call.inputs),
                  out = looks(values), backward](std::span<const Array> dy, const Wanted& wanted,
                                                 std::span<Array> grads) mutable {
    const NoGrad no_grad;
    std::vector<Tensor> given;
    for (std::size_t i = 0; i < dy.size(); ++i) {
      const Look& y = out[i];
      const bool zeros = !dy[i].defined() && y.defined;
      given.push_back(zeros             ? Tensor(Array::zeros(y.shape, y.dtype, y.device))
                      : dy[i].defined() ? Tensor(dy[i])
                                        : Tensor());
    }
    const std::vector<Tensor> returned = backward(&context, given);
    check(returned.size() == grads.size(), "[backward of ", name, "] ", returned.size(),
          " gradients were returned, forward() took ", grads.size(),
          " arguments. Return one for each, Tensor() where there is none");
    for (std::size_t i = 0; i < grads.size(); ++i) {
      if (!returned[i].defined()) continue;
      check_gradient(name, i, in[i], returned[i].array());
      if (wanted[i]) grads[i] = returned[i].array();
    }
  };
  return record_many(name, std::move(values), std::move(call.edges), differentiable,
                     std::move(closure));
}

std::string type_name(const std::type_info& type) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> name(
      abi::__cxa_demangle(type.name(), nullptr, nullptr, &status), std::free);
  const std::string full = status == 0 ? name.get() : type.name();
  const std::size_t colon = full.rfind(':');
  return colon == std::string::npos ? full : full.substr(colon + 1);
}

}  // namespace tandem
