// Chapter 7: DataParallel. The chapters before, put together.
//
//   Net model;
//   parallel::DataParallel net(model, {.devices = {cpu(0), cpu(1)}});
//   Tensor loss = nn::cross_entropy(net(x), y);   // scatter, replicate, parallel apply, gather
//   loss.backward();                              // the mirror image; gradients summed
//   optimizer.step();                             // on the first device; the next forward re-sends
//
// The problem: make K devices compute one model's forward and backward as if they were one.
// The idea:    forward() is the four chapters in a row, and leaves *one* node on the caller's
//              graph. Each replica has a private graph in its own thread. The node's backward
//              scatters the output's gradient, walks the private graphs at once, and sums.
// What it costs: see each chapter; net.last_step() shows it for your model.
// What can go wrong: a tensor that is used in forward but not named in visit() stays on the first
//              device (the op that meets it says so); a buffer that is re-assigned instead of
//              written would be lost (refused); an error in one replica does not undo what the
//              first device already wrote into its buffers.
//
// Decisions that must survive a change: docs/architecture.md.
#pragma once

#include <atomic>
#include <cstring>
#include <memory>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include <tandem/nn/module.h>
#include <tandem/parallel/engine.h>
#include <tandem/parallel/parallel_apply.h>

namespace tandem::parallel {

namespace detail {

template <class T>
struct Argument {
  using type = T;
  static constexpr bool replicate = false;
  static const T& value(const T& x) { return x; }
};
template <class T>
struct Argument<Replicated<T>> {
  using type = T;
  static constexpr bool replicate = true;
  static const T& value(const Replicated<T>& x) { return x.value; }
};

/// What of a module replicas must follow: its tensors, in order, and its settings, as bytes.
struct Structure final : nn::Visitor {
  std::vector<const TensorImpl*> tensors;
  std::vector<char> settings;

  void on_tensor(Tensor& t, nn::TensorKind) override { tensors.push_back(t.impl().get()); }
  void on_setting(void* data, std::size_t bytes) override {
    const char* p = static_cast<const char*>(data);
    settings.insert(settings.end(), p, p + bytes);
  }
  void on_enter(nn::Module& m) override { on_setting(&m.training, sizeof m.training); }
};

/// Writes settings into a module of the same structure.
struct ApplySettings final : nn::Visitor {
  const char* next;
  explicit ApplySettings(const std::vector<char>& settings) : next(settings.data()) {}

  void on_setting(void* data, std::size_t bytes) override {
    std::memcpy(data, next, bytes);
    next += bytes;
  }
  void on_enter(nn::Module& m) override { on_setting(&m.training, sizeof m.training); }
};

/// The module's tensors, each once, as the engine numbers them: parameters first.
struct Slots {
  std::vector<Tensor> tensors;
  std::vector<std::string> names;
  int parameters = 0;
  std::unordered_map<const TensorImpl*, int> at;

  template <class M>
  static Slots of(M& module) {
    Slots s;
    for (nn::TensorKind kind : {nn::TensorKind::parameter, nn::TensorKind::buffer}) {
      nn::for_each_tensor(module, [&](Tensor& t, nn::TensorKind k, nn::Visitor& v) {
        if (k != kind || !t.defined()) return;
        if (!s.at.emplace(t.impl().get(), int(s.tensors.size())).second) return;  // tied
        s.tensors.push_back(t);
        s.names.push_back(v.path());
      });
      if (kind == nn::TensorKind::parameter) s.parameters = int(s.tensors.size());
    }
    return s;
  }
};

}  // namespace detail

/// Runs a module on several devices. Refers to the module, which must outlive it; move-only, so
/// double wrapping does not compile. Thread safety: calls on one DataParallel take turns.
template <class M>
class DataParallel {
 public:
  /// Throws UsageError or DeviceError for a bad device list; nothing else is checked before the
  /// first forward. The module is neither moved nor changed.
  explicit DataParallel(M& module, DataParallelOptions options = {}) : module_(&module) {
    const auto placed = device_of(module);
    options.devices = resolve_devices(options.devices, placed ? placed->kind : DeviceKind::cpu);
    engine_ = std::make_shared<Engine>(std::move(options));
  }
  explicit DataParallel(M&&, DataParallelOptions = {}) = delete;  // it would dangle
  DataParallel(DataParallel&&) noexcept = default;
  DataParallel& operator=(DataParallel&&) noexcept = default;

