// summary: what a model is made of and costs, layer by layer in the order they run.
//
//   std::cout << nn::summary(model, {1, 1, 28, 28});
//
// Runs the model once on zeros, in eval mode and without gradients. Seen are calls of layers:
// layer(x) and what stands in a Sequential; what a forward() does by itself (matmul, reshape)
// counts to the module it belongs to. Next: inspect.h (how gradients stand).
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tandem/nn/module.h>
#include <tandem/nn/observer.h>

namespace tandem::nn {

struct SummaryOptions {
  std::optional<DType> dtype{};  // of the input; none: of the model's first parameter
};

/// One call of a layer, without the calls inside it.
struct SummaryRow {
  std::string name{};  // as visit() names it: "features.0"; empty for the model
  std::string type{};  // "Conv2d"
  int depth = 0;       // how many calls it is inside of
  Shape output{};
  std::int64_t parameters = 0;  // its own, each in the row where it occurs first
  bool counted_before = false;  // it has own parameters, all of them in rows above
  std::int64_t flops = 0;
};

/// FLOPs are those of matrix products and convolutions, a multiply-add counted as two.
struct Summary {
  Shape input{};
  std::vector<SummaryRow> rows{};
  std::int64_t trainable = 0;  // numbers in parameters, also of layers that did not run
  std::int64_t frozen = 0;
  std::int64_t flops = 0;
  std::int64_t parameter_bytes = 0;
  std::int64_t buffer_bytes = 0;
  std::int64_t output_bytes = 0;  // outputs of the calls that contain no others
};

/// The table.
std::ostream& operator<<(std::ostream& out, const Summary& summary);

/// The same for a forward that is not a member.
Summary summarize(Module& model, const Shape& input, const SummaryOptions& options,
                  const std::function<Tensor(const Tensor&)>& forward);

/// `input` is the shape of the only argument of forward(), batch dimension included; it is on the
/// device of the model's first parameter. Afterwards modes, buffers, settings and random numbers
/// are as before. A shape that does not fit is the error of the layer it does not fit.
template <class M>
requires std::derived_from<std::remove_cvref_t<M>, Module> Summary
summary(M&& model, const Shape& input, const SummaryOptions& options = {}) {
  return summarize(model, input, options, [&](const Tensor& x) { return call(model, x); });
}

}  // namespace tandem::nn
