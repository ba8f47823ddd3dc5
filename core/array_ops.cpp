#include <tandem/core/array_ops.h>

#include <algorithm>

#include <tandem/core/trace.h>

namespace tandem {

bool expanded(const Array& x) {
  for (int i = 0; i < x.dim(); ++i) {
    if (x.size(i) > 1 && x.strides()[i] == 0) return true;
  }
  return false;
}

namespace {

// The result of a pointwise op keeps the layout of its first operand that has its shape and
// elements of its own, so that neighbours in memory stay neighbours and the kernels see one long
// run.
Array result_like(const Shape& shape, DType dtype, std::initializer_list<const Array*> operands) {
  const auto any = [](const Array* x) { return x->defined(); };
  const Array* first = *std::find_if(operands.begin(), operands.end(), any);
  Array y = Array::empty(shape, dtype, first->device());
  for (const Array* x : operands) {
    if (!x->defined() || x->shape() != shape || expanded(*x)) continue;
    return x->is_contiguous() ? y : y.as_strided(shape, x->dense_strides(), 0);
  }
  return y;
}

bool accepts(Domain domain, DType dtype) {
  switch (domain) {
    case Domain::floats:
      return is_floating(dtype);
    case Domain::numbers:
      return is_floating(dtype) || dtype == DType::int64;
    default:
      return dtype == DType::boolean;
  }
}

template <class... F>
constexpr std::array<Domain, sizeof...(F)> domains(OpList<F...>) {
  return {F::domain...};
}
template <class... F>
constexpr std::array<bool, sizeof...(F)> comparisons(OpList<F...>) {
  return {F::compares...};
}
constexpr auto kMapDomains = domains(MapOps{});
constexpr auto kZipDomains = domains(ZipOps{});
constexpr auto kZipCompares = comparisons(ZipOps{});

void check_domain(const char* op, Domain domain, DType dtype) {
  check_arithmetic(op, dtype);
  check(accepts(domain, dtype), "[", op, "] does not take ", dtype, ". Expected ",
        domain == Domain::floats    ? "a floating type"
        : domain == Domain::numbers ? "a floating type or int64"
                                    : "bool");
}

void check_zip(ZipOp op, const char* name, const Array& a, const Array& b) {
  check_same_device(name, {&a, &b});
  check(a.dtype() == b.dtype(), "[", name, "] operands are ", a.dtype(), " and ", b.dtype(),
        ". Convert one of them with to(dtype)");
  check_domain(name, kZipDomains[std::size_t(op)], a.dtype());
}

// x's shape with 1 in the dimensions that have to go to make `shape` of it.
Shape kept_sizes(const Array& x, const Shape& shape) {
  const int lead = x.dim() - shape.dim();
  Shape kept = x.shape();
  for (int i = 0; i < x.dim(); ++i) {
    if (i < lead || shape[i - lead] == 1) kept[i] = 1;
  }
  return kept;
}

}  // namespace

void check_arithmetic(const char* op, DType dtype) {
  check(!is_storage_only(dtype), "[", op, "] ", dtype,
        " is a storage type. Convert it first, for example with to(int64) or to(float32)");
}

void check_same_device(const char* op, std::initializer_list<const Array*> arrays) {
  const Array* first = nullptr;
  for (const Array* a : arrays) {
    if (a == nullptr || !a->defined()) continue;
    if (first == nullptr) first = a;
    check(a->device() == first->device(), "[", op, "] inputs are on two devices: ", first->device(),
          " and ", a->device(), ". Move one of them with to(device)");
  }
}

void check_writable(const char* op, const Array& a) {
  check(a.numel() == 0 || !expanded(a), "[", op,
        "] in place on an expanded tensor: elements share memory. clone() it first");
}

namespace {

// One past the last byte of an array that is not empty.
const std::byte* end_of(const Array& a) {
  std::int64_t last = 0;
  for (int i = 0; i < a.dim(); ++i) last += (a.size(i) - 1) * a.strides()[i];
  return a.data() + (last + 1) * std::int64_t(size_of(a.dtype()));
}

}  // namespace

Array unharmed(const Array& x, const Array& target) {
  if (x.numel() == 0 || x.device() != target.device()) return x;
  const bool apart = end_of(x) <= target.data() || end_of(target) <= x.data();
  const bool alike = x.data() == target.data() && x.strides() == target.strides();
  return apart || alike ? x : x.clone();
}

// ---- pointwise

Array map(MapOp op, const char* name, const Array& x, Scalars s) {
  check_domain(name, kMapDomains[std::size_t(op)], x.dtype());
  Array y = result_like(x.shape(), x.dtype(), {&x});
  backend(x.device()).map(op, s, x, y);
  return y;
}

Array map_grad(MapOp op, const char* name, const Array& saved, const Array& dy, Scalars s) {
  check_same_device(name, {&saved, &dy});
  Array dx = result_like(dy.shape(), dy.dtype(), {&saved, &dy});
  backend(dy.device()).map_grad(op, s, saved, dy, dx);
  return dx;
}

Array zip(ZipOp op, const char* name, const Array& a, const Array& b) {
  check_zip(op, name, a, b);
  const Shape shape = broadcast(name, a.shape(), b.shape());
  const bool compares = kZipCompares[std::size_t(op)];
  Array y = result_like(shape, compares ? DType::boolean : a.dtype(), {&a, &b});
  backend(a.device()).zip(op, a.expand(shape), b.expand(shape), y);
  return y;
}

Array zip_grad(ZipOp op, const char* name, int operand, const Array& a, const Array& b,
               const Array& dy) {
  check_same_device(name, {&a, &b, &dy});
  auto expanded = [&](const Array& x) { return x.defined() ? x.expand(dy.shape()) : x; };
  const Array &own = operand == 0 ? a : b, &other = operand == 0 ? b : a;
  Array dx = result_like(dy.shape(), dy.dtype(), {&own, &other, &dy});
  backend(dy.device()).zip_grad(op, operand, expanded(a), expanded(b), dy, dx);
  return dx;
}

void relu_(Array& x) {
  check_writable("relu_", x);
  backend(x.device()).map(map_op<Relu>, {}, x, x);
  x.storage()->raise_version();
}

void zip_(ZipOp op, const char* name, Array& a, const Array& b) {
  check_zip(op, name, a, b);
  check_writable(name, a);
  check(broadcast(name, a.shape(), b.shape()) == a.shape(), "[", name, "] in place, ", b.shape(),
        " does not fit into ", a.shape());
  backend(a.device()).zip(op, a, unharmed(b.expand(a.shape()), a), a);
  a.storage()->raise_version();
}

Array where(const Array& condition, const Array& a, const Array& b) {
  check_same_device("where", {&condition, &a, &b});
  check(condition.dtype() == DType::boolean, "[where] the condition is ", condition.dtype(),
        ". Expected bool");
  check(a.dtype() == b.dtype(), "[where] operands are ", a.dtype(), " and ", b.dtype());
  const Shape shape =
      broadcast("where", condition.shape(), broadcast("where", a.shape(), b.shape()));
  Array y = result_like(shape, a.dtype(), {&a, &b, &condition});
  backend(y.device()).where(condition.expand(shape), a.expand(shape), b.expand(shape), y);
  return y;
}

// ---- reductions

Array reduce(ReduceOp op, const char* name, const Array& x, const std::vector<int>& dims,
             bool keepdim) {
  check_domain(name, Domain::numbers, x.dtype());
  std::array<bool, kMaxDims> reduced{};
  for (int d : dims) {
    const int i = wrap_dim(name, d, x.dim());
    check(!reduced[std::size_t(i)], "[", name, "] dimension ", d, " is named twice");
    reduced[std::size_t(i)] = true;
  }
  if (dims.empty()) reduced.fill(true);
  Shape kept = x.shape(), result;
  for (int i = 0; i < x.dim(); ++i) {
    if (reduced[std::size_t(i)]) {
      kept[i] = 1;
    }
    if (!reduced[std::size_t(i)] || keepdim) result.push_back(kept[i]);
  }
  const bool extremum = op == reduce_op<MaxRule> || op == reduce_op<MinRule>;
  check(!extremum || x.numel() > 0 || kept.numel() == 0, "[", name,
        "] nothing to choose from: the shape is ", x.shape());
  Array y = Array::empty(kept, x.dtype(), x.device());
  backend(x.device()).reduce(op, x, y);
  return y.view_or_undefined(result);
}

Array arg_reduce(bool largest, const Array& x, int dim, bool keepdim) {
  const char* name = largest ? "argmax" : "argmin";
  check_domain(name, Domain::numbers, x.dtype());
  if (x.dim() == 0) return arg_reduce(largest, x.unsqueeze(0), 0, false);
  dim = wrap_dim(name, dim, x.dim());
  Shape kept = x.shape();
  kept[dim] = 1;
  check(x.size(dim) > 0 || kept.numel() == 0, "[", name, "] nothing to choose from: the shape is ",
        x.shape());
  Array y = Array::empty(kept, DType::int64, x.device());
  backend(x.device()).arg_reduce(largest, x, dim, y);
  return keepdim ? y : y.squeeze(dim);
}

Array sum_to(const Array& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  Array y = Array::empty(kept_sizes(x, shape), x.dtype(), x.device());
  backend(x.device()).reduce(reduce_op<SumRule>, x, y);
  return y.view_or_undefined(shape);
}

std::pair<Array, Array> bias_gradients(const Array& y, const Array& dy, const Shape& shape,
                                       bool wanted) {
  if (!y.defined()) return {dy, wanted ? sum_to(dy, shape) : Array()};
  if (!wanted) return {map_grad<Relu>(y, dy), Array()};
  check_same_device("relu", {&y, &dy});
  Array dz = result_like(dy.shape(), dy.dtype(), {&y, &dy});
  Array sums = Array::empty(kept_sizes(dy, shape), dy.dtype(), dy.device());
  backend(dy.device()).relu_grad_sums(y, dy, dz, sums);
  return {dz, sums.view_or_undefined(shape)};
}

// ---- matrices, rows

namespace {
struct GemmShapes {
  Array a, b;
  Shape c;

