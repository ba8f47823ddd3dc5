// Adam and AdamW: options and coefficients; the rule is AdamRule in core/update_rules.h.
#include <tandem/optim/adam.h>

#include <cmath>

#include <tandem/core/array_ops.h>
#include <tandem/core/backend.h>
#include <tandem/core/error.h>
#include <tandem/core/update_rules.h>

namespace tandem::optim {

namespace {

template <class AnyAdamOptions>
Options by_name(const AnyAdamOptions& o) {
  return {{"lr", o.lr},
          {"beta1", o.betas[0]},
          {"beta2", o.betas[1]},
          {"eps", o.eps},
          {"weight_decay", o.weight_decay},
          {"amsgrad", double(o.amsgrad)},
          {"maximize", double(o.maximize)}};
}

Array zeros_like(const Array& a) {
  Array zeros = Array::empty_like(a);
  fill(zeros, 0);
  return zeros;
}

}  // namespace

Adam::Adam(std::vector<Tensor> parameters, const AdamOptions& options)
    : Adam(std::vector<ParamGroup>{{.params = std::move(parameters)}}, options) {}

Adam::Adam(std::vector<ParamGroup> groups, const AdamOptions& defaults) {
  start(std::move(groups), by_name(defaults));
}

AdamW::AdamW(std::vector<Tensor> parameters, const AdamWOptions& options)
    : AdamW(std::vector<ParamGroup>{{.params = std::move(parameters)}}, options) {}

AdamW::AdamW(std::vector<ParamGroup> groups, const AdamWOptions& defaults) {
  start(std::move(groups), by_name(defaults));
}

std::span<const char* const> Adam::state_names() const {
  static constexpr const char* kNames[] = {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"};
  return kNames;
}

void Adam::check_options(const Options& o) const {
  check(o["lr"] >= 0, "[", name(), "] lr must not be negative: ", o["lr"]);
  check(o["eps"] >= 0, "[", name(), "] eps must not be negative: ", o["eps"]);
  for (const char* beta : {"beta1", "beta2"}) {
    check(o[beta] >= 0 && o[beta] < 1, "[", name(), "] ", beta, " must be in [0, 1): ", o[beta]);
  }
  check(o["weight_decay"] >= 0, "[", name(),
        "] weight_decay must not be negative: ", o["weight_decay"]);
}

UpdateOp Adam::rule() const {
  return update_op<AdamRule>;
}

// t = step:  minus_step = -lr / (1 - beta1^t);  sqrt_correction2 = sqrt(1 - beta2^t)
void Adam::prepare(const Options& o, ParamState& state, UpdateItem& item) const {
  const double t = double(++state.step);
  const bool amsgrad = o["amsgrad"] != 0;
  auto& [m, v, v_max] = state.tensors;
  if (!m.defined()) m = zeros_like(item.param);
  if (!v.defined()) v = zeros_like(item.param);
  if (amsgrad && !v_max.defined()) v_max = zeros_like(item.param);
  item.state = {m, v, amsgrad ? v_max : Array()};

  const double lr = o["lr"], decay = o["weight_decay"];
  item.c[AdamRule::minus_step] = -(lr / (1 - std::pow(o["beta1"], t)));
  item.c[AdamRule::beta1] = o["beta1"];
  item.c[AdamRule::beta2] = o["beta2"];
  item.c[AdamRule::sqrt_correction2] = std::sqrt(1 - std::pow(o["beta2"], t));
  item.c[AdamRule::eps] = o["eps"];
  item.c[AdamRule::weight_decay] = decoupled() ? 0 : decay;
  item.c[AdamRule::decay] = decoupled() ? 1 - lr * decay : 1;
  item.c[AdamRule::amsgrad] = amsgrad;
  item.c[AdamRule::maximize] = o["maximize"];
}

}  // namespace tandem::optim
