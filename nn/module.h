// Module: a plain struct with forward() and visit(). What else a module can do derives from visit.
//
// Copying a module copies handles: both share their weights, like assignment in Python. nn::clone()
// is the deep copy. Layer is the usual case, one tensor in and one out. Next: sequential.h,
// linear.h.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <tandem/nn/observer.h>
#include <tandem/nn/visitor.h>

namespace tandem::nn {

/// Names to tensors, as PyTorch calls them: "fc1.weight". The tensors share memory with the module.
using StateDict = std::map<std::string, Tensor>;

struct LoadOptions {
  bool strict = true;  // missing and unexpected names are errors
};

/// What load_state_dict() did not find on one side or the other.
struct LoadReport {
  std::vector<std::string> missing;     // in the module, not in the state
  std::vector<std::string> unexpected;  // in the state, not in the module
};

struct Module {
  bool training = true;

  virtual ~Module() = default;
  /// Names parameters, buffers, children and settings, each once; see visitor.h.
  virtual void visit(Visitor& v) = 0;
  /// For printing: "Linear(in_features=2, out_features=3, bias=True)". Default: the type's name.
  virtual std::string describe() const;

  /// Trainable tensors in visit order, tied ones once.
  std::vector<Tensor> parameters();
  std::vector<std::pair<std::string, Tensor>> named_parameters();
  std::vector<Tensor> buffers();
  std::vector<std::pair<std::string, Tensor>> named_buffers();

  /// Moves values inside the handles: optimizers and copies of this module follow.
  void to(Device device);
  /// Converts parameters and buffers of floating types.
  void to(DType dtype);
  /// Changes the layout of those with four dimensions.
  void to(MemoryFormat format);
  /// Sets `training` of this module and all modules below.
  void train(bool on = true);
  void eval() { train(false); }
  /// Gradients of all parameters back to undefined.
  void zero_grad();
  void requires_grad_(bool on = true);

  StateDict state_dict();
  /// Copies values into this module's tensors; a leading "module." of all names is accepted, and of
  /// the names of a tied tensor one is enough.
  /// Nothing changes unless all of it fits: one UsageError lists missing, unexpected and mismatched
  /// names.
  LoadReport load_state_dict(const StateDict& state, const LoadOptions& options = {});
};

/// A module with one tensor in and one out.
struct Layer : Module {
  virtual Tensor forward(const Tensor& x) = 0;
  Tensor operator()(const Tensor& x) { return call(*this, x); }
};

/// The tree of modules with what each describes.
std::ostream& operator<<(std::ostream& out, const Module& m);

/// The deep copy: own values, no gradients, requires_grad and ties kept. Leaves only.
template <class M>
M clone(const M& module) {
  const CategoryScope scope(Category::parameter);
  M copy = module;
  relink(copy, [](const Tensor& t) {
    Tensor twin(t.array().clone());
    if (t.requires_grad()) twin.requires_grad_();
    return twin;
  });
  return copy;
}

/// Parameters of anything a visitor can look into, in visit order, tied ones once.
template <class T>
std::vector<std::pair<std::string, Tensor>> named_tensors(T& x, TensorKind kind) {
  std::vector<std::pair<std::string, Tensor>> list;
  std::map<const void*, bool> seen;
  for_each_tensor(x, [&](Tensor& t, TensorKind k, Visitor& v) {
    if (k == kind && t.defined() && seen.emplace(t.impl().get(), true).second) {
      list.emplace_back(v.path(), t);
    }
  });
  return list;
}

}  // namespace tandem::nn