  std::int64_t flops() const { return 2 * c.numel() * a.size(2); }
};

GemmShapes prepare_gemm(const Array& a, const Array& b) {
  check_same_device("matmul", {&a, &b});
  check(a.dtype() == b.dtype(), "[matmul] operands are ", a.dtype(), " and ", b.dtype(),
        ". Convert one of them with to(dtype)");
  check_domain("matmul", Domain::numbers, a.dtype());
  const bool batched = a.dim() == 3;
  check(a.dim() == b.dim() && (a.dim() == 2 || batched) && (!batched || a.size(0) == b.size(0)),
        "[matmul] shapes do not fit: ", a.shape(), " and ", b.shape());
  const int d = batched ? 1 : 0;
  check(a.size(d + 1) == b.size(d), "[matmul] inner sizes differ: ", a.shape(), " and ", b.shape());
  Shape c = a.shape();
  c[d + 1] = b.size(d + 1);
  return {batched ? a : a.unsqueeze(0), batched ? b : b.unsqueeze(0), c};
}
}  // namespace

Array gemm(const Array& a, const Array& b) {
  const GemmShapes s = prepare_gemm(a, b);
  Array c = Array::empty(s.c, a.dtype(), a.device());
  Array c3 = c.dim() == 3 ? c : c.unsqueeze(0);
  trace::count_flops(s.flops());
  backend(a.device()).gemm(s.a, s.b, c3, false);
  return c;
}

void gemm_accumulate(const Array& a, const Array& b, Array& c) {
  const GemmShapes s = prepare_gemm(a, b);
  check(c.shape() == s.c && c.is_contiguous() && c.dtype() == a.dtype(),
        "[matmul] cannot add a result of shape ", s.c, " to ", c.shape());
  Array c3 = c.dim() == 3 ? c : c.unsqueeze(0);
  trace::count_flops(s.flops());
  backend(a.device()).gemm(s.a, s.b, c3, true);
  c.storage()->raise_version();
}

Array softmax(bool log, const Array& x, int dim) {
  const char* name = log ? "log_softmax" : "softmax";
  check_domain(name, Domain::floats, x.dtype());
  if (x.dim() == 0) return softmax(log, x.unsqueeze(0), 0).squeeze(0);
  const int d = wrap_dim(name, dim, x.dim()), last = x.dim() - 1;
  const Array moved = x.transpose(d, last);
  Array y = Array::empty(moved.shape(), x.dtype(), x.device());
  backend(x.device()).softmax(log, moved, y);
  return y.transpose(d, last);
}

Array softmax_grad(bool log, const Array& y, const Array& dy, int dim) {
  if (y.dim() == 0) return softmax_grad(log, y.unsqueeze(0), dy.unsqueeze(0), 0).squeeze(0);
  const int d = wrap_dim("softmax", dim, y.dim()), last = y.dim() - 1;
  const Array moved = y.transpose(d, last);
  Array dx = Array::empty(moved.shape(), y.dtype(), y.device());
  backend(y.device()).softmax_grad(log, moved, dy.transpose(d, last), dx);
  return dx.transpose(d, last);
}

Array dropout(const DropoutKey& key, const Array& x) {
  check_domain("dropout", Domain::floats, x.dtype());
  const MemoryFormat format = nearest_format(x);
  Array y = Array::empty(x.shape(), x.dtype(), x.device(), format);
  backend(x.device()).dropout(key, x.to(format), y);
  return y;
}

}  // namespace tandem
