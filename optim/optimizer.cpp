// Optimizer: one step is check, prepare, update, remember; nothing changes before `update`.
#include <tandem/optim/optimizer.h>

#include <algorithm>
#include <map>
#include <unordered_set>

#include <tandem/core/array_ops.h>
#include <tandem/core/autograd.h>
#include <tandem/core/backend.h>
#include <tandem/core/error.h>
#include <tandem/core/memory.h>

namespace tandem::optim {

namespace {

template <class Values>
auto* find(Values& values, std::string_view name) {
  const auto at = std::find_if(values.begin(), values.end(),
                               [&](const auto& entry) { return entry.first == name; });
  return at == values.end() ? nullptr : &at->second;
}

[[noreturn]] void unknown_option(std::string_view name, const Options& options) {
  std::string known;
  for (const auto& [other, value] : options) known += (known.empty() ? "" : ", ") + other;
  throw UsageError(str("[optim] no option \"", name, "\". There are: ", known));
}

/// A gradient or a state with the strides of its parameter, as update() wants it.
Array laid_out_like(const Array& param, const Array& a) {
  if (a.strides() == param.strides()) return a;
  Array copied = Array::empty_like(param);
  copy(copied, a);
  return copied;
}

}  // namespace

double& Options::operator[](std::string_view name) {
  double* value = find(values_, name);
  if (!value) unknown_option(name, *this);
  return *value;
}

double Options::operator[](std::string_view name) const {
  const double* value = find(values_, name);
  if (!value) unknown_option(name, *this);
  return *value;
}

bool Options::contains(std::string_view name) const {
  return find(values_, name) != nullptr;
}

void Optimizer::start(std::vector<ParamGroup> groups, Options defaults) {
  check(!groups.empty(), "[", name(), "] got an empty list of parameters");
  defaults_ = std::move(defaults);
  for (ParamGroup& group : groups) add_param_group(std::move(group));
}

void Optimizer::add_param_group(ParamGroup group) {
  Options options = defaults_;
  for (const auto& [option, value] : group.options) options[option] = value;
  check_options(options);
  check_parameters(group);
  group.options = std::move(options);
  states_.resize(states_.size() + group.params.size());
  groups_.push_back(std::move(group));
}

void Optimizer::check_parameters(const ParamGroup& group) const {
  check(!group.params.empty(), "[", name(), "] got an empty list of parameters");
  std::unordered_set<const TensorImpl*> seen;
  for (const ParamGroup& other : groups_) {
    for (const Tensor& p : other.params) seen.insert(p.impl().get());
  }
  for (std::size_t i = 0; i < group.params.size(); ++i) {
    const Tensor& p = group.params[i];
    check(p.defined(), "[", name(), "] parameter ", i, " is undefined");
    check(is_floating(p.dtype()), "[", name(), "] parameter ", i, " is ", p.dtype(),
          ": only floating types can be optimized");
    check(p.is_leaf(), "[", name(), "] parameter ", i, " of shape ", p.shape(),
          " is the result of an op: only leaves can be optimized");
    check(p.array().is_dense(), "[", name(), "] parameter ", i, " of shape ", p.shape(),
          " is a view with gaps. Make it contiguous() first");
    check(seen.insert(p.impl().get()).second, "[", name(), "] parameter ", i, " of shape ",
          p.shape(), " is in the list twice");
  }
}

void Optimizer::check_step(std::size_t parameter, const Tensor& p) const {
  const Array& grad = p.impl()->grad;
  check(grad.device() == p.device(), "[", name(), "] the gradient of parameter ", parameter,
        " is on ", grad.device(), ", the parameter on ", p.device());
  check(grad.shape() == p.shape() && grad.dtype() == p.dtype(), "[", name(), "] parameter ",
        parameter, " is ", p.dtype(), " ", p.shape(), ", its gradient ", grad.dtype(), " ",
        grad.shape());
  for (const Array& t : states_[parameter].tensors) {
    if (!t.defined()) continue;
    check(t.device() == p.device(), "[", name(), "] state sits on ", t.device(), ", parameter ",
          parameter, " is now on ", p.device(),
          ". Make the optimizer after moving the module, or move the module back");
    check(t.shape() == p.shape() && t.dtype() == p.dtype(), "[", name(), "] state of parameter ",
          parameter, " is ", t.dtype(), " ", t.shape(), ", the parameter is now ", p.dtype(), " ",
          p.shape(), ". Make the optimizer after converting the module");
  }
}

void Optimizer::step() {
  struct Batch {  // of one device
    std::vector<UpdateItem> items;
    std::vector<std::size_t> parameters;
    std::vector<ParamState> states;
  };
  std::map<Device, Batch> batches;

  std::size_t parameter = 0;
  for (const ParamGroup& group : groups_) {
    check_options(group.options);
    for (const Tensor& p : group.params) {
      if (p.impl()->grad.defined()) check_step(parameter, p);
      ++parameter;
    }
  }

  parameter = 0;
  for (const ParamGroup& group : groups_) {
    for (const Tensor& p : group.params) {
      const std::size_t i = parameter++;
      if (!p.impl()->grad.defined()) continue;
      Batch& batch = batches[p.device()];
      UpdateItem& item = batch.items.emplace_back();
      item.param = p.array();
      item.grad = laid_out_like(item.param, p.impl()->grad);
      const CategoryScope scope(Category::optimizer);
      ParamState& next = batch.states.emplace_back(states_[i]);
      for (Array& t : next.tensors) {
        if (t.defined()) t = laid_out_like(item.param, t);
      }
      prepare(group.options, next, item);
      batch.parameters.push_back(i);
    }
  }

  for (auto& [device, batch] : batches) {
    backend(device).update(rule(), batch.items);
    for (std::size_t i = 0; i < batch.items.size(); ++i) {
      batch.items[i].param.storage()->raise_version();
      states_[batch.parameters[i]] = std::move(batch.states[i]);
    }
  }
}

void Optimizer::zero_grad(bool set_to_none) {
  for (const ParamGroup& group : groups_) {
    for (Tensor p : group.params) {
      if (set_to_none) {
        p.zero_grad();
      } else if (Array grad = p.impl()->grad; grad.defined()) {
        fill(grad, 0);
      }
    }
  }
}

}  // namespace tandem::optim
