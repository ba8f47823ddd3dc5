// Convolutions and products of the CPU beside oneDNN called alone, and a training step with and
// without it.
//
//   layouts [part of a name]
//
// "oneDNN alone" runs primitives made beforehand on channels-last images and weights that are
// packed already: what we add is finding the primitive, packing the weights and unpacking their
// gradient, and workspace from the pool. A speed of 1 is as fast; convolutions should reach 0.85.
// Processor times of one thread, the shortest of runs that take turns.
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <dnnl.hpp>
#include <functional>
#include <limits>
#include <string>
#include <unordered_map>
#include <vector>

#include <tandem/core/array_ops.h>
#include <tandem/tandem.h>

#include "measure.h"
#include "nets.h"

using namespace tandem;

namespace {

std::string wanted;

bool asked_for(const std::string& name) {
  return name.find(wanted) != std::string::npos;
}

using bench::cpu_seconds;

/// The shortest milliseconds of each, taking turns.
std::vector<double> shortest(const std::vector<std::function<void()>>& calls) {
  std::vector<double> best(calls.size(), std::numeric_limits<double>::infinity());
  double start = cpu_seconds();
  for (const auto& call : calls) call();  // first calls prepare
  const int repeats = std::max(1, int(2e-3 / (cpu_seconds() - start)));
  for (int round = 0; round < 15; ++round) {
    for (std::size_t i = 0; i < calls.size(); ++i) {
      start = cpu_seconds();
      for (int repeat = 0; repeat < repeats; ++repeat) calls[i]();
      best[i] = std::min(best[i], 1e3 * (cpu_seconds() - start) / repeats);
    }
  }
  return best;
}

using Call = std::function<void()>;

/// The smallest share of oneDNN's speed that was seen.
struct Shares {
  double conv = std::numeric_limits<double>::infinity(), gemm = conv;
} least;

void report(const std::string& name, double flops, const Call& ours, const Call& alone,
            const Call& with_eigen) {
  if (!asked_for(name)) return;
  const auto eigen = [&] {
    set_onednn(false);
    with_eigen();
    set_onednn(true);
  };
  const std::vector<double> ms = shortest({ours, alone, eigen});
  double& share = name.starts_with("conv") ? least.conv : least.gemm;
  share = std::min(share, ms[1] / ms[0]);
  std::printf("%-40s %9.3f ms %6.1f GFLOP/s   %5.2f of oneDNN alone, %5.2f of Eigen\n",
              name.c_str(), ms[0], 1e-6 * flops / ms[0], ms[1] / ms[0], ms[2] / ms[0]);
}

const dnnl::engine& engine() {
  static const dnnl::engine e(dnnl::engine::kind::cpu, 0);
  return e;
}

template <class P, class... Args>
typename P::primitive_desc describe(const Args&... args) {
#if DNNL_VERSION_MAJOR >= 3
  return {engine(), args...};
#else
  return {typename P::desc(args...), engine()};
#endif
}
template <class P, class... Args>
typename P::primitive_desc describe_gradient(
    const dnnl::convolution_forward::primitive_desc& forward, const Args&... args) {
#if DNNL_VERSION_MAJOR >= 3
  return {engine(), args..., forward};
#else
  return {typename P::desc(args...), engine(), forward};
#endif
}

struct Convolution {
  std::int64_t n, c, size, o, kernel, stride, padding;

