// float32 arithmetic. The exact instructions are exact; the approximate ones (ex2.approx, ...) are
// computed in double and rounded, up to about 2 units in the last place from the hardware.
#include "ptx/register_access.h"

#include <cmath>

namespace cudasim::ptx {
namespace {

// Float is Float32<flush, saturate>; kRounding is Nearest except where an expf asks for more.
template <class Float>
struct Add {
  Float operator()(Float a, Float b) const { return float(a) + float(b); }
};
template <class Float>
struct Sub {
  Float operator()(Float a, Float b) const { return float(a) - float(b); }
};
template <class Float>
struct Mul {
  Float operator()(Float a, Float b) const { return float(a) * float(b); }
};
template <class Float>
struct Fma {
  Float operator()(Float a, Float b, Float c) const {
    return std::fma(float(a), float(b), float(c));
  }
};
template <class Float>
struct Div {
  Float operator()(Float a, Float b) const { return float(a) / float(b); }
};
template <class Float>
struct Min {
  Float operator()(Float a, Float b) const {
    if (a == b) return std::signbit(float(a)) ? a : b;  // -0 is the smaller zero
    return std::fmin(float(a), float(b));
  }
};
template <class Float>
struct Max {
  Float operator()(Float a, Float b) const {
    if (a == b) return std::signbit(float(a)) ? b : a;
    return std::fmax(float(a), float(b));
  }
};
// min and max that pass NaN on
template <template <class> class Choose>
struct OrNaN {
  template <class Float>
  struct Op {
    Float operator()(Float a, Float b) const {
      return std::isnan(float(a)) || std::isnan(float(b)) ? Float(std::nanf(""))
                                                          : Choose<Float>{}(a, b);
    }
  };
};
template <class Float>
struct CopySign {
  Float operator()(Float sign, Float size) const { return std::copysign(float(size), float(sign)); }
};

template <class Float>
struct Neg {
  Float operator()(Float a) const { return -float(a); }
};
template <class Float>
struct Abs {
  Float operator()(Float a) const { return std::fabs(float(a)); }
};
template <class Float>
struct Sqrt {
  Float operator()(Float a) const { return std::sqrt(float(a)); }
};
template <class Float>
struct Rcp {
  Float operator()(Float a) const { return 1.f / float(a); }
};
template <class Float>
struct Rsqrt {
  Float operator()(Float a) const { return float(1 / std::sqrt(double(a))); }
};
template <class Float>
struct Ex2 {
  Float operator()(Float a) const { return float(std::exp2(double(a))); }
};
template <class Float>
struct Lg2 {
  Float operator()(Float a) const { return float(std::log2(double(a))); }
};
template <class Float>
struct Sin {
  Float operator()(Float a) const { return float(std::sin(double(a))); }
};
template <class Float>
struct Cos {
  Float operator()(Float a) const { return float(std::cos(double(a))); }
};
template <class Float>
struct Tanh {
  Float operator()(Float a) const { return float(std::tanh(double(a))); }
};

// The same in a rounding direction of the instruction.
template <class Exact>
Next rounded(Block&, Thread& thread, const Instruction& i) {
  using Float = Float32<true, false>;
  auto operand = [&](int k) -> double {
    const auto value = get<float>(thread, i.operand[k]);
    return i.flush ? Float::flushed(value) : value;
  };
  float result = to_float(Exact{}(operand), i.rounding);
  if (i.flush) result = Float::flushed(result);
  if (i.saturate) result = result > 0.f ? std::fmin(result, 1.f) : 0.f;
  set(thread, i.operand[0], result);
  return next(i);
}
struct ExactAdd {
  double operator()(auto operand) const { return odd_sum(operand(1), operand(2)); }
};
struct ExactSub {
  double operator()(auto operand) const { return odd_sum(operand(1), -operand(2)); }
};
struct ExactMul {
  double operator()(auto operand) const { return operand(1) * operand(2); }
};
struct ExactFma {
  double operator()(auto operand) const { return odd_sum(operand(1) * operand(2), operand(3)); }
};

// Op for the flush-to-zero and saturation that the opcode asks for
template <template <class> class Op>
Handler with_mode(const Opcode& op) {
  const bool flush = op.has("ftz"), saturate = op.has("sat");
  if (flush && saturate) return instruction<Op<Float32<true, true>>>();
  if (flush) return instruction<Op<Float32<true, false>>>();
  if (saturate) return instruction<Op<Float32<false, true>>>();
  return instruction<Op<Float32<false, false>>>();
}

Handler find_rounded(const Opcode& op) {
  if (op.name == "add") return {&rounded<ExactAdd>};
  if (op.name == "sub") return {&rounded<ExactSub>};
  if (op.name == "mul") return {&rounded<ExactMul>};
  if (op.name == "fma") return {&rounded<ExactFma>};
  return {};
}

}  // namespace

Handler find_float(const Opcode& op) {
  if (op.type() != "f32") return {};
  if (!op.only({"rn", "rz", "rm", "rp", "ftz", "sat", "approx", "full", "NaN"})) return {};
  if (op.rounding() != Rounding::Nearest) return find_rounded(op);
  if (op.name == "add") return with_mode<Add>(op);
  if (op.name == "sub") return with_mode<Sub>(op);
  if (op.name == "mul") return with_mode<Mul>(op);
  if (op.name == "fma" || op.name == "mad") return with_mode<Fma>(op);
  if (op.name == "div") return with_mode<Div>(op);
  if (op.name == "min") return op.has("NaN") ? with_mode<OrNaN<Min>::Op>(op) : with_mode<Min>(op);
  if (op.name == "max") return op.has("NaN") ? with_mode<OrNaN<Max>::Op>(op) : with_mode<Max>(op);
  if (op.name == "copysign") return with_mode<CopySign>(op);
  if (op.name == "neg") return with_mode<Neg>(op);
  if (op.name == "abs") return with_mode<Abs>(op);
  if (op.name == "sqrt") return with_mode<Sqrt>(op);
  if (op.name == "rcp") return with_mode<Rcp>(op);
  if (op.name == "rsqrt") return with_mode<Rsqrt>(op);
  if (op.name == "ex2") return with_mode<Ex2>(op);
  if (op.name == "lg2") return with_mode<Lg2>(op);
  if (op.name == "sin") return with_mode<Sin>(op);
  if (op.name == "cos") return with_mode<Cos>(op);
  if (op.name == "tanh") return with_mode<Tanh>(op);
  return {};
}

}  // namespace cudasim::ptx
