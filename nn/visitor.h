// Visitor: how the library looks into a module, a batch or an output.
//
// A class names its parts once, in visit(); parameters(), state_dict, to(), clone(), printing,
// scatter and gather all derive from it:
//
//   struct Net : nn::Layer {
//     nn::Linear fc1{784, 128}, fc2{128, 10};
//     Tensor mean = zeros({784});
//     int steps = 0;
//     Tensor forward(const Tensor& x) override { return fc2(relu(fc1(x - mean))); }
//     void visit(nn::Visitor& v) override {
//       v("fc1", fc1), v("fc2", fc2);
//       v.buffer("mean", mean);   // a tensor that is saved but not trained
//       v("steps", steps);        // a setting that replicas must follow
//     }
//   };
//
// It looks into tensors, anything with visit(), vectors, arrays, optionals, maps, tuples and pairs
// of such, and numbers, enums and booleans. Next: module.h.
#pragma once

#include <array>
#include <concepts>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include <tandem/core/tensor.h>

namespace tandem::nn {

class Visitor;
struct Module;

template <class T>
concept HasVisit = requires(T& x, Visitor& v) {
  x.visit(v);
};

/// Can a T hold tensors that a visitor would find?
template <class T>
struct CarriesTensors : std::bool_constant<std::is_same_v<T, Tensor> || HasVisit<T>> {};
template <class T, class A>
struct CarriesTensors<std::vector<T, A>> : CarriesTensors<T> {};
template <class T, std::size_t N>
struct CarriesTensors<std::array<T, N>> : CarriesTensors<T> {};
template <class T>
struct CarriesTensors<std::optional<T>> : CarriesTensors<T> {};
template <class K, class T, class C, class A>
struct CarriesTensors<std::map<K, T, C, A>> : CarriesTensors<T> {};
template <class... T>
struct CarriesTensors<std::tuple<T...>> : std::bool_constant<(CarriesTensors<T>::value || ...)> {};
template <class T, class U>
struct CarriesTensors<std::pair<T, U>>
    : std::bool_constant<CarriesTensors<T>::value || CarriesTensors<U>::value> {};

enum class TensorKind : std::uint8_t { parameter, buffer };

class Visitor {
 public:
  virtual ~Visitor() = default;

  /// A part under its name: a parameter, a child, a container of such, or a setting.
  template <class T>
  void operator()(const char* name, T& x) {
    static_assert(CarriesTensors<T>::value || std::is_arithmetic_v<T> || std::is_enum_v<T>,
                  "visit() was given a type that a Visitor cannot look into");
    const Step step(*this, name, -1);
    walk(x);
  }
  /// A tensor that belongs to the state but is not trained.
  void buffer(const char* name, Tensor& t) {
    const Step step(*this, name, -1);
    on_tensor(t, TensorKind::buffer);
  }

  /// Looks into x without a name of its own. Types it does not know are passed over.
  template <class T>
  void walk(T& x) {
    if constexpr (std::is_same_v<T, Tensor>) {
      on_tensor(x, TensorKind::parameter);
    } else if constexpr (std::derived_from<T, Module>) {
      enter(x);
    } else if constexpr (HasVisit<T>) {
      x.visit(*this);
    } else if constexpr (CarriesTensors<T>::value) {
      items(x);
    } else if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
      on_setting(&x, sizeof x);
    }
  }

  /// Dotted names from the root to where the visitor is: "layers.0.weight".
  std::string path() const;

 protected:
  virtual void on_tensor(Tensor&, TensorKind) {}
  /// A number, enum or bool, as bytes.
  virtual void on_setting(void* /*data*/, std::size_t /*bytes*/) {}
  /// Called for every module, before and after its parts.
  virtual void on_enter(Module&) {}
  virtual void on_leave(Module&) {}

 private:
  struct Step {  // one element of the path, for as long as the visitor is below it
    Visitor& visitor;
    Step(Visitor& v, const char* name, int index) : visitor(v) {
      v.steps_.emplace_back(name, index);
    }
    ~Step() { visitor.steps_.pop_back(); }
  };
  void enter(Module& m);

  template <class T>
  void item(int index, T& x) {
    const Step step(*this, nullptr, index);
    walk(x);
  }
  template <class T, class A>
  void items(std::vector<T, A>& list) {
    for (int i = 0; auto& x : list) item(i++, x);
  }
  template <class T, std::size_t N>
  void items(std::array<T, N>& list) {
    for (int i = 0; auto& x : list) item(i++, x);
  }
  template <class T>
  void items(std::optional<T>& o) {
    if (o) walk(*o);
  }
  template <class K, class T, class C, class A>
  void items(std::map<K, T, C, A>& map) {
    for (auto& [key, x] : map) {
      const std::string name = str(key);
      const Step step(*this, name.c_str(), -1);
      walk(x);
    }
  }
  template <class... T>
  void items(std::tuple<T...>& t) {
    std::apply(
        [&](auto&... x) {
          [[maybe_unused]] int i = 0;
          (item(i++, x), ...);
        },
        t);
  }
  template <class T, class U>
  void items(std::pair<T, U>& p) {
    item(0, p.first);
    item(1, p.second);
  }

  std::vector<std::pair<const char*, int>> steps_;
};

/// f(tensor, kind, visitor) for every tensor in x, in visit order; a tied one each time it occurs.
template <class T, class F>
void for_each_tensor(T& x, F&& f) {
  struct Each final : Visitor {
    F& f;
    explicit Each(F& function) : f(function) {}
    void on_tensor(Tensor& t, TensorKind kind) override { f(t, kind, *this); }
  };
  Each each(f);
  each.walk(x);
}

/// Replaces every defined handle h by f(h), asked once per identity, so tied stays tied.
template <class T, class F>
void relink(T& x, F&& f) {
  std::unordered_map<const void*, Tensor> made;
  for_each_tensor(x, [&](Tensor& t, TensorKind, Visitor&) {
    if (!t.defined()) return;
    auto [at, fresh] = made.try_emplace(t.impl().get());
    if (fresh) at->second = f(t);
    t = at->second;
  });
}

}  // namespace tandem::nn