  std::string name() const {
    return str("conv ", n, " x ", c, " x ", size, "^2 -> ", o, ", ", kernel, "x", kernel,
               stride > 1 ? " by 2" : "");
  }
  std::int64_t out() const { return (size + 2 * padding - kernel) / stride + 1; }
  double flops() const { return 2.0 * double(n * o * out() * out()) * double(c * kernel * kernel); }
};

/// The three primitives of oneDNN, ready to run.
struct Alone {
  explicit Alone(const Convolution& t) {
    const auto f32 = dnnl::memory::data_type::f32;
    const dnnl::memory::dims stride{t.stride, t.stride}, padding{t.padding, t.padding};
    const dnnl::memory::desc x({t.n, t.c, t.size, t.size}, f32, dnnl::memory::format_tag::nhwc),
        w({t.o, t.c, t.kernel, t.kernel}, f32, dnnl::memory::format_tag::any),
        y({t.n, t.o, t.out(), t.out()}, f32, dnnl::memory::format_tag::nhwc);
    const auto direct = dnnl::algorithm::convolution_direct;
    using Forward = dnnl::convolution_forward;
    using GradInput = dnnl::convolution_backward_data;
    using GradWeight = dnnl::convolution_backward_weights;
    const auto to_y = describe<Forward>(dnnl::prop_kind::forward_training, direct, x, w, y, stride,
                                        padding, padding);
    const auto to_x = describe_gradient<GradInput>(to_y, direct, x, w, y, stride, padding, padding);
    const auto to_w =
        describe_gradient<GradWeight>(to_y, direct, x, w, y, stride, padding, padding);
    add(Forward(to_y),
        {{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, to_y.weights_desc()}, {DNNL_ARG_DST, y}});
    add(GradInput(to_x),
        {{DNNL_ARG_DIFF_SRC, x}, {DNNL_ARG_WEIGHTS, to_x.weights_desc()}, {DNNL_ARG_DIFF_DST, y}});
    add(GradWeight(to_w), {{DNNL_ARG_SRC, x},
                           {DNNL_ARG_DIFF_WEIGHTS, to_w.diff_weights_desc()},
                           {DNNL_ARG_DIFF_DST, y}});
  }

  std::vector<Call> calls{};

 private:
  void add(const dnnl::primitive& primitive,
           const std::unordered_map<int, dnnl::memory::desc>& operands) {
    std::unordered_map<int, dnnl::memory> arguments;
    for (const auto& [name, desc] : operands) {
      dnnl::memory m(desc, engine());
      std::fill_n(static_cast<float*>(m.get_data_handle()), desc.get_size() / sizeof(float), 0.5f);
      arguments.insert({name, m});
    }
    calls.push_back([primitive, arguments, stream = dnnl::stream(engine())]() mutable {
      primitive.execute(stream, arguments);
    });
  }
};

/// The operands of a convolution and of its gradients.
struct Operands {
  Operands(const Convolution& t, MemoryFormat format)
      : window{t.kernel, t.stride, t.padding, 1},
        x(randn({t.n, t.c, t.size, t.size}).array().to(format)),
        w(randn({t.o, t.c, t.kernel, t.kernel}).array()),
        y(randn({t.n, t.o, t.out(), t.out()}).array().to(format)) {}

  Call forward() {
    return [this] { backend(cpu(0)).conv2d(window, 1, x, w, {}, y); };
  }
  Call grad_input() {
    return [this] { backend(cpu(0)).conv2d_grad_input(window, 1, w, y, dx); };
  }
  Call grad_weight() {
    return [this] { backend(cpu(0)).conv2d_grad_weight(window, 1, x, y, dw); };
  }

