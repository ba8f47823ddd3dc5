// Optimizer: what all optimizers share. Which parameters, their options, their state, and step().
//
// An optimizer holds handles: Module::to() moves values inside them, so it keeps working as long as
// it has no state on the old device. One step() is one call of Backend::update() per device for all
// parameters; the rules stand in core/update_rules.h. Not thread safe: one thread calls step().
// Next: sgd.h, adam.h, clip.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tandem/core/tensor.h>

namespace tandem {

enum class UpdateOp : std::uint8_t;  // update_rules.h
struct UpdateItem;

namespace optim {

/// Options by name, as in PyTorch's param_groups: options["lr"]. Flags are 0 or 1.
class Options {
 public:
  Options() = default;
  Options(std::initializer_list<std::pair<std::string, double>> values) : values_(values) {}

  /// Throws UsageError listing the names there are.
  double& operator[](std::string_view name);
  double operator[](std::string_view name) const;
  bool contains(std::string_view name) const;

  auto begin() const { return values_.begin(); }
  auto end() const { return values_.end(); }
  std::size_t size() const { return values_.size(); }

 private:
  std::vector<std::pair<std::string, double>> values_;
};

/// Parameters that share options. Given to a constructor, `options` names only what differs from
/// the optimizer's: {.params = net.head.parameters(), .options = {{"lr", 1e-2}}}.
struct ParamGroup {
  std::vector<Tensor> params;
  Options options{};
};

/// What an optimizer remembers of one parameter; made at its first step with a gradient.
struct ParamState {
  std::int64_t step = 0;           // steps in which the parameter had a gradient
  std::array<Array, 3> tensors{};  // named by Optimizer::state_names(); undefined where not in use
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// Updates every parameter that has a gradient; the others, and their step counts, stay as they
  /// are. Everything is checked before anything changes. Records no history.
  void step();
  /// Gradients back to undefined, or to zero (a zero gradient still moves a parameter that has
  /// momentum or weight decay).
  void zero_grad(bool set_to_none = true);

  /// Options may be changed between steps: optimizer.group(0)["lr"] *= 0.1.
  std::size_t group_count() const { return groups_.size(); }
  Options& group(std::size_t i) { return groups_.at(i).options; }
  const Options& group(std::size_t i) const { return groups_.at(i).options; }
  std::span<const ParamGroup> param_groups() const { return groups_; }
  /// REQUIRES: parameters that no group has.
  void add_param_group(ParamGroup group);

  /// Parameters of all groups in order; their positions name them in a saved state.
  std::size_t parameter_count() const { return states_.size(); }
  const ParamState& state(std::size_t parameter) const { return states_.at(parameter); }
  ParamState& state(std::size_t parameter) { return states_.at(parameter); }
  /// PyTorch's names of ParamState::tensors: {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"}.
  virtual std::span<const char* const> state_names() const = 0;
  /// "SGD", "Adam", ...
  virtual const char* name() const = 0;

 protected:
  Optimizer() = default;

  /// For constructors of derived classes.
  void start(std::vector<ParamGroup> groups, Options defaults);

 private:
  /// Throws UsageError if the options of a group make no sense. Called before every step as well.
  virtual void check_options(const Options& options) const = 0;
  virtual UpdateOp rule() const = 0;
  /// The next step of one parameter: raises state.step, makes missing state.tensors, and fills the
  /// item's state and coefficients. item.param and item.grad are set.
  virtual void prepare(const Options& options, ParamState& state, UpdateItem& item) const = 0;

  void check_parameters(const ParamGroup& group) const;
  void check_step(std::size_t parameter, const Tensor& p) const;

  std::vector<ParamGroup> groups_;
  std::vector<ParamState> states_;
  Options defaults_;
};

}  // namespace optim
}  // namespace tandem
