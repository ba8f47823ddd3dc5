// Autograd: recording what happened, and walking it backwards. First order only.
//
// An op is one function: compute arrays, then record(name, result, inputs, closure). The closure
// gets the gradient of the result and returns the gradients of the inputs, as arrays. Backward
// collects the nodes, then walks them by descending creation id, which is a topological order.
//
// Note [What a closure may capture]
//   Arrays (through Saved, which notices later writes) and plain values: never Tensors of the graph
//   it is recorded on, or a cycle forms. The one exception is the data-parallel node, which owns
//   private graphs: they end at leaves of their own, so still no cycle.
//
// Thread safety: a graph belongs to the thread that runs it; nothing here locks. Handing a graph to
// another thread is fine if something orders the two. Two threads must not run backward to the same
// leaf at once. Next: ops/pointwise.cpp for examples.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <tandem/core/array.h>
#include <tandem/core/tensor.h>
#include <tandem/core/thread_state.h>

namespace tandem {

struct Node;

/// Where a gradient goes: output `output` of `node`, or a leaf; neither: nowhere. Edges do not hold
/// the input tensors of an op, which would keep activations alive.
struct Edge {
  std::shared_ptr<Node> node;
  std::uint32_t output = 0;
  std::shared_ptr<TensorImpl> leaf;

  explicit operator bool() const { return node || leaf; }
};

/// Where the gradient of `t` would go; empty if it requires none.
Edge gradient_edge(const Tensor& t);

struct TensorImpl {
  Array value;
  Array grad;                  // leaves only
  bool requires_grad = false;  // leaves only
  std::shared_ptr<Node> node;  // history; null for leaves
  std::uint32_t output = 0;    // which output of `node` this is
  std::vector<std::function<void(const Tensor& grad)>> hooks;

  std::uint64_t mark = 0;  // scratch of one backward
  std::uint32_t index = 0;
};

/// An array that backward needs; get() refuses it if it was written since.
class Saved {
 public:
  Saved() = default;
  explicit Saved(const Array& a) : array_(a), version_(a.defined() ? a.version() : 0) {}
  /// Saves only what will be needed: `Saved::if_(b.requires_grad(), a.array())`.
  static Saved if_(bool needed, const Array& a) { return needed ? Saved(a) : Saved(); }

  /// Throws StaleGraphError if the array changed since forward.
  const Array& get() const;

 private:
  Array array_;
  std::uint64_t version_ = 0;
};

/// What backward wants from a closure.
struct Wanted {
  std::span<const Edge> inputs;
  bool retain_graph = false;

  /// Is the gradient of input `i` wanted? An undefined one may be returned if not.
  bool operator[](std::size_t i) const { return bool(inputs[i]); }
};

/// One recorded op.
struct Node {
  std::uint64_t id;  // creation order over all threads
  const char* name;
  std::uint32_t outputs;
  std::vector<Edge> inputs;
  bool freed = false;

  std::uint64_t mark = 0;  // scratch of one backward
  std::uint32_t index = 0;

  Node(const char* name, std::uint32_t outputs, std::vector<Edge> inputs);
  virtual ~Node();  // iterative: a chain of a million nodes does not recurse
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  /// `dy`: one per output, undefined if unused. `grads`: one per input, to be filled.
  virtual void backward(std::span<const Array> dy, const Wanted& wanted,
                        std::span<Array> grads) = 0;
  /// Frees what was saved; a node that saved nothing stays usable.
  virtual void release() = 0;
};

/// Does a closure keep arrays? One that keeps none is not consumed by backward.
enum class Keeps : std::uint8_t { arrays, nothing };

/// A closure is one of
///   (const Array& dy, const Wanted&) -> Array, std::array<Array, n> or std::vector<Array>
///   (std::span<const Array> dy, const Wanted&, std::span<Array> grads) -> void
/// The first form is for ops with one output, whose dy is always defined.
template <class F>
struct ClosureNode final : Node {
  std::optional<F> closure;
  Keeps keeps;

