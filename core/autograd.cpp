#include <tandem/core/autograd.h>

#include <algorithm>
#include <atomic>

#include <tandem/core/array_ops.h>
#include <tandem/core/autocast.h>

namespace tandem {
namespace {

std::atomic<std::uint64_t> next_node{1}, next_pass{1};

// Nodes whose last owner is a dying node, kept by the outermost destructor. A raw pointer, because
// a thread_local with a destructor would be gone before static tensors die.
thread_local constinit std::vector<std::shared_ptr<Node>>* dying = nullptr;

}  // namespace

Node::Node(const char* n, std::uint32_t outs, std::vector<Edge> in)
    : id(next_node.fetch_add(1, std::memory_order_relaxed)),
      name(n),
      outputs(outs),
      inputs(std::move(in)) {}

Node::~Node() {
  std::vector<std::shared_ptr<Node>> mine;
  const bool outermost = dying == nullptr;
  if (outermost) dying = &mine;
  for (Edge& e : inputs) {
    if (e.node) dying->push_back(std::move(e.node));
  }
  if (!outermost) return;
  while (!mine.empty()) {
    const std::shared_ptr<Node> node = std::move(mine.back());
    mine.pop_back();
  }  // node's destructor adds to `mine`
  dying = nullptr;
}

const Array& Saved::get() const {
  if (!array_.defined()) return array_;  // an optional argument that was not there
  check<StaleGraphError>(array_.version() == version_, "a tensor of shape ", array_.shape(), " on ",
                         array_.device(), " changed since forward (version ", version_, ", now ",
                         array_.version(), "). Run forward again, or write to a clone");
  return array_;
}

Edge gradient_edge(const Tensor& t) {
  if (!t.requires_grad()) return {};
  const auto& impl = t.impl();
  return impl->node ? Edge{impl->node, impl->output, nullptr} : Edge{nullptr, 0, impl};
}

namespace {

// One walk from the outputs to the leaves. Three steps: collect the nodes below the outputs and
// count what each leaf will receive; deliver the seeds; pull gradients through the nodes, newest
// first. A leaf that waits for nothing more is final and leaves through `on_final`.
class Walk {
 public:
  struct Leaf {
    std::shared_ptr<TensorImpl> impl;
    int waiting = 0;
    Array grad;
  };

  /// `known`: leaves that get the numbers 0, 1, ... (empty edges take a number too).
  Walk(std::span<const Edge> outputs, bool retain_graph, std::span<const Edge> known = {},
       bool refuse_others = false)
      : retain_graph_(retain_graph) {
    for (const Edge& e : known) add_leaf(e.leaf);
    refuse_others_ = refuse_others;
    for (const Edge& e : outputs) see(e, nullptr);
    for (std::size_t i = 0; i < order_.size(); ++i) {
      const Node* n = order_[i].get();  // order_ grows
      for (const Edge& e : n->inputs) see(e, n);
    }
    std::sort(order_.begin(), order_.end(), [](auto& a, auto& b) { return a->id > b->id; });
    std::uint32_t total = 0;
    for (auto& n : order_) {
      n->index = total;
      total += n->outputs;
    }
    dys_.resize(total);
  }

  const std::vector<Leaf>& leaves() const { return leaves_; }

  /// `on_node(node, dy)`: before a node is pulled, with the gradients of its outputs.
  template <class OnFinal, class OnNode>
  void run(std::span<const Edge> outputs, std::vector<Array> seeds, OnFinal on_final,
           OnNode on_node) {
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      deliver(outputs[i], std::move(seeds[i]), on_final);
    }
    std::vector<Array> grads;
    for (auto& node : order_) {
      const std::span<Array> dy(dys_.data() + node->index, node->outputs);
      on_node(*node, dy);
      grads.assign(node->inputs.size(), Array{});
      pull(*node, dy, grads);
      for (Array& a : dy) a = {};
      for (std::size_t i = 0; i < grads.size(); ++i) {
        deliver(node->inputs[i], std::move(grads[i]), on_final);
      }
      if (!retain_graph_) node->release();
      node.reset();
    }
  }

 private:
  void add_leaf(const std::shared_ptr<TensorImpl>& impl) {
    if (impl) {
      impl->mark = pass_;
      impl->index = std::uint32_t(leaves_.size());
    }
    leaves_.push_back({impl, 0, {}});
  }

