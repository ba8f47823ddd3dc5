#include <tandem/core/ops/dropout.h>

#include <tandem/core/array_ops.h>
#include <tandem/core/ops/operands.h>
#include <tandem/core/random.h>

namespace tandem {
namespace {

Array apply(const DropoutKey& key, const Array& x) {
  return x.dim() > 0 ? dropout(key, x) : dropout(key, x.unsqueeze(0)).squeeze(0);
}

}  // namespace

// The mask is a function of the key: backward computes it again and nothing is saved.
Tensor dropout(const Tensor& x, double p, bool training) {
  const Array& a = operand("dropout", x, "x");
  check(p >= 0 && p <= 1, "[dropout] p is a probability: ", p, ". Expected 0 to 1");
  if (!training || p == 0) return x;
  check(is_floating(a.dtype()), "[dropout] needs a floating type: ", a.dtype(),
        ". Convert it first with to(float32)");
  const DropoutKey key = next_dropout_key(a.dim() > 0 ? a.size(0) : 1, p);
  return record(
      "dropout", apply(key, a), {x},
      [key](const Array& dy, const Wanted&) { return apply(key, dy); }, Keeps::nothing);
}

}  // namespace tandem
