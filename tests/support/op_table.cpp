// See op_table.h.
#include "tests/support/op_table.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace tandem::test {

const std::vector<OpRow>& op_table() {
  static const std::vector<OpRow> rows = [] {
    std::vector<OpRow> all;
    add_pointwise_rows(all);
    add_binary_rows(all);
    add_reduce_rows(all);
    add_linalg_rows(all);
    add_image_rows(all);
    add_norm_rows(all);
    add_view_rows(all);
    add_indexing_rows(all);
    add_loss_rows(all);
    return all;
  }();
  return rows;
}

namespace {

// 0 .. n-1 in an order that depends on the seed.
std::vector<std::size_t> shuffled(std::size_t n, std::uint64_t seed) {
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [seed](std::size_t a, std::size_t b) {
    return hash_uniform(seed, a) < hash_uniform(seed, b);
  });
  return order;
}

constexpr double kKinkDistance = 0.05;

double away_from(double x, const std::vector<double>& kinks) {
  for (double kink : kinks) {
    if (std::fabs(x - kink) < kKinkDistance) x += std::copysign(kKinkDistance, x - kink);
  }
  return x;
}

double fit(DType dtype, double x, const Domain& domain) {
  if (dtype == DType::boolean) return x < (domain.low + domain.high) / 2;
  if (dtype == DType::int64) return std::floor(x);
  return stored_as(dtype, x);
}

}  // namespace

Dense op_input(const Domain& domain, const Shape& shape, DType float_type, std::uint64_t seed) {
  const DType dtype = domain.dtype == float32 ? float_type : domain.dtype;
  Dense x{shape, random_doubles(shape.numel(), seed, domain.low, domain.high)};
  if (domain.distinct) {
    const std::vector<std::size_t> order = shuffled(x.values.size(), seed);
    const double step = (domain.high - domain.low) / double(x.values.size() + 1);
    for (std::size_t i = 0; i < order.size(); ++i) {
      x.values[i] = domain.low + step * (double(order[i]) + 0.5);
    }
  }
  for (double& v : x.values) v = fit(dtype, away_from(v, domain.kinks), domain);
  return x;
}

std::vector<Tensor> op_inputs(const OpRow& row, Device device, DType float_type) {
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < row.inputs.size(); ++i) {
    const Domain& domain = row.inputs[i];
    const Dense x = op_input(domain, row.shapes[0][i], float_type, i);
    inputs.push_back(
        tensor_of(x.values, x.shape, domain.dtype == float32 ? float_type : domain.dtype, device));
  }
  return inputs;
}

namespace {

OpRow with_options(OpRow row, const RowOptions& more) {
  row.result = more.result;
  row.gradient = more.gradient;
  row.special = more.special;
  row.half_roundings = more.half_roundings;
  row.tolerance = more.tolerance;
  return row;
}

bool runs_in_halves(const std::vector<Domain>& inputs) {
  return std::any_of(inputs.begin(), inputs.end(),
                     [](const Domain& d) { return d.dtype == float32; });
}

}  // namespace

OpRow unary(std::string name, Domain domain, std::function<Tensor(const Tensor&)> op,
            std::function<double(double)> f, RowOptions more) {
  OpRow row;
  row.name = std::move(name);
  row.half = runs_in_halves({domain});
  row.inputs = {std::move(domain)};
  row.shapes = {{{5, 7}}, {{}}, {{1}}, {{2, 1, 3, 1, 1, 2, 1, 2}}, {{1037}}};
  row.empty = {{{0}}, {{3, 0, 2}}};
  row.op = [op](const std::vector<Tensor>& x) { return std::vector<Tensor>{op(x[0])}; };
  row.reference = [f](const std::vector<Dense>& x) {
    return std::vector<Dense>{pointwise(x[0], f)};
  };
  return with_options(std::move(row), more);
}

OpRow binary(std::string name, Domain a, Domain b,
             std::function<Tensor(const Tensor&, const Tensor&)> op,
             std::function<double(double, double)> f, RowOptions more) {
  OpRow row;
  row.name = std::move(name);
  row.half = runs_in_halves({a, b});
  row.inputs = {std::move(a), std::move(b)};
  row.shapes = {{{5, 7}, {5, 7}}, {{5, 7}, {7}},
                {{5, 1}, {1, 7}}, {{}, {5, 7}},
                {{5, 7}, {}},     {{2, 1, 3}, {4, 1}},
                {{}, {}},         {{1, 1, 1}, {2}},
                {{1037}, {1037}}, {{3, 4, 1, 2}, {4, 5, 1}}};
  row.empty = {{{0}, {0}}, {{3, 0}, {1, 1}}, {{0, 4}, {4}}, {{}, {0}}};
  row.op = [op](const std::vector<Tensor>& x) { return std::vector<Tensor>{op(x[0], x[1])}; };
  row.reference = [f](const std::vector<Dense>& x) {
    return std::vector<Dense>{pointwise(x[0], x[1], f)};
  };
  return with_options(std::move(row), more);
}

OpRow from_one(std::string name, Domain domain, std::vector<Shape> shapes,
               std::function<std::vector<Tensor>(const Tensor&)> op,
               std::function<std::vector<Dense>(const Dense&)> reference,
               std::vector<Shape> empty) {
  OpRow row;
  row.name = std::move(name);
  row.half = runs_in_halves({domain});
  row.inputs = {std::move(domain)};
  for (const Shape& shape : shapes) row.shapes.push_back({shape});
  for (const Shape& shape : empty) row.empty.push_back({shape});
  row.op = [op](const std::vector<Tensor>& x) { return op(x[0]); };
  row.reference = [reference](const std::vector<Dense>& x) { return reference(x[0]); };
  return row;
}

}  // namespace tandem::test
