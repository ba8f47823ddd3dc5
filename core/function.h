// Function: an op of your own, with the backward you write.
//
//   struct Square : Function<Square> {
//     static Tensor forward(FunctionContext* ctx, const Tensor& x) {
//       ctx->save_for_backward({x});
//       return x * x;
//     }
//     static std::vector<Tensor> backward(FunctionContext* ctx, const std::vector<Tensor>& dy) {
//       return {dy[0] * 2 * ctx->saved()[0]};
//     }
//   };
//   Tensor y = Square::apply(x);
//
// forward() takes tensors and plain values and returns a Tensor or a std::vector<Tensor>.
// backward() gets a gradient for each output (zeros for an unused one) and returns one for each
// argument of forward(): undefined for plain values, and wherever there is none. Both run under
// NoGrad.
#pragma once

#include <any>
#include <map>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include <tandem/core/autograd.h>
#include <tandem/core/tensor.h>
#include <tandem/core/thread_state.h>

namespace tandem {

/// Carries what backward needs from forward to backward. Belongs to one recorded call.
class FunctionContext {
 public:
  /// Inputs or outputs of forward(), or anything computed there. Undefined tensors may be among
  /// them.
  void save_for_backward(const std::vector<Tensor>& tensors);
  /// The same values without history. Throws StaleGraphError if one was written since.
  std::vector<Tensor> saved() const;
  /// Plain values: `ctx->values["p"] = 0.5` and `std::any_cast<double>(ctx->values["p"])`.
  std::map<std::string, std::any> values;

  /// Is the gradient of argument `i` of forward() wanted?
  bool needs_input_grad(std::size_t i) const { return needed_.at(i); }

 private:
  friend struct FunctionCall;
  std::vector<Saved> saved_;
  std::vector<bool> defined_;
  std::vector<bool> needed_;
};

/// One call of a Function on its way into the graph; see Function::apply().
struct FunctionCall {
  using Backward = std::vector<Tensor> (*)(FunctionContext*, const std::vector<Tensor>&);

  FunctionContext context;
  std::vector<Edge> edges;    // one per argument; empty for plain values
  std::vector<Array> inputs;  // what a gradient must look like; undefined for plain values

  void add_argument(const Tensor& x);
  template <class T>
  void add_argument(const T&) {
    add_argument(Tensor());
  }
  bool any_needed() const;
  /// Puts `outputs` of forward() into the graph, if any argument requires grad.
  static std::vector<Tensor> record(const char* name, FunctionCall call,
                                    const std::vector<Tensor>& outputs, Backward backward);
};

/// "Square" for the type of Square.
std::string type_name(const std::type_info& type);

template <class Derived>
struct Function {
  /// forward(ctx, args...), recorded. Gives what forward() gives.
  template <class... Args>
  static auto apply(const Args&... args) {
    static const std::string name = type_name(typeid(Derived));
    FunctionCall call;
    (call.add_argument(args), ...);
    auto forward = [&] {
      const NoGrad no_grad;
      return Derived::forward(&call.context, args...);
    };
    if constexpr (std::is_same_v<decltype(forward()), Tensor>) {
      const std::vector<Tensor> outputs{forward()};
      return FunctionCall::record(name.c_str(), std::move(call), outputs, &Derived::backward)[0];
    } else {
      const std::vector<Tensor> outputs = forward();
      return FunctionCall::record(name.c_str(), std::move(call), outputs, &Derived::backward);
    }
  }
};

}  // namespace tandem