  void see(const Edge& e, const Node* user) {
    if (e.leaf) {
      if (e.leaf->mark != pass_) {
        // Refused before it is marked: other threads may have met the same stray leaf.
        if (refuse_others_) refuse(*e.leaf, user);
        add_leaf(e.leaf);
      }
      ++leaves_[e.leaf->index].waiting;
    } else if (e.node && e.node->mark != pass_) {
      check<StaleGraphError>(!e.node->freed, "[backward] the graph of ", e.node->name,
                             " was freed by an earlier backward. Pass retain_graph to that one");
      e.node->mark = pass_;
      order_.push_back(e.node);
    }
  }

  [[noreturn]] static void refuse(const TensorImpl& leaf, const Node* user) {
    throw UsageError(str("[backward of ", user ? user->name : "an output", "] a tensor of shape ",
                         leaf.value.shape(), " on ", leaf.value.device(),
                         " requires a gradient but is neither a parameter of this replica nor one "
                         "of its inputs. Register it in visit(), pass it as an argument, or "
                         "detach() it"));
  }

  void pull(Node& node, std::span<const Array> dy, std::vector<Array>& grads) {
    const bool any = std::any_of(dy.begin(), dy.end(), [](auto& a) { return a.defined(); });
    if (!any) return;
    try {
      node.backward(dy, Wanted{node.inputs, retain_graph_}, grads);
    } catch (const StaleGraphError& e) {
      throw StaleGraphError(str("[backward of ", node.name, "] ", e.what()));
    }
  }

  template <class OnFinal>
  void deliver(const Edge& e, Array g, OnFinal& on_final) {
    check(
        (e.node   ? e.node->mark
         : e.leaf ? e.leaf->mark
                  : pass_) == pass_,
        "[backward] another backward ran over the same graph in the middle of this one. Hooks and "
        "closures may start one only on a graph of their own");
    if (e.node) {
      if (g.defined()) accumulate(dys_[e.node->index + e.output], std::move(g));
    } else if (e.leaf) {
      Leaf& leaf = leaves_[e.leaf->index];
      if (g.defined()) {
        const Array& value = leaf.impl->value;
        check(g.shape() == value.shape() && g.dtype() == value.dtype(), "[backward] a gradient of ",
              g.dtype(), " ", g.shape(), " arrived at a leaf of ", value.dtype(), " ",
              value.shape());
        accumulate(leaf.grad, std::move(g));
      }
      if (--leaf.waiting == 0) on_final(leaf);
    }
  }

  // In place only where nobody else can see it: a closure may return one array for two inputs.
  static void accumulate(Array& sum, Array g) {
    if (!sum.defined()) {
      sum = std::move(g);
    } else if (sum.is_unique() && sum.is_dense()) {
      zip_<Add>(sum, g);
    } else {
      sum = zip<Add>(sum, g);
    }
  }

  const bool retain_graph_;
  bool refuse_others_ = false;
  const std::uint64_t pass_ = next_pass.fetch_add(1, std::memory_order_relaxed);
  std::vector<std::shared_ptr<Node>> order_;  // owns: a node outlives the edges freed on the way
  std::vector<Leaf> leaves_;
  std::vector<Array> dys_;
};

constexpr auto kIgnoreNodes = [](Node&, std::span<const Array>) {};

std::vector<Array> make_seeds(std::span<const Tensor> outputs, std::span<const Tensor> seeds) {
  check(seeds.empty() || seeds.size() == outputs.size(), "[backward] ", outputs.size(),
        " outputs but ", seeds.size(), " seeds");
  std::vector<Array> arrays;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Tensor& y = outputs[i];
    check(y.defined() && y.requires_grad(), "[backward] output ", i,
          " has no history. Does anything it was computed from require a gradient?");
    if (i < seeds.size() && seeds[i].defined()) {
      const Array& seed = seeds[i].array();
      check(seed.shape() == y.shape() && seed.dtype() == y.dtype() && seed.device() == y.device(),
            "[backward] the seed is ", seed.dtype(), " ", seed.shape(), " on ", seed.device(),
            ", the output ", y.dtype(), " ", y.shape(), " on ", y.device());
      arrays.push_back(seed);
    } else {
      check(y.numel() == 1, "[backward] the output has shape ", y.shape(),
            ". Only one element needs no seed: reduce it (sum, mean) or give a seed");
      arrays.push_back(Array::full(y.shape(), 1, y.dtype(), y.device()));
    }
  }
  return arrays;
}

std::vector<Edge> edges_of(std::span<const Tensor> tensors) {
  std::vector<Edge> edges;
  for (const Tensor& t : tensors) edges.push_back(gradient_edge(t));
  return edges;
}

