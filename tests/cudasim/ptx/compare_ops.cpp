// Comparisons, selections and the logic of predicates. "setp.lt.and" arrives here as two
// instructions: the parser has split it into a comparison and an "and.pred".
#include "ptx/register_access.h"

#include <cmath>

namespace cudasim::ptx {
namespace {

template <class T>
bool is_nan(T x) {
  if constexpr (std::is_integral_v<T>)
    return false;
  else
    return std::isnan(double(x));
}
template <class T>
bool ordered(T a, T b) {
  return !is_nan(a) && !is_nan(b);
}

// The ordered comparisons are false for NaN, the unordered ones (equ, ltu, ...) true.
template <class T>
struct Eq {
  bool operator()(T a, T b) const { return a == b; }
};
template <class T>
struct Ne {
  bool operator()(T a, T b) const { return ordered(a, b) && a != b; }
};
template <class T>
struct Lt {
  bool operator()(T a, T b) const { return a < b; }
};
template <class T>
struct Le {
  bool operator()(T a, T b) const { return a <= b; }
};
template <class T>
struct Gt {
  bool operator()(T a, T b) const { return a > b; }
};
template <class T>
struct Ge {
  bool operator()(T a, T b) const { return a >= b; }
};
template <class T>
struct Equ {
  bool operator()(T a, T b) const { return !Ne<T>{}(a, b); }
};
template <class T>
struct Neu {
  bool operator()(T a, T b) const { return a != b; }
};
template <class T>
struct Ltu {
  bool operator()(T a, T b) const { return !(a >= b); }
};
template <class T>
struct Leu {
  bool operator()(T a, T b) const { return !(a > b); }
};
template <class T>
struct Gtu {
  bool operator()(T a, T b) const { return !(a <= b); }
};
template <class T>
struct Geu {
  bool operator()(T a, T b) const { return !(a < b); }
};
template <class T>
struct Num {
  bool operator()(T a, T b) const { return ordered(a, b); }
};
template <class T>
struct Nan {
  bool operator()(T a, T b) const { return !ordered(a, b); }
};

// setp gives a predicate, set all ones (integers) or 1.0 (floats).
enum class Result { Predicate, Mask, One };

template <class Compare, class T, Result result>
Next compare(Block&, Thread& thread, const Instruction& i) {
  const bool yes = Compare{}(get<T>(thread, i.operand[1]), get<T>(thread, i.operand[2]));
  if constexpr (result == Result::Predicate) set(thread, i.operand[0], yes);
  if constexpr (result == Result::Mask) set(thread, i.operand[0], yes ? ~0u : 0u);
  if constexpr (result == Result::One) set(thread, i.operand[0], yes ? 1.f : 0.f);
  return next(i);
}

template <template <class> class Compare, class T>
Handler with_result(Result result) {
  switch (result) {
    case Result::Predicate:
      return {&compare<Compare<T>, T, Result::Predicate>};
    case Result::Mask:
      return {&compare<Compare<T>, T, Result::Mask>};
    case Result::One:
      return {&compare<Compare<T>, T, Result::One>};
  }
  return {};
}

template <template <class> class Compare>
Handler of_type(const Opcode& op, Result result) {
  const std::string_view type = op.type();
  if (type == "u32" || type == "b32") return with_result<Compare, std::uint32_t>(result);
  if (type == "s32") return with_result<Compare, std::int32_t>(result);
  if (type == "u64" || type == "b64") return with_result<Compare, std::uint64_t>(result);
  if (type == "s64") return with_result<Compare, std::int64_t>(result);
  if (type == "u16" || type == "b16") return with_result<Compare, std::uint16_t>(result);
  if (type == "s16") return with_result<Compare, std::int16_t>(result);
  if (type == "f16") return with_result<Compare, Half>(result);
  if (type == "bf16") return with_result<Compare, BFloat16>(result);
  if (type != "f32") return {};
  if (op.has("ftz")) return with_result<Compare, Float32<true, false>>(result);
  return with_result<Compare, float>(result);
}

Handler find_comparison(const Opcode& op, Result result) {
  const std::string_view how = op.modifiers.front();
  if (how == "eq") return of_type<Eq>(op, result);
  if (how == "ne") return of_type<Ne>(op, result);
  if (how == "lt" || how == "lo") return of_type<Lt>(op, result);
  if (how == "le" || how == "ls") return of_type<Le>(op, result);
  if (how == "gt" || how == "hi") return of_type<Gt>(op, result);
  if (how == "ge" || how == "hs") return of_type<Ge>(op, result);
  if (how == "equ") return of_type<Equ>(op, result);
  if (how == "neu") return of_type<Neu>(op, result);
  if (how == "ltu") return of_type<Ltu>(op, result);
  if (how == "leu") return of_type<Leu>(op, result);
  if (how == "gtu") return of_type<Gtu>(op, result);
  if (how == "geu") return of_type<Geu>(op, result);
  if (how == "num") return of_type<Num>(op, result);
  if (how == "nan") return of_type<Nan>(op, result);
  return {};
}

// Copies all 64 bits: readers look at the low bits only.
Next select(Block&, Thread& thread, const Instruction& i) {
  const Slot from = get<bool>(thread, i.operand[3]) ? i.operand[1] : i.operand[2];
  thread.registers[i.operand[0]] = thread.registers[from];
  return next(i);
}

struct And {
  bool operator()(bool a, bool b) const { return a && b; }
};
struct Or {
  bool operator()(bool a, bool b) const { return a || b; }
};
struct Xor {
  bool operator()(bool a, bool b) const { return a != b; }
};
struct Not {
  bool operator()(bool a) const { return !a; }
};

}  // namespace

Handler find_compare(const Opcode& op) {
  if (op.modifiers.empty()) return {};
  const bool known = op.only({"eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs", "equ",
                              "neu", "ltu", "leu", "gtu", "geu", "num", "nan", "ftz"});
  if (!known) return {};
  if (op.name == "setp") return find_comparison(op, Result::Predicate);
  if (op.name == "set" && op.type_before() == "f32") return find_comparison(op, Result::One);
  if (op.name == "set" && (op.type_before() == "u32" || op.type_before() == "s32")) {
    return find_comparison(op, Result::Mask);
  }
  if (op.name == "selp") return {&select};
  if (op.type() != "pred") return {};
  if (op.name == "and") return instruction<And>();
  if (op.name == "or") return instruction<Or>();
  if (op.name == "xor") return instruction<Xor>();
  if (op.name == "not") return instruction<Not>();
  return {};
}

}  // namespace cudasim::ptx
