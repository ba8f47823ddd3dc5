#include <tandem/core/rescale.h>

#include <cmath>
#include <map>
#include <utility>

#include <tandem/core/array_ops.h>

namespace tandem {
namespace {

// The arrays of one device and type: one call of the backend.
struct Batch {
  std::vector<std::size_t> at;  // positions in xs
  std::vector<Array> dense;     // the xs themselves, or copies of those with gaps
  Array found;
};
using Batches = std::map<std::pair<Device, DType>, Batch>;

DType wide(DType dtype) {
  return promote(dtype, DType::float32);
}

// norm = max |x| sqrt(sum (x / max |x|)^2): for squares that do not fit into float32. REQUIRES: all
// finite.
double careful_norm(const Array& x) {
  const Array values = map<Abs>(x.to(wide(x.dtype())));
  const double largest = reduce<MaxRule>(values).item();
  if (largest == 0) return 0;
  const Array shares = map<WithRight<Div>>(values, {largest});
  return largest * std::sqrt(reduce<SumOfSquaresRule>(shares).item());
}

double norm_of(const Array& x, double squares) {
  constexpr double kLost = 1e-30;  // below it, squares of float32 numbers may have vanished
  const bool infinite = std::isinf(squares);
  if (x.numel() == 0 || (!infinite && !(squares < kLost))) return std::sqrt(squares);
  if (infinite && !std::isfinite(reduce<MaxRule>(map<Abs>(x.to(wide(x.dtype())))).item())) {
    return squares;
  }
  return careful_norm(x);
}

Batches batches_of(std::span<Array> xs, double factor) {
  Batches batches;
  for (std::size_t i = 0; i < xs.size(); ++i) {
    check(is_floating(xs[i].dtype()), "[rescale] array ", i, " is ", xs[i].dtype(),
          ". Expected a floating type");
    if (factor != 1) check_writable("rescale", xs[i]);
    Batch& batch = batches[{xs[i].device(), xs[i].dtype()}];
    batch.at.push_back(i);
    batch.dense.push_back(xs[i].is_dense() ? xs[i] : xs[i].contiguous());
  }
  return batches;
}

}  // namespace

std::vector<Measure> rescale_(std::span<Array> xs, double factor) {
  const CategoryScope scope(Category::workspace);
  Batches batches = batches_of(xs, factor);
  for (auto& [key, batch] : batches) {  // every device has its work before any is waited for
    const auto [device, dtype] = key;
    batch.found = Array::empty({std::int64_t(batch.at.size()), 2}, wide(dtype), device);
    backend(device).rescale(factor, batch.dense, batch.found);
    for (std::size_t k = 0; factor != 1 && k < batch.at.size(); ++k) {
      Array& x = xs[batch.at[k]];
      if (x.same_as(batch.dense[k])) {
        x.storage()->raise_version();
      } else {
        copy(x, batch.dense[k]);
      }
    }
  }
  std::vector<Measure> measures(xs.size());
  for (auto& [key, batch] : batches) {
    const std::vector<double> found = batch.found.to(DType::float64).to_vector<double>();
    for (std::size_t k = 0; k < batch.at.size(); ++k) {
      const bool finite = found[2 * k + 1] == 0;
      measures[batch.at[k]] = {norm_of(batch.dense[k], found[2 * k]), finite};
    }
  }
  return measures;
}

}  // namespace tandem