  ClosureNode(const char* n, std::uint32_t outs, std::vector<Edge> in, F&& f, Keeps k)
      : Node(n, outs, std::move(in)), closure(std::move(f)), keeps(k) {}

  void backward(std::span<const Array> dy, const Wanted& wanted, std::span<Array> grads) override {
    if constexpr (std::is_invocable_v<F&, std::span<const Array>, const Wanted&,
                                      std::span<Array>>) {
      (*closure)(dy, wanted, grads);
    } else {
      auto result = (*closure)(dy[0], wanted);
      if constexpr (std::is_same_v<decltype(result), Array>) {
        grads[0] = std::move(result);
      } else {
        for (std::size_t i = 0; i < result.size(); ++i) grads[i] = std::move(result[i]);
      }
    }
  }
  void release() override {
    if (keeps == Keeps::nothing) return;
    closure.reset();
    inputs.clear();
    freed = true;
  }
};

/// Wraps `y` and, if grad mode is on and an input requires grad, remembers how to go back.
template <class F>
Tensor record(const char* name, Array y,
              std::initializer_list<std::reference_wrapper<const Tensor>> inputs, F closure,
              Keeps keeps = Keeps::arrays) {
  Tensor t{std::move(y)};
  bool any = false;
  if (thread_state().grad_enabled) {
    for (const Tensor& x : inputs) any |= x.requires_grad();
  }
  if (!any) return t;
  std::vector<Edge> edges;
  edges.reserve(inputs.size());
  for (const Tensor& x : inputs) edges.push_back(gradient_edge(x));
  t.impl()->node =
      std::make_shared<ClosureNode<F>>(name, 1, std::move(edges), std::move(closure), keeps);
  return t;
}

/// The general form: several outputs, of which only those marked differentiable carry history.
/// Undefined arrays give undefined tensors. Records whatever grad mode is: the caller has decided.
template <class F>
std::vector<Tensor> record_many(const char* name, std::vector<Array> ys, std::vector<Edge> edges,
                                const std::vector<bool>& differentiable, F closure,
                                Keeps keeps = Keeps::arrays) {
  auto node = std::make_shared<ClosureNode<F>>(name, std::uint32_t(ys.size()), std::move(edges),
                                               std::move(closure), keeps);
  std::vector<Tensor> ts;
  ts.reserve(ys.size());
  for (std::size_t i = 0; i < ys.size(); ++i) {
    ts.push_back(ys[i].defined() ? Tensor(std::move(ys[i])) : Tensor());
    if (differentiable[i] && ts[i].defined()) {
      ts[i].impl()->node = node;
      ts[i].impl()->output = std::uint32_t(i);
    }
  }
  return ts;
}

struct BackwardOptions {
  bool retain_graph = false;
  bool create_graph = false;  // not supported: UsageError
};

/// Adds to the .grad of every leaf below `outputs`. `seeds`: one per output, of its shape; may be
/// left out for one-element outputs (they count as 1).
void backward(std::span<const Tensor> outputs, std::span<const Tensor> seeds = {},
              const BackwardOptions& options = {});

/// Gradients of `outputs` with respect to `inputs` (leaves or not); no .grad is touched. Undefined
/// where an output does not depend on an input.
std::vector<Tensor> grad(std::span<const Tensor> outputs, std::span<const Tensor> inputs,
                         std::span<const Tensor> seeds = {}, const BackwardOptions& options = {});

/// Called once for each of the listed leaves, early: as soon as its gradient is final. Undefined:
/// no gradient reaches it; those calls come first.
using GradientSink = std::function<void(std::size_t leaf, Array gradient)>;

/// The engine below backward() and grad(), for private graphs. Edges may be empty. Touches no
/// .grad and runs no hooks. A leaf that requires grad and is not listed is a UsageError naming
/// the op that used it, if `refuse_others`; else its gradient is dropped.
void sweep(std::span<const Edge> outputs, std::vector<Array> seeds, std::span<const Edge> leaves,
           bool retain_graph, bool refuse_others, const GradientSink& sink);

}  // namespace tandem