  /// The module's forward() on all devices. Arguments may be tensors and structures of tensors,
  /// which are split along dim, replicated(x), or anything else, which each replica gets a copy of.
  /// Returns what the module's forward returns, with tensors gathered on output_device().
  template <class... A>
  auto forward(const A&... arguments) {
    auto [outputs, tensors] = run(Engine::Collect::gathered, arguments...);
    auto result = std::move(*outputs[0]);
    std::size_t next = 0;
    assign(result, tensors, next);
    return result;
  }
  template <class... A>
  auto operator()(const A&... arguments) {
    return forward(arguments...);
  }

  /// Leaves the outputs where they are: one per replica that had rows, in rank order, each with
  /// history. For a loss per device: add the losses up on one device and call backward() once.
  template <class... A>
  auto scattered(const A&... arguments) {
    auto [outputs, tensors] = run(Engine::Collect::scattered, arguments...);
    std::vector<std::decay_t<decltype(*outputs[0])>> results;
    std::size_t next = 0;
    for (auto& output : outputs) {
      results.push_back(std::move(*output));
      assign(results.back(), tensors, next);
    }
    return results;
  }

  const std::vector<Device>& devices() const { return engine_->devices(); }
  Device output_device() const { return engine_->output_device(); }
  M& module() { return *module_; }
  /// The module copy on a rank; exists after the first forward.
  M& replica(int rank) { return *replicas_.at(std::size_t(rank)); }
  /// Builds the replicas anew at the next forward: fields that visit() does not name follow then.
  void rebuild() { rebuild_->store(true); }
  /// Figures of the last forward and backward.
  StepReport last_step() const {
    const std::lock_guard lock(engine_->mutex);
    engine_->report.settle();
    return engine_->report;
  }

  // The module's own, so that the wrapper is invisible: names have no prefix.
  auto parameters() { return module_->parameters(); }
  auto named_parameters() { return module_->named_parameters(); }
  auto state_dict() { return module_->state_dict(); }
  auto load_state_dict(const nn::StateDict& state, const nn::LoadOptions& options = {}) {
    return module_->load_state_dict(state, options);
  }
  void to(Device device) { module_->to(device); }
  void train(bool on = true) { module_->train(on); }
  void eval() { module_->eval(); }
  void zero_grad() { module_->zero_grad(); }

 private:
  template <class... A>
  auto run(Engine::Collect collect, const A&... arguments) {
    using Out = std::decay_t<decltype(std::declval<M&>().forward(
        std::declval<typename detail::Argument<A>::type&>()...))>;
    check(
        !current_replica().active(),
        "[data_parallel] forward was called from inside a replica. A replica's forward is a plain "
        "computation on one device");
    const std::lock_guard lock(engine_->mutex);
    follow();
    const std::tuple<typename detail::Argument<A>::type...> whole(
        detail::Argument<A>::value(arguments)...);
    Arguments in;
    std::apply(
        [&](const auto&... x) {
          [[maybe_unused]] std::size_t i = 0;
          (collect_one(x, detail::Argument<A>::replicate, in, i), ...);
        },
        whole);
    const Split split = engine_->split(in);
    std::vector<std::optional<Out>> by_rank(devices().size());
    auto tensors = engine_->forward(
        in, split,
        [&](int rank, std::span<const Tensor> chunk) {
          auto mine = whole;  // copies of everything, with this rank's tensors put in
          [[maybe_unused]] std::size_t next = 0;
          std::apply([&](auto&... x) { (assign(x, chunk, next), ...); }, mine);
          auto& out = by_rank[std::size_t(rank)];
          std::apply([&](auto&... x) { out.emplace(replica(rank).forward(x...)); }, mine);
          check_handles(rank);
          return outputs_of(*out);
        },
        collect);
    std::vector<std::optional<Out>> outputs;
    for (int r : split.active()) outputs.push_back(std::move(by_rank[std::size_t(r)]));
    return std::pair(std::move(outputs), std::move(tensors));
  }

  template <class T>
  static void collect_one(const T& x, bool replicate, Arguments& in, std::size_t& i) {
    collect(x, replicate, in, i++);
  }

  template <class Out>
  static Outputs outputs_of(Out& out) {
    Outputs list;
    if constexpr (nn::CarriesTensors<Out>::value) {
      nn::for_each_tensor(out, [&](Tensor& t, nn::TensorKind, nn::Visitor& v) {
        list.tensors.push_back(t);
        list.names.push_back(v.path());
      });
    }
    return list;
  }

