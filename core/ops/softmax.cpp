#include <tandem/core/ops/softmax.h>

#include <tandem/core/array_ops.h>
#include <tandem/core/autocast.h>
#include <tandem/core/ops/operands.h>

namespace tandem {
namespace {

// softmax:     dx = y (dy - sum(dy y))
// log_softmax: dx = dy - exp(y) sum(dy)
Tensor normalize(bool log, const char* name, const Tensor& x, int dim) {
  if (const Recast to = recast(CastGroup::full, {x})) return normalize(log, name, to(x), dim);
  const Array& a = operand(name, x, "x");
  if (!is_floating(a.dtype())) return normalize(log, name, to_real(name, x), dim);
  dim = wrap_dim(name, dim, a.dim());
  Array y = softmax(log, a, dim);
  Saved saved = Saved::if_(tracked(x), y);
  return record(name, std::move(y), {x},
                [y = std::move(saved), log, dim](const Array& dy, const Wanted&) {
                  return softmax_grad(log, y.get(), dy, dim);
                });
}

}  // namespace

Tensor softmax(const Tensor& x, int dim) {
  return normalize(false, "softmax", x, dim);
}

Tensor log_softmax(const Tensor& x, int dim) {
  return normalize(true, "log_softmax", x, dim);
}

}  // namespace tandem
