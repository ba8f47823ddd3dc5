// Chapter 4: parallel apply. Each replica computes on its own device, in its own thread.
//
// The problem: K modules and K inputs lie on K devices; all should compute at once.
// The idea:    one rank of a worker group per replica. A replica's thread has the caller's state
//              (grad mode, ...) and its own device as default, so `zeros({3})` inside a forward is
//              where the replica is.
// What it costs: the hand-over of chapter 3.
// What can go wrong: a replica throws: see ReplicaError. A replica that is slow: all wait for it.
// Next: gather.h.
#pragma once

#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <tandem/core/error.h>
#include <tandem/core/tensor.h>
#include <tandem/nn/visitor.h>
#include <tandem/parallel/worker_group.h>

namespace tandem::parallel {

/// The device of the first tensor inside x.
template <class T>
std::optional<Device> device_of(const T& x) {
  std::optional<Device> found;
  if constexpr (nn::CarriesTensors<T>::value) {
    nn::for_each_tensor(const_cast<T&>(x), [&](Tensor& t, nn::TensorKind, nn::Visitor&) {
      if (!found && t.defined()) found = t.device();
    });
  }
  return found;
}

/// modules[i]->forward(arguments of inputs[i]...) for all i at once, each in its own thread;
/// outputs in order. An input is a std::tuple of arguments, or a single argument. `devices`: the
/// default device of each; left out, where its input lies. REQUIRES: as many of each, at least one.
template <class M, class Input>
auto parallel_apply(const std::vector<M*>& modules, const std::vector<Input>& inputs,
                    std::vector<Device> devices = {}) {
  const auto call = [](M& module, const Input& input) {
    if constexpr (requires { std::tuple_size<Input>::value; }) {
      return std::apply([&](const auto&... x) { return module.forward(x...); }, input);
    } else {
      return module.forward(input);
    }
  };
  using Out = std::decay_t<decltype(call(*modules[0], inputs[0]))>;
  check(!modules.empty() && modules.size() == inputs.size(), "[parallel_apply] ", modules.size(),
        " modules and ", inputs.size(), " inputs. Give one input for each module");
  for (std::size_t i = 0; devices.size() < inputs.size() && i < inputs.size(); ++i) {
    check(i > 0 || devices.empty(), "[parallel_apply] ", devices.size(), " devices for ",
          modules.size(), " modules");
    devices.push_back(device_of(inputs[i]).value_or(thread_state().default_device));
  }
  check(devices.size() == modules.size(), "[parallel_apply] ", devices.size(), " devices for ",
        modules.size(), " modules");
  std::vector<int> ranks;
  for (std::size_t i = 0; i < modules.size(); ++i) ranks.push_back(int(i));
  std::vector<std::optional<Out>> results(modules.size());
  WorkerGroup workers(devices);
  workers.run(ranks, [&](int rank) {
    const auto r = std::size_t(rank);
    results[r].emplace(call(*modules[r], inputs[r]));
  });
  std::vector<Out> outputs;
  for (auto& result : results) outputs.push_back(std::move(*result));
  return outputs;
}

}  // namespace tandem::parallel