  Window2d window;
  Array x, w, y, dx = Array::empty_like(x), dw = Array::empty_like(w);
};

/// Each library with images as it likes them: Eigen's are row-major.
void convolution(const Convolution& t) {
  if (!asked_for(t.name())) return;
  const Alone alone(t);
  Operands ours(t, MemoryFormat::channels_last), rows(t, MemoryFormat::contiguous);
  report(t.name(), t.flops(), ours.forward(), alone.calls[0], rows.forward());
  report(t.name() + " dx", t.flops(), ours.grad_input(), alone.calls[1], rows.grad_input());
  report(t.name() + " dw", t.flops(), ours.grad_weight(), alone.calls[2], rows.grad_weight());
}

void product(std::int64_t m, std::int64_t n, std::int64_t k, bool a_transposed, bool b_transposed) {
  const std::string name =
      str("gemm ", m, " x ", k, a_transposed ? "'" : "", " x ", n, b_transposed ? "'" : "");
  if (!asked_for(name)) return;
  const Array p = randn(a_transposed ? Shape{1, k, m} : Shape{1, m, k}).array(),
              q = randn(b_transposed ? Shape{1, n, k} : Shape{1, k, n}).array(),
              a = a_transposed ? p.transpose(1, 2) : p, c = b_transposed ? q.transpose(1, 2) : q;
  Array y = Array::empty({1, m, n}, float32, cpu(0));
  const auto alone = [&] {
    dnnl_sgemm(a_transposed ? 'T' : 'N', b_transposed ? 'T' : 'N', m, n, k, 1.0f, p.data<float>(),
               p.size(2), q.data<float>(), q.size(2), 0.0f, y.fresh_data<float>(), n);
  };
  const auto ours = [&] { backend(cpu(0)).gemm(a, c, y, false); };
  report(name, 2.0 * double(m * n) * double(k), ours, alone, ours);
}

/// What 16 bits cost, or gain where the processor multiplies bfloat16 by itself.
void product_in_16_bits(std::int64_t n) {
  const std::string name = str("gemm ", n, "^3 in bfloat16");
  if (!asked_for(name)) return;
  const Array a = randn({n, n}).array(), b = randn({n, n}).array();
  const Array a16 = a.to(bfloat16), b16 = b.to(bfloat16);
  const std::vector<double> ms = shortest({[&] { gemm(a16, b16); }, [&] { gemm(a, b); }});
  const bool native = __builtin_cpu_supports("avx512bf16") != 0;
  std::printf("%-40s %9.3f ms   %5.2f of the speed of float32; this processor has %s for it\n",
              name.c_str(), ms[0], ms[1] / ms[0], native ? "instructions" : "no instructions");
}

void step(std::int64_t batch) {
  const std::string name = str("quickstart_cnn step, batch ", batch);
  if (!asked_for(name)) return;
  nn::Sequential model = bench::cnn();
  optim::Adam optimizer(model.parameters());
  const Tensor x = randn({batch, 3, 32, 32}), labels = randint(0, 10, {batch});
  const auto train = [&](bool on) {
    return [&, on] {
      set_onednn(on);
      optimizer.zero_grad();
      nn::cross_entropy(model(x), labels).backward();
      optimizer.step();
      set_onednn(true);
    };
  };
  const std::vector<double> ms = shortest({train(true), train(false)});
  std::printf("%-40s %9.3f ms, %.3f ms with Eigen alone: %.2f times as fast\n", name.c_str(), ms[0],
              ms[1], ms[1] / ms[0]);
}

}  // namespace

int main(int argc, char** argv) {
  wanted = argc > 1 ? argv[1] : "";
  set_onednn(true);
  if (auto one = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"))) {
    one(1);  // for oneDNN alone
  }
  for (const std::int64_t batch : {32, 128}) {
    convolution({batch, 3, 32, 64, 3, 1, 1});    // quickstart_cnn
    convolution({batch, 64, 16, 128, 3, 1, 1});  // quickstart_cnn
  }
  convolution({64, 1, 28, 32, 3, 1, 1});   // train_cnn on Fashion-MNIST
  convolution({64, 32, 14, 64, 3, 1, 1});  // train_cnn on Fashion-MNIST
  convolution({64, 32, 4, 64, 3, 1, 1});   // train_cnn on the digits
  convolution({32, 64, 32, 128, 3, 2, 1});
  convolution({32, 64, 16, 64, 1, 1, 0});
  for (const std::int64_t n : {32, 64, 128, 256, 512, 1024}) product(n, n, n, false, false);
  product(64, 256, 784, false, true);   // Linear(784, 256), forward
  product(64, 784, 256, false, false);  // its gradients
  product(256, 784, 64, true, false);
  product(64, 10, 128, false, true);
  product(64, 1024, 1024, false, true);
  product(64, 1024, 1024, false, false);
  product(1024, 1024, 64, true, false);
  product_in_16_bits(1024);
  step(32);
  step(128);
  if (least.conv < 1e9) bench::print_ratio("conv_of_onednn", least.conv);
  if (least.gemm < 1e9) bench::print_ratio("gemm_of_onednn", least.gemm);
}
