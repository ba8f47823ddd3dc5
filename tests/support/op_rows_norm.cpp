// Rows of batch norm and layer norm (core/ops/norm.h).
#include <cmath>
#include <numeric>

#include "tests/support/op_table.h"

#include <tandem/core/ops/norm.h>

namespace tandem::test {
namespace {

using Tensors = std::vector<Tensor>;
using Arrays = std::vector<Dense>;
using Values = std::vector<double>;

const Domain kAll{-2, 2};

// Large beside the steps of finite differences, also where all values of a channel are equal.
constexpr double kEps = 0.1;

// x alpha + beta, each rounded: a few units of the last place of numbers up to 2 / sqrt(kEps).
const Tolerance kAffine{2e-6, 3e-6};

double mean_of(const Values& v) {
  return std::accumulate(v.begin(), v.end(), 0.0) / double(v.size());
}
double variance_of(const Values& v) {
  const double m = mean_of(v);
  double sum = 0;
  for (double x : v) sum += (x - m) * (x - m);
  return sum / double(v.size());
}

Dense standardized(const Dense& x, const Dense& mean, const Dense& variance) {
  const Dense centered = pointwise(x, mean, [](double a, double m) { return a - m; });
  return pointwise(centered, variance, [](double a, double v) { return a / std::sqrt(v + kEps); });
}

Dense affine(const Dense& x, const Dense& weight, const Dense& bias) {
  return pointwise(x, weight, bias, [](double a, double w, double b) { return a * w + b; });
}

// (C) as (C, 1, ...), which broadcasts to x (N, C, ...).
Dense by_channel(const Dense& p, const Dense& x) {
  Shape shape{p.shape[0]};
  for (int d = 2; d < x.shape.dim(); ++d) shape.push_back(1);
  return reshaped(p, shape);
}

Dense batch_normalized(const Dense& x) {
  std::vector<int> dims{0};
  for (int d = 2; d < x.shape.dim(); ++d) dims.push_back(d);
  return standardized(x, fold(x, dims, true, mean_of), fold(x, dims, true, variance_of));
}

Dense layer_normalized(const Dense& x, int count) {
  std::vector<int> dims;
  for (int d = x.shape.dim() - count; d < x.shape.dim(); ++d) dims.push_back(d);
  return standardized(x, fold(x, dims, true, mean_of), fold(x, dims, true, variance_of));
}

// Running statistics: the same few numbers for every run, exact in every type.
Values running_mean(std::int64_t channels) {
  Values v;
  for (std::int64_t c = 0; c < channels; ++c) v.push_back(0.25 * double(c % 5) - 0.5);
  return v;
}
Values running_var(std::int64_t channels) {
  Values v;
  for (std::int64_t c = 0; c < channels; ++c) v.push_back(0.5 + 0.25 * double(c % 4));
  return v;
}

const std::vector<Shapes> kBatches{{{6, 3}, {3}, {3}},       {{4, 3, 5}, {3}, {3}},
                                   {{2, 3, 2, 3}, {3}, {3}}, {{5, 1}, {1}, {1}},
                                   {{3, 130}, {130}, {130}}, {{2, 2, 150}, {2}, {2}},
                                   {{1, 2, 3}, {2}, {2}},    {{2, 1, 3, 1, 2}, {1}, {1}}};
const std::vector<Shapes> kEmptyBatches{
    {{0, 3}, {3}, {3}}, {{0, 3, 2, 2}, {3}, {3}}, {{2, 3, 0}, {3}, {3}}, {{2, 0}, {0}, {0}}};

std::vector<Shapes> first_of_each(std::vector<Shapes> shapes) {
  for (Shapes& s : shapes) s.resize(1);
  return shapes;
}

void add_training(std::vector<OpRow>& rows) {
  OpRow row;
  row.name = "batch_norm (training)";
  row.inputs = {kAll, kAll, kAll};
  row.shapes = kBatches;
  row.empty = kEmptyBatches;
  row.tolerance = kAffine;
  row.op = [](const Tensors& x) {
    return Tensors{batch_norm(x[0], {}, {}, x[1], x[2], {.training = true, .eps = kEps})};
  };
  row.reference = [](const Arrays& x) {
    return Arrays{affine(batch_normalized(x[0]), by_channel(x[1], x[0]), by_channel(x[2], x[0]))};
  };
  rows.push_back(row);

  row.name = "batch_norm (training, no affine)";
  row.inputs = {kAll};
  row.shapes = first_of_each(kBatches);
  row.empty = first_of_each(kEmptyBatches);
  row.op = [](const Tensors& x) {
    return Tensors{batch_norm(x[0], {}, {}, {}, {}, {.training = true, .eps = kEps})};
  };
  row.reference = [](const Arrays& x) { return Arrays{batch_normalized(x[0])}; };
  rows.push_back(row);
}

void add_evaluation(std::vector<OpRow>& rows) {
  OpRow row;
  row.name = "batch_norm (evaluation)";
  row.inputs = {kAll, kAll, kAll};
  row.shapes = kBatches;
  row.shapes.push_back({{1, 3}, {3}, {3}});  // one value per channel is enough here
  row.empty = kEmptyBatches;
  row.tolerance = kAffine;
  row.op = [](const Tensors& x) {
    const std::int64_t c = x[0].size(1);
    const DType dtype = x[0].dtype() == float64 ? float64 : float32;
    return Tensors{batch_norm(x[0], tensor_of(running_mean(c), {c}, dtype, x[0].device()),
                              tensor_of(running_var(c), {c}, dtype, x[0].device()), x[1], x[2],
                              {.eps = kEps})};
  };
  row.reference = [](const Arrays& x) {
    const std::int64_t c = x[0].shape[1];
    const Dense mean = by_channel({{c}, running_mean(c)}, x[0]);
    const Dense variance = by_channel({{c}, running_var(c)}, x[0]);
    return Arrays{
        affine(standardized(x[0], mean, variance), by_channel(x[1], x[0]), by_channel(x[2], x[0]))};
  };
  rows.push_back(row);
}

void add_layer_norm(std::vector<OpRow>& rows) {
  for (const int dims : {1, 2}) {
    OpRow row;
    row.name = dims == 1 ? "layer_norm" : "layer_norm (two dims)";
    row.inputs = {kAll, kAll, kAll};
    row.shapes = dims == 1 ? std::vector<Shapes>{{{4, 5}, {5}, {5}},  {{2, 3, 4}, {4}, {4}},
                                                 {{7}, {7}, {7}},     {{3, 1}, {1}, {1}},
                                                 {{1, 5}, {5}, {5}},  {{2, 150}, {150}, {150}},
                                                 {{130, 3}, {3}, {3}}}
                           : std::vector<Shapes>{{{4, 2, 3}, {2, 3}, {2, 3}},
                                                 {{2, 2, 1, 5}, {1, 5}, {1, 5}},
                                                 {{3, 4}, {3, 4}, {3, 4}}};
    row.empty = dims == 1 ? std::vector<Shapes>{{{0, 3}, {3}, {3}}, {{2, 0}, {0}, {0}}}
                          : std::vector<Shapes>{{{0, 2, 3}, {2, 3}, {2, 3}}};
    row.tolerance = kAffine;
    row.op = [](const Tensors& x) {
      return Tensors{layer_norm(x[0], x[1].shape(), x[1], x[2], kEps)};
    };
    row.reference = [](const Arrays& x) {
      return Arrays{affine(layer_normalized(x[0], x[1].shape.dim()), x[1], x[2])};
    };
    rows.push_back(row);
  }
  OpRow plain = from_one(
      "layer_norm (no affine)", kAll, {{4, 5}, {2, 3, 4}},
      [](const Tensor& x) {
        return Tensors{layer_norm(x, {x.size(-1)}, {}, {}, kEps),
                       layer_norm(x, x.shape(), {}, {}, kEps)};
      },
      [](const Dense& x) {
        return Arrays{layer_normalized(x, 1), layer_normalized(x, x.shape.dim())};
      },
      {{0, 3}});
  plain.tolerance = kAffine;
  rows.push_back(plain);
}

}  // namespace

void add_norm_rows(std::vector<OpRow>& rows) {
  add_training(rows);
  add_evaluation(rows);
  add_layer_norm(rows);
}

}  // namespace tandem::test