  // Before each forward: whatever visit() names is followed. Structure: rebuild; settings: copy.
  void follow() {
    detail::Structure now;
    now.tensors.reserve(structure_.tensors.size());
    now.settings.reserve(structure_.settings.size());
    now.walk(*module_);
    const bool same = engine_->replicas && !rebuild_->load() && now.tensors == structure_.tensors &&
                      now.settings.size() == structure_.settings.size() &&
                      engine_->replicas->fits();
    if (!same) {
      build();
    } else if (now.settings != structure_.settings) {
      for (auto& r : replicas_) detail::ApplySettings(now.settings).walk(*r);
    }
    structure_.tensors = std::move(now.tensors);
    structure_.settings = std::move(now.settings);
  }

  void build() {
    detail::Slots slots = detail::Slots::of(*module_);
    auto set =
        std::make_shared<Replicas>(devices(), std::move(slots.tensors), std::move(slots.names),
                                   slots.parameters, engine_->replicate_options());
    slot_of_handle_.clear();
    nn::for_each_tensor(*module_, [&](Tensor& t, nn::TensorKind, nn::Visitor&) {
      slot_of_handle_.push_back(t.defined() ? slots.at.at(t.impl().get()) : -1);
    });
    std::vector<std::unique_ptr<M>> made;
    for (auto& local : set->local) {
      made.push_back(std::make_unique<M>(*module_));
      nn::relink(*made.back(),
                 [&](const Tensor& t) { return local[std::size_t(slots.at.at(t.impl().get()))]; });
    }
    replicas_ = std::move(made);
    engine_->replicas = std::move(set);
    rebuild_->store(false);
  }

  // A replica must still hold the tensors it was given: a re-assigned one would be lost.
  void check_handles(int rank) {
    std::size_t i = 0;
    const std::vector<Tensor>& local = engine_->replicas->local[std::size_t(rank)];
    nn::for_each_tensor(replica(rank), [&](Tensor& t, nn::TensorKind, nn::Visitor& v) {
      const int slot = i < slot_of_handle_.size() ? slot_of_handle_[i] : -1;
      ++i;
      if (slot < 0 ? !t.defined() : t.is_same(local[std::size_t(slot)])) return;
      rebuild_->store(true);
      throw UsageError(str("[data_parallel] forward re-assigned '", v.path(),
                           "'. Write it in place (copy_, add_, mul_), or the change is lost"));
    });
  }

  M* module_;
  std::shared_ptr<Engine> engine_;
  std::vector<std::unique_ptr<M>> replicas_;
  detail::Structure structure_;      // as last followed
  std::vector<int> slot_of_handle_;  // in visit order; -1: undefined
  std::unique_ptr<std::atomic<bool>> rebuild_ = std::make_unique<std::atomic<bool>>(false);
};

/// One data-parallel forward without keeping anything: replicas are made and dropped.
template <class M, class... A>
auto data_parallel(M& module, std::vector<Device> devices, const A&... arguments) {
  DataParallel<M> net(module, {.devices = std::move(devices)});
  return net.forward(arguments...);
}
template <class M>
auto data_parallel(M& module, const Tensor& input, std::vector<Device> devices) {
  return data_parallel(module, std::move(devices), input);
}

/// A module that ends in a loss: forward(arguments..., last) = loss(module.forward(arguments...),
/// last). Under DataParallel the loss is then computed inside each replica, and what is gathered is
/// one number per replica (ScalarRule). Means are weighted by rows, which is the whole batch's mean
/// if each divides by a number of rows, or of elements; cross_entropy and nll_loss with class
/// weights or ignored rows do not: Note [A mean inside the replicas] in nn/loss.h. Shares its
/// weights with `module`, as every copy of a module.
template <class M, class F>
struct WithLoss : nn::Module {
  M module;
  F loss;

  WithLoss(M m, F f) : module(std::move(m)), loss(std::move(f)) {}

  template <class... A>
  auto forward(const A&... arguments) {
    return split_last(std::index_sequence_for<A...>{}, std::forward_as_tuple(arguments...));
  }
  void visit(nn::Visitor& v) override { v.walk(module); }  // names stay the module's own

 private:
  template <std::size_t... I, class Tuple>
  auto split_last(std::index_sequence<I...>, const Tuple& all) {
    constexpr std::size_t last = sizeof...(I) - 1;
    return apply_first(std::make_index_sequence<last>{}, all, std::get<last>(all));
  }
  template <std::size_t... I, class Tuple, class Last>
  auto apply_first(std::index_sequence<I...>, const Tuple& all, const Last& last) {
    return loss(module.forward(std::get<I>(all)...), last);
  }
};
template <class M, class F>
WithLoss<M, F> with_loss(const M& module, F loss) {
  return WithLoss<M, F>(module, std::move(loss));
}

}  // namespace tandem::parallel