void refuse_create_graph(const BackwardOptions& options) {
  check(!options.create_graph,
        "[backward] create_graph: Tandem differentiates once only. Write the "
        "second derivative out as a forward computation");
}

// Adds to .grad. The array is taken as it is if nobody else can see it and it lies like the leaf.
// It may be a slot of a block of gradients (parallel/reduce.h), but of no other block: a small
// gradient would keep all of that alive.
void accumulate_grad(TensorImpl& leaf, Array g) {
  if (leaf.grad.defined()) {
    zip_<Add>(leaf.grad, g);
    return;
  }
  const CategoryScope scope(Category::gradient);
  const Array& x = leaf.value;
  const bool row_major = x.is_contiguous() || !x.is_dense();
  const bool last = format_of(x) == MemoryFormat::channels_last;
  const bool alike = row_major ? g.is_contiguous()
                     : last    ? g.is_contiguous(MemoryFormat::channels_last)
                               : g.strides() == x.strides();
  const bool is_root = &g.storage()->root() == g.storage().get();
  const bool whole = g.nbytes() == g.storage()->bytes() &&
                     (is_root || g.storage()->category() == Category::gradient);
  if (g.is_unique() && alike && whole) {
    if (is_root) g.storage()->relabel(Category::gradient);
    leaf.grad = std::move(g);
  } else {
    Array own = Array::empty_like(x);
    copy(own, g);
    leaf.grad = std::move(own);
  }
}

}  // namespace

void backward(std::span<const Tensor> outputs, std::span<const Tensor> seeds,
              const BackwardOptions& options) {
  refuse_create_graph(options);
  const NoGrad no_grad;
  const NoAutocast no_autocast;
  std::vector<Array> arrays = make_seeds(outputs, seeds);
  const std::vector<Edge> edges = edges_of(outputs);
  Walk walk(edges, options.retain_graph);
  walk.run(
      edges, std::move(arrays),
      [](Walk::Leaf& leaf) {
        if (leaf.grad.defined()) accumulate_grad(*leaf.impl, std::move(leaf.grad));
        if (leaf.impl->hooks.empty()) return;
        const Tensor grad = leaf.impl->grad.defined() ? Tensor(leaf.impl->grad) : Tensor();
        for (auto& hook : leaf.impl->hooks) hook(grad);
      },
      kIgnoreNodes);
}

std::vector<Tensor> grad(std::span<const Tensor> outputs, std::span<const Tensor> inputs,
                         std::span<const Tensor> seeds, const BackwardOptions& options) {
  refuse_create_graph(options);
  const NoGrad no_grad;
  const NoAutocast no_autocast;
  std::vector<Array> arrays = make_seeds(outputs, seeds);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    check(inputs[i].defined() && inputs[i].requires_grad(), "[grad] input ", i,
          " does not require a gradient");
  }
  const std::vector<Edge> edges = edges_of(outputs), wanted = edges_of(inputs);
  std::vector<Array> found(inputs.size());
  Walk walk(edges, options.retain_graph);
  walk.run(
      edges, std::move(arrays),
      [&](Walk::Leaf& leaf) {
        for (std::size_t i = 0; i < wanted.size(); ++i) {
          if (wanted[i].leaf == leaf.impl) found[i] = leaf.grad;
        }
      },
      [&](Node& node, std::span<const Array> dy) {
        for (std::size_t i = 0; i < wanted.size(); ++i) {
          if (wanted[i].node.get() == &node) found[i] = dy[wanted[i].output];
        }
      });
  std::vector<Tensor> grads;
  for (Array& g : found) grads.push_back(g.defined() ? Tensor(g.to(nearest_format(g))) : Tensor());
  return grads;
}

void sweep(std::span<const Edge> outputs, std::vector<Array> seeds, std::span<const Edge> leaves,
           bool retain_graph, bool refuse_others, const GradientSink& sink) {
  const NoGrad no_grad;
  const NoAutocast no_autocast;
  Walk walk(outputs, retain_graph, leaves, refuse_others);
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (walk.leaves()[i].waiting == 0) sink(i, Array{});
  }
  walk.run(
      outputs, std::move(seeds),
      [&](Walk::Leaf& leaf) {
        if (leaf.impl->index < leaves.size()) sink(leaf.impl->index, std::move(leaf.grad));
      },
      kIgnoreNodes);
}

}  // namespace tandem
