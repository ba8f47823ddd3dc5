// Sequential: layers one after the other. Box: any of them, by value.
#pragma once

#include <concepts>
#include <initializer_list>
#include <memory>
#include <typeinfo>
#include <utility>
#include <vector>

#include <tandem/nn/module.h>

namespace tandem::nn {

template <class M>
concept ForwardsTensor = std::copyable<M> && HasVisit<M> && requires(M& m, const Tensor& x) {
  { m.forward(x) } -> std::convertible_to<Tensor>;
};

/// Holds any module with `Tensor forward(const Tensor&)` by value. Copying copies what it holds, so
/// weights stay shared between the copies, as with every module.
class Box {
 public:
  template <ForwardsTensor M>
  requires(!std::same_as<M, Box>) Box(M module)
      : held_(std::make_unique<Holder<M>>(std::move(module))) {}
  Box(const Box& o) : held_(o.held_->copy()) {}
  Box(Box&&) noexcept = default;
  Box& operator=(const Box& o) { return *this = Box(o); }
  Box& operator=(Box&&) noexcept = default;

  Tensor forward(const Tensor& x) { return held_->forward(x); }
  Tensor operator()(const Tensor& x) { return held_->forward(x); }
  void visit(Visitor& v) { held_->visit(v); }

  /// The module inside if it is an M, else null.
  template <class M>
  M* get_if() {
    auto* holder = dynamic_cast<Holder<M>*>(held_.get());
    return holder ? &holder->module : nullptr;
  }

 private:
  struct Concept {
    virtual ~Concept() = default;
    virtual Tensor forward(const Tensor& x) = 0;
    virtual void visit(Visitor& v) = 0;
    virtual std::unique_ptr<Concept> copy() const = 0;
  };
  template <class M>
  struct Holder final : Concept {
    M module;
    explicit Holder(M m) : module(std::move(m)) {}
    Tensor forward(const Tensor& x) override { return call(module, x); }
    void visit(Visitor& v) override { v.walk(module); }
    std::unique_ptr<Concept> copy() const override { return std::make_unique<Holder>(module); }
  };

  std::unique_ptr<Concept> held_;
};

/// Applies its layers in order. Names: "0", "1", ... Written with braces,
///   nn::Sequential model{nn::Linear(784, 128), nn::ReLU(), nn::Linear(128, 10)};
/// since C++ evaluates what stands in braces from left to right: layers draw their initial weights
/// in that order, as in PyTorch. (In parentheses the order would be the compiler's choice.)
struct Sequential : Layer {
  std::vector<Box> layers;

  Sequential() = default;
  Sequential(std::initializer_list<Box> list) : layers(list) {}

  void push_back(Box layer) { layers.push_back(std::move(layer)); }
  std::size_t size() const { return layers.size(); }
  Box& operator[](std::size_t i) { return layers.at(i); }

  /// A Linear or Conv2d and a ReLU right behind it are computed together, in fewer passes.
  Tensor forward(const Tensor& x) override;
  void visit(Visitor& v) override { v.walk(layers); }
};

}  // namespace tandem::nn
