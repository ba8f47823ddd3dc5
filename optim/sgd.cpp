// SGD: options and coefficients; the rule is SgdRule in core/update_rules.h.
#include <tandem/optim/sgd.h>

#include <cmath>

#include <tandem/core/backend.h>
#include <tandem/core/error.h>
#include <tandem/core/update_rules.h>

namespace tandem::optim {

namespace {

Options by_name(const SGDOptions& o) {
  return {{"lr", o.lr},
          {"momentum", o.momentum},
          {"dampening", o.dampening},
          {"weight_decay", o.weight_decay},
          {"nesterov", double(o.nesterov)},
          {"maximize", double(o.maximize)}};
}

}  // namespace

SGD::SGD(std::vector<Tensor> parameters, const SGDOptions& options)
    : SGD(std::vector<ParamGroup>{{.params = std::move(parameters)}}, options) {}

SGD::SGD(std::vector<ParamGroup> groups, const SGDOptions& defaults) {
  start(std::move(groups), by_name(defaults));
}

std::span<const char* const> SGD::state_names() const {
  static constexpr const char* kNames[] = {"momentum_buffer"};
  return kNames;
}

void SGD::check_options(const Options& o) const {
  check(!std::isnan(o["lr"]), "[SGD] lr is required: SGD(parameters, {.lr = 0.1})");
  check(o["lr"] >= 0, "[SGD] lr must not be negative: ", o["lr"]);
  check(o["momentum"] >= 0, "[SGD] momentum must not be negative: ", o["momentum"]);
  check(o["weight_decay"] >= 0, "[SGD] weight_decay must not be negative: ", o["weight_decay"]);
  check(o["nesterov"] == 0 || (o["momentum"] > 0 && o["dampening"] == 0),
        "[SGD] nesterov needs a momentum above 0 and no dampening: momentum ", o["momentum"],
        ", dampening ", o["dampening"]);
}

UpdateOp SGD::rule() const {
  return update_op<SgdRule>;
}

void SGD::prepare(const Options& o, ParamState& state, UpdateItem& item) const {
  ++state.step;
  Array& buffer = state.tensors[0];
  const bool first = !buffer.defined();
  if (o["momentum"] != 0) {
    if (first) buffer = Array::empty_like(item.param);
    item.state[0] = buffer;
  }
  item.c[SgdRule::lr] = o["lr"];
  item.c[SgdRule::momentum] = o["momentum"];
  item.c[SgdRule::dampening] = o["dampening"];
  item.c[SgdRule::weight_decay] = o["weight_decay"];
  item.c[SgdRule::nesterov] = o["nesterov"];
  item.c[SgdRule::maximize] = o["maximize"];
  item.c[SgdRule::first] = first;
}

}  // namespace tandem::optim
