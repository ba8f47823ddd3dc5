#include <tandem/core/ops/pointwise.h>

#include <array>

#include <tandem/core/array_ops.h>
#include <tandem/core/autocast.h>
#include <tandem/core/ops/operands.h>

namespace tandem {
namespace {

// ---- what backward reads: an op saves nothing else

// Does d f(a, b) / da read a, and d f(a, b) / db read b? d(a b)/da is b alone.
template <class F>
constexpr bool da_reads_a = true;
template <>
constexpr bool da_reads_a<Mul> = false;
template <>
constexpr bool da_reads_a<Div> = false;
template <class F>
constexpr bool db_reads_b = true;
template <>
constexpr bool db_reads_b<Mul> = false;

template <class F>
constexpr bool reads_saved = F::saves != Saves::nothing;
template <class F>
constexpr bool reads_saved<WithRight<F>> = F::pull_a == Pull::formula&& da_reads_a<F>;
template <class F>
constexpr bool reads_saved<WithLeft<F>> = F::pull_b == Pull::formula&& db_reads_b<F>;

// ---- one tensor in

// dx of a map; what it does not read may be anything of dy's shape.
template <class F>
Array pull(const Array& saved, const Array& dy, Scalars s) {
  if constexpr (std::is_same_v<F, WithRight<Add>>) {
    return dy;
  } else if constexpr (F::saves == Saves::nothing) {
    return map_grad<F>(Array(), dy, s);
  } else {
    return map_grad<F>(saved, dy, s);
  }
}

template <class F>
Tensor unary(const char* name, const Tensor& x, Scalars s = {}) {
  const Array& a = operand(name, x, "x");
  if (F::domain == Domain::floats && !is_floating(a.dtype())) {
    return unary<F>(name, to_real(name, x), s);
  }
  Array y = map(map_op<F>, name, a, s);
  if constexpr (reads_saved<F>) {
    Saved saved = Saved::if_(tracked(x), F::saves == Saves::input ? a : y);
    return record(name, std::move(y), {x},
                  [saved = std::move(saved), s](const Array& dy, const Wanted&) {
                    return pull<F>(saved.get(), dy, s);
                  });
  } else {
    return record(
        name, std::move(y), {x}, [s](const Array& dy, const Wanted&) { return pull<F>(dy, dy, s); },
        Keeps::nothing);
  }
}

// Functions whose results leave the range of 16 bits: float32 under autocast.
template <class F>
Tensor unary_full(const char* name, const Tensor& x) {
  if (const Recast to = recast(CastGroup::full, {x})) return unary<F>(name, to(x));
  return unary<F>(name, x);
}

// ---- two tensors in

template <class F, int kOperand>
Array pull(const Array& a, const Array& b, const Array& dy) {
  constexpr Pull rule = kOperand == 0 ? F::pull_a : F::pull_b;
  if constexpr (rule == Pull::pass) {
    return dy;
  } else if constexpr (rule == Pull::negate) {
    return map<Neg>(dy);
  } else {
    return zip_grad(zip_op<F>, "zip_grad", kOperand, a, b, dy);
  }
}

// Both operands have one type. A derivative that does not read an operand gets the other in its
// place, which broadcasts just as well.
template <class F>
Tensor zip_and_record(const char* name, const Tensor& a, const Tensor& b) {
  const Array &x = a.array(), &y = b.array();
  Array z = zip(zip_op<F>, name, x, y);
  const bool ga = tracked(a), gb = tracked(b);
  if (!ga && !gb) return Tensor(std::move(z));
  if constexpr (F::pull_a == Pull::formula) {
    const bool save_a = gb || (ga && da_reads_a<F>), save_b = ga || (gb && db_reads_b<F>);
    return record(name, std::move(z), {a, b},
                  [a = Saved::if_(save_a, x), b = Saved::if_(save_b, y), save_a, save_b,
                   sa = x.shape(), sb = y.shape()](const Array& dy, const Wanted& wanted) {
                    const Array& va = save_a ? a.get() : b.get();
                    const Array& vb = save_b ? b.get() : va;
                    std::array<Array, 2> grads;
                    if (wanted[0]) grads[0] = sum_to(pull<F, 0>(va, vb, dy), sa);
                    if (wanted[1]) grads[1] = sum_to(pull<F, 1>(va, vb, dy), sb);
                    return grads;
                  });
  } else {
    return record(
        name, std::move(z), {a, b},
        [sa = x.shape(), sb = y.shape()](const Array& dy, const Wanted& wanted) {
          std::array<Array, 2> grads;
          if (wanted[0]) grads[0] = sum_to(pull<F, 0>(dy, dy, dy), sa);
          if (wanted[1]) grads[1] = pull<F, 1>(dy, dy, sum_to(dy, sb));
          return grads;
        },
        Keeps::nothing);
  }
}

// The type in which F computes on operands that meet in `dtype`.
template <class F>
DType computes_in(DType dtype) {
  if constexpr (F::domain == Domain::floats) return real_type(dtype);
  if (F::compares && dtype == DType::boolean) return DType::int64;
  return dtype;
}

template <class F>
Tensor logic(const char* name, const Tensor& a, const Tensor& b) {
  return Tensor(zip(zip_op<F>, name, operand(name, a, "a"), operand(name, b, "b")));
}

template <class F>
Tensor binary(const char* name, const Tensor& a, const Tensor& b) {
  const Array &x = operand(name, a, "a"), &y = operand(name, b, "b");
  const DType dtype = computes_in<F>(result_type(name, x, y));
  if (dtype == DType::boolean) {  // as in PyTorch, + is or and * is and
    if constexpr (std::is_same_v<F, Add>) return logic<Or>(name, a, b);
    if constexpr (std::is_same_v<F, Mul>) return logic<And>(name, a, b);
  }
  if (x.dtype() == dtype && y.dtype() == dtype) return zip_and_record<F>(name, a, b);
  check_same_device(name, {&x, &y});
  return zip_and_record<F>(name, a.to(dtype), b.to(dtype));
}

template <class F>
Tensor compare(const char* name, const Tensor& a, const Tensor& b) {
  const Array &x = operand(name, a, "a"), &y = operand(name, b, "b");
  const DType dtype = computes_in<F>(result_type(name, x, y));
  check_same_device(name, {&x, &y});
  return Tensor(zip(zip_op<F>, name, x.to(dtype), y.to(dtype)));
}

template <class F>
Tensor compare(const char* name, const Tensor& a, Scalar b) {
  const Array& x = operand(name, a, "a");
  const DType dtype = computes_in<F>(result_type(name, x, b));
  return Tensor(zip(zip_op<F>, name, x.to(dtype), constant(b, dtype, x.device())));
}

// ---- a tensor and a number

// With a float the number travels inside the op; an integer becomes a 0-dim tensor, so that it is
// not rounded on the way. `real`: the result is a float in any case.
template <class Map, class Zip>
Tensor with_number(const char* name, const Tensor& x, Scalar s, double parameter) {
  const DType dtype = computes_in<Zip>(result_type(name, operand(name, x, "x"), s));
  if (is_floating(dtype)) {
    if (x.dtype() == dtype) return unary<Map>(name, x, {parameter});
    return unary<Map>(name, x.to(dtype), {parameter});
  }
  const Tensor number(constant(s, dtype, x.device()));
  if constexpr (std::is_same_v<Map, WithLeft<Zip>>) {
    return binary<Zip>(name, number, x);
  } else {
    return binary<Zip>(name, x, number);
  }
}

}  // namespace

// clang-format off
Tensor add(const Tensor& a, const Tensor& b) { return binary<Add>("add", a, b); }
Tensor mul(const Tensor& a, const Tensor& b) { return binary<Mul>("mul", a, b); }
Tensor sub(const Tensor& a, const Tensor& b) { return binary<Sub>("sub", a, b); }
Tensor div(const Tensor& a, const Tensor& b) { return binary<Div>("div", a, b); }
Tensor maximum(const Tensor& a, const Tensor& b) { return binary<Maximum>("maximum", a, b); }
Tensor minimum(const Tensor& a, const Tensor& b) { return binary<Minimum>("minimum", a, b); }

Tensor add(const Tensor& a, Scalar b) { return with_number<WithRight<Add>, Add>("add", a, b, b.to_double()); }
Tensor sub(const Tensor& a, Scalar b) { return with_number<WithRight<Add>, Sub>("sub", a, b, -b.to_double()); }
Tensor mul(const Tensor& a, Scalar b) { return with_number<WithRight<Mul>, Mul>("mul", a, b, b.to_double()); }
Tensor div(const Tensor& a, Scalar b) { return with_number<WithRight<Div>, Div>("div", a, b, b.to_double()); }
Tensor sub(Scalar a, const Tensor& b) { return with_number<WithLeft<Sub>, Sub>("sub", b, a, a.to_double()); }
Tensor div(Scalar a, const Tensor& b) { return with_number<WithLeft<Div>, Div>("div", b, a, a.to_double()); }

Tensor neg(const Tensor& x) { return unary<Neg>("neg", x); }
Tensor abs(const Tensor& x) { return unary<Abs>("abs", x); }
Tensor exp(const Tensor& x) { return unary_full<Exp>("exp", x); }
Tensor log(const Tensor& x) { return unary_full<Log>("log", x); }
Tensor sqrt(const Tensor& x) { return unary<Sqrt>("sqrt", x); }
Tensor tanh(const Tensor& x) { return unary<Tanh>("tanh", x); }
Tensor sigmoid(const Tensor& x) { return unary<Sigmoid>("sigmoid", x); }
Tensor relu(const Tensor& x) { return unary<Relu>("relu", x); }
Tensor gelu(const Tensor& x) { return unary<Gelu>("gelu", x); }
Tensor silu(const Tensor& x) { return unary<Silu>("silu", x); }
Tensor leaky_relu(const Tensor& x, double slope) { return unary<LeakyRelu>("leaky_relu", x, {slope}); }

Tensor eq(const Tensor& a, const Tensor& b) { return compare<Eq>("eq", a, b); }
Tensor ne(const Tensor& a, const Tensor& b) { return compare<Ne>("ne", a, b); }
Tensor lt(const Tensor& a, const Tensor& b) { return compare<Lt>("lt", a, b); }
Tensor le(const Tensor& a, const Tensor& b) { return compare<Le>("le", a, b); }
Tensor gt(const Tensor& a, const Tensor& b) { return compare<Gt>("gt", a, b); }
Tensor ge(const Tensor& a, const Tensor& b) { return compare<Ge>("ge", a, b); }
Tensor eq(const Tensor& a, Scalar b) { return compare<Eq>("eq", a, b); }
Tensor ne(const Tensor& a, Scalar b) { return compare<Ne>("ne", a, b); }
Tensor lt(const Tensor& a, Scalar b) { return compare<Lt>("lt", a, b); }
Tensor le(const Tensor& a, Scalar b) { return compare<Le>("le", a, b); }
Tensor gt(const Tensor& a, Scalar b) { return compare<Gt>("gt", a, b); }
Tensor ge(const Tensor& a, Scalar b) { return compare<Ge>("ge", a, b); }

Tensor logical_and(const Tensor& a, const Tensor& b) { return logic<And>("logical_and", a, b); }
Tensor logical_or(const Tensor& a, const Tensor& b) { return logic<Or>("logical_or", a, b); }
Tensor logical_xor(const Tensor& a, const Tensor& b) { return logic<Xor>("logical_xor", a, b); }
// clang-format on

Tensor pow(const Tensor& a, const Tensor& b) {
  if (const Recast to = recast(CastGroup::full, {a, b})) return pow(to(a), to(b));
  return binary<Pow>("pow", a, b);
}

Tensor pow(const Tensor& a, Scalar b) {
  if (const Recast to = recast(CastGroup::full, {a})) return pow(to(a), b);
  return with_number<WithRight<Pow>, Pow>("pow", a, b, b.to_double());
}

Tensor pow(Scalar a, const Tensor& b) {
  if (const Recast to = recast(CastGroup::full, {b})) return pow(a, to(b));
  return with_number<WithLeft<Pow>, Pow>("pow", b, a, a.to_double());
}

Tensor logical_not(const Tensor& x) {
  return Tensor(map(map_op<LogicalNot>, "logical_not", operand("logical_not", x, "x")));
}

Tensor clamp(const Tensor& x, Scalar min, Scalar max) {
  const Array& a = operand("clamp", x, "x");
  const DType dtype = promote(result_type("clamp", a, min), result_type("clamp", a, max));
  return unary<Clamp>("clamp", a.dtype() == dtype ? x : x.to(dtype),
                      {min.to_double(), max.to_double()});
}

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  const Array& mask = operand("where", condition, "condition");
  const Array &x = operand("where", a, "a"), &y = operand("where", b, "b");
  check_same_device("where", {&mask, &x, &y});
  const DType dtype = result_type("where", x, y);
  if (x.dtype() != dtype || y.dtype() != dtype) return where(condition, a.to(dtype), b.to(dtype));
  return record("where", where(mask, x, y), {a, b},
                [mask = Saved::if_(tracked(a) || tracked(b), mask), sa = x.shape(), sb = y.shape()](
                    const Array& dy, const Wanted& wanted) {
                  const Array zero = Array::zeros({}, dy.dtype(), dy.device());
                  std::array<Array, 2> grads;
                  if (wanted[0]) grads[0] = sum_to(where(mask.get(), dy, zero), sa);
                  if (wanted[1]) grads[1] = sum_to(where(mask.get(), zero, dy), sb);
                  return grads;
                });
}

}  // namespace tandem
