// Arithmetic on float16 and bfloat16, single and in pairs.
#include "ptx/register_access.h"

#include <cmath>

namespace cudasim::ptx {
namespace {

// Formulas on doubles; the result is rounded to the 16-bit type when it is stored.
struct Add {
  double operator()(double a, double b) const { return a + b; }
};
struct Sub {
  double operator()(double a, double b) const { return a - b; }
};
struct Mul {
  double operator()(double a, double b) const { return a * b; }
};
struct Fma {
  double operator()(double a, double b, double c) const { return odd_sum(a * b, c); }
};
struct Min {
  double operator()(double a, double b) const {
    return a == b ? (std::signbit(a) ? a : b) : std::fmin(a, b);
  }
};
struct Max {
  double operator()(double a, double b) const {
    return a == b ? (std::signbit(a) ? b : a) : std::fmax(a, b);
  }
};
template <class Choose>
struct OrNaN {
  double operator()(double a, double b) const {
    return std::isnan(a) || std::isnan(b) ? std::nan("") : Choose{}(a, b);
  }
};
struct Neg {
  double operator()(double a) const { return -a; }
};
struct Abs {
  double operator()(double a) const { return std::fabs(a); }
};
struct Ex2 {
  double operator()(double a) const { return std::exp2(a); }
};
struct Tanh {
  double operator()(double a) const { return std::tanh(a); }
};

// Clamps to [0, 1] where the instruction saturates, or at 0 for .relu.
template <class Formula>
struct Saturated {
  double operator()(auto... a) const {
    const double v = Formula{}(a...);
    return v > 0 ? std::fmin(v, 1.0) : 0.0;
  }
};
template <class Formula>
struct Rectified {
  double operator()(auto... a) const {
    const double v = Formula{}(a...);
    return std::isnan(v) || v > 0 ? v : 0.0;
  }
};

template <class T, class Formula, class... Same>
Next single(Block&, Thread& thread, const Instruction& i) {
  [&]<std::size_t... k>(std::index_sequence<k...>) {
    set<T>(thread, i.operand[0], T(Formula{}(double(get<Same>(thread, i.operand[1 + k]))...)));
  }
  (std::index_sequence_for<Same...>{});
  return next(i);
}

template <class T, class Formula, class... Same>
Next pair(Block&, Thread& thread, const Instruction& i) {
  [&]<std::size_t... k>(std::index_sequence<k...>) {
    const Pair<T> result = {
        T(Formula{}(double(get<Pair<Same>>(thread, i.operand[1 + k]).low)...)),
        T(Formula{}(double(get<Pair<Same>>(thread, i.operand[1 + k]).high)...))};
    set<Pair<T>>(thread, i.operand[0], result);
  }
  (std::index_sequence_for<Same...>{});
  return next(i);
}

template <class Formula, int arity>
Handler plain(std::string_view type) {
  auto choose = [&]<class T>(T, bool two) -> Handler {
    if constexpr (arity == 1) return {two ? &pair<T, Formula, T> : &single<T, Formula, T>};
    if constexpr (arity == 2) return {two ? &pair<T, Formula, T, T> : &single<T, Formula, T, T>};
    if constexpr (arity == 3)
      return {two ? &pair<T, Formula, T, T, T> : &single<T, Formula, T, T, T>};
  };
  if (type == "f16") return choose(Half{}, false);
  if (type == "f16x2") return choose(Half{}, true);
  if (type == "bf16") return choose(BFloat16{}, false);
  if (type == "bf16x2") return choose(BFloat16{}, true);
  return {};
}

template <class Formula, int arity>
Handler with_mode(const Opcode& op) {
  if (op.has("sat")) return plain<Saturated<Formula>, arity>(op.type());
  if (op.has("relu")) return plain<Rectified<Formula>, arity>(op.type());
  return plain<Formula, arity>(op.type());
}

}  // namespace

Handler find_half(const Opcode& op) {
  if (!op.only({"rn", "sat", "relu", "NaN", "approx", "ftz"})) return {};
  if (op.has("ftz") && op.name != "ex2") return {};
  if (op.name == "add") return with_mode<Add, 2>(op);
  if (op.name == "sub") return with_mode<Sub, 2>(op);
  if (op.name == "mul") return with_mode<Mul, 2>(op);
  if (op.name == "fma") return with_mode<Fma, 3>(op);
  if (op.name == "min")
    return op.has("NaN") ? plain<OrNaN<Min>, 2>(op.type()) : plain<Min, 2>(op.type());
  if (op.name == "max")
    return op.has("NaN") ? plain<OrNaN<Max>, 2>(op.type()) : plain<Max, 2>(op.type());
  if (op.name == "neg") return plain<Neg, 1>(op.type());
  if (op.name == "abs") return plain<Abs, 1>(op.type());
  if (op.name == "ex2") return plain<Ex2, 1>(op.type());
  if (op.name == "tanh") return plain<Tanh, 1>(op.type());
  return {};
}

}  // namespace cudasim::ptx
