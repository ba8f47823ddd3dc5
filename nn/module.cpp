// Module: everything that derives from visit(). Printing is in module_print.cpp.
#include <tandem/nn/module.h>

#include <functional>
#include <string_view>

#include <tandem/core/array_ops.h>
#include <tandem/core/autograd.h>

namespace tandem::nn {

namespace {

std::vector<Tensor> without_names(std::vector<std::pair<std::string, Tensor>> named) {
  std::vector<Tensor> tensors;
  tensors.reserve(named.size());
  for (auto& entry : named) tensors.push_back(std::move(entry.second));
  return tensors;
}

/// Replaces values and gradients inside the handles. A tied one meets f again: it has nothing to
/// do.
void convert(Module& m, const std::function<Array(const Array&)>& f) {
  for_each_tensor(m, [&](Tensor& t, TensorKind, Visitor&) {
    if (!t.defined()) return;
    Array value, grad;
    {
      const CategoryScope scope(Category::parameter);
      value = f(t.array());
    }
    if (t.impl()->grad.defined()) {
      const CategoryScope scope(Category::gradient);
      grad = f(t.impl()->grad);
    }
    if (!value.same_as(t.array())) t.set_array(std::move(value));
    t.impl()->grad = std::move(grad);
  });
}

constexpr std::string_view kWrapped = "module.";  // what wrapping in PyTorch's DataParallel adds

bool starts_wrapped(const std::string& name) {
  return name.starts_with(kWrapped);
}

/// Do all names carry the prefix, and none of the module's own?
bool is_wrapped(const StateDict& state, const StateDict& own) {
  for (const auto& [name, t] : state) {
    if (!starts_wrapped(name)) return false;
  }
  for (const auto& [name, t] : own) {
    if (starts_wrapped(name)) return false;
  }
  return true;
}

/// Why `from` does not fit into `to`, or an empty text.
std::string mismatch(const Tensor& to, const Tensor& from) {
  if (!from.defined()) return "undefined in the state";
  if (to.shape() == from.shape()) return "";
  return str(from.shape(), " in the state, ", to.shape(), " in the module");
}

void add_list(std::string& text, const char* title, const std::vector<std::string>& items) {
  if (items.empty()) return;
  text += text.empty() ? "" : "; ";
  text += title;
  for (std::size_t i = 0; i < items.size(); ++i) text += (i == 0 ? ": " : ", ") + items[i];
}

}  // namespace

std::vector<Tensor> Module::parameters() {
  return without_names(named_parameters());
}

std::vector<std::pair<std::string, Tensor>> Module::named_parameters() {
  return named_tensors(*this, TensorKind::parameter);
}

std::vector<Tensor> Module::buffers() {
  return without_names(named_buffers());
}

std::vector<std::pair<std::string, Tensor>> Module::named_buffers() {
  return named_tensors(*this, TensorKind::buffer);
}

void Module::to(Device device) {
  convert(*this, [device](const Array& a) { return a.to(device); });
}

void Module::to(DType dtype) {
  check(is_floating(dtype), "[Module::to] a module cannot become ", dtype,
        ": only floating types have gradients");
  convert(*this, [dtype](const Array& a) { return is_floating(a.dtype()) ? a.to(dtype) : a; });
}

void Module::to(MemoryFormat format) {
  convert(*this, [format](const Array& a) { return a.dim() == 4 ? a.to(format) : a; });
}

void Module::train(bool on) {
  struct Train final : Visitor {
    bool on;
    explicit Train(bool o) : on(o) {}
    void on_enter(Module& m) override { m.training = on; }
  };
  Train train(on);
  train.walk(*this);
}

void Module::zero_grad() {
  for (Tensor& p : parameters()) p.zero_grad();
}

void Module::requires_grad_(bool on) {
  for (Tensor& p : parameters()) p.requires_grad_(on);
}

StateDict Module::state_dict() {
  StateDict state;
  for_each_tensor(*this, [&](Tensor& t, TensorKind, Visitor& v) {
    if (!t.defined()) return;
    const std::string name = v.path();
    check(state.emplace(name, t.detach()).second, "[state_dict] visit() names two tensors ", name,
          ". Give each its own name");
  });
  return state;
}

LoadReport Module::load_state_dict(const StateDict& state, const LoadOptions& options) {
  const StateDict own = state_dict();
  const std::size_t prefix = is_wrapped(state, own) ? kWrapped.size() : 0;

  LoadReport report;
  std::vector<std::string> mismatched;
  std::vector<std::pair<Array, Array>> copies;  // to, from
  for (const auto& [full_name, from] : state) {
    const std::string name = full_name.substr(prefix);
    const auto to = own.find(name);
    if (to == own.end()) {
      report.unexpected.push_back(name);
    } else if (const std::string why = mismatch(to->second, from); !why.empty()) {
      mismatched.push_back(name + " (" + why + ")");
    } else {
      copies.emplace_back(to->second.array(), from.array());
    }
  }
  for (const auto& [name, t] : own) {
    const bool found = state.contains((prefix ? std::string(kWrapped) : "") + name) ||
                       std::any_of(copies.begin(), copies.end(), [&t = t](const auto& c) {
                         return c.first.same_as(t.array());  // tied: once is enough
                       });
    if (!found) report.missing.push_back(name);
  }

  std::string problems;
  if (options.strict) {
    add_list(problems, "missing", report.missing);
    add_list(problems, "unexpected", report.unexpected);
  }
  add_list(problems, "of another shape", mismatched);
  check(problems.empty(), "[load_state_dict] the state does not fit, nothing was changed. ",
        problems);

  for (auto& [to, from] : copies) from = from.to(to.dtype());
  for (auto& [to, from] : copies) {
    if (!to.same_as(from)) copy(to, from);
  }
  return report;
}

}  // namespace tandem::nn
