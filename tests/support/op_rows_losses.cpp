// Rows of the losses (nn/loss.h).
#include <algorithm>
#include <cmath>

#include "tests/support/op_table.h"

#include <tandem/core/ops/factories.h>
#include <tandem/nn/loss.h>

namespace tandem::test {
namespace {

using nn::Reduction;
using Tensors = std::vector<Tensor>;
using Arrays = std::vector<Dense>;

const Domain kAll{-2, 2};
const Domain kClass{0, 4, {}, false, int64};
const std::vector<double> kWeight{0.5, 2, 1.25, 0.25};

// Every loss of a row runs with each of these.
constexpr Reduction kReductions[] = {Reduction::mean, Reduction::sum, Reduction::none};

double total(const Dense& x) {
  double sum = 0;
  for (const double v : x.values) sum += v;
  return sum;
}

// The three reductions; the mean divides by `weight`.
Arrays reductions(const Dense& losses, double weight) {
  const double sum = total(losses);
  return {{{}, {sum / weight}}, {{}, {sum}}, losses};
}

struct Options {
  bool weighted = false;
  std::int64_t ignore = -100;
  double smoothing = 0;
  bool softmax = true;
};

// The position of class c of row r in an input of this shape.
Index at_class(Index row, std::int64_t c, int inputs) {
  row.insert(row.begin() + (inputs == 1 ? 0 : 1), c);
  return row;
}

Arrays class_losses(const Dense& x, const Dense& target, const Options& o) {
  const int dims = x.shape.dim(), dim = dims == 1 ? 0 : 1;
  const Dense lp = o.softmax ? softmax_along(x, dim, true) : x;
  const std::int64_t classes = x.shape[dim];
  const auto w = [&](std::int64_t c) { return o.weighted ? kWeight[std::size_t(c)] : 1.0; };
  double weight = 0;
  const Dense losses = dense(target.shape, [&](const Index& row) {
    const auto y = std::int64_t(target.at(row));
    if (y == o.ignore) return 0.0;
    weight += w(y);
    double loss = -(1 - o.smoothing) * w(y) * lp.at(at_class(row, y, dims));
    for (std::int64_t c = 0; c < classes; ++c) {
      loss -= o.smoothing / double(classes) * w(c) * lp.at(at_class(row, c, dims));
    }
    return loss;
  });
  return reductions(losses, weight);
}

Arrays probability_losses(const Dense& x, const Dense& q, double smoothing) {
  const int dim = x.shape.dim() == 1 ? 0 : 1;
  const Dense lp = softmax_along(x, dim, true);
  const double even = smoothing / double(x.shape[dim]);
  const Dense terms =
      pointwise(lp, q, [&](double l, double p) { return -l * (p * (1 - smoothing) + even); });
  const Dense losses = fold(terms, {dim}, false, [](const std::vector<double>& v) {
    double sum = 0;
    for (const double t : v) sum += t;
    return sum;
  });
  return reductions(losses, double(losses.values.size()));
}

OpRow class_row(std::string name, const Options& o) {
  OpRow row;
  row.name = std::move(name);
  row.inputs = {kAll, kClass};
  row.shapes = {
      {{7, 4}, {7}}, {{2, 4, 3}, {2, 3}}, {{2, 4, 2, 3}, {2, 2, 3}}, {{4}, {}}, {{90, 4}, {90}}};
  row.empty = {{{0, 4}, {0}}, {{0, 4, 2}, {0, 2}}, {{3, 4, 0}, {3, 0}}};
  row.op = [o](const Tensors& x) {
    Tensors losses;
    const Tensor w = o.weighted ? tensor_of(kWeight, {4}, x[0].dtype(), x[0].device()) : Tensor();
    for (const Reduction r : kReductions) {
      losses.push_back(o.softmax ? nn::cross_entropy(x[0], x[1], {w, o.ignore, r, o.smoothing})
                                 : nn::nll_loss(x[0], x[1], {w, o.ignore, r}));
    }
    return losses;
  };
  row.reference = [o](const Arrays& x) { return class_losses(x[0], x[1], o); };
  // The logarithm of probabilities is stored in the type of the input.
  row.half_roundings = 3;
  row.tolerance = {2e-6, 2e-6};
  return row;
}

OpRow pair_row(std::string name, Domain input, Domain target,
               std::function<Tensor(const Tensor&, const Tensor&, Reduction)> op,
               std::function<double(double, double)> f) {
  OpRow row;
  row.name = std::move(name);
  row.inputs = {std::move(input), std::move(target)};
  row.shapes = {{{5, 7}, {5, 7}}, {{}, {}}, {{1}, {1}}, {{2, 3, 4}, {2, 3, 4}}, {{1037}, {1037}}};
  row.empty = {{{0}, {0}}, {{3, 0}, {3, 0}}};
  row.op = [op](const Tensors& x) {
    Tensors losses;
    for (const Reduction r : kReductions) losses.push_back(op(x[0], x[1], r));
    return losses;
  };
  row.reference = [f](const Arrays& x) {
    const Dense losses = pointwise(x[0], x[1], f);
    return reductions(losses, double(losses.values.size()));
  };
  row.half_roundings = 4;
  row.tolerance = {2e-6, 2e-6};
  return row;
}

double log_sigmoid(double x) {
  return x < 0 ? x - std::log1p(std::exp(x)) : -std::log1p(std::exp(-x));
}

}  // namespace

void add_loss_rows(std::vector<OpRow>& rows) {
  rows.push_back(class_row("cross_entropy", {}));
  rows.push_back(class_row("cross_entropy (weights)", {.weighted = true}));
  rows.push_back(class_row("cross_entropy (a class ignored)", {.ignore = 2}));
  rows.push_back(class_row("cross_entropy (smoothing)", {.smoothing = 0.2}));
  rows.push_back(
      class_row("cross_entropy (all options)", {.weighted = true, .ignore = 2, .smoothing = 0.2}));
  rows.push_back(class_row("nll_loss", {.softmax = false}));
  rows.push_back(
      class_row("nll_loss (all options)", {.weighted = true, .ignore = 2, .softmax = false}));

  OpRow soft = class_row("cross_entropy (probabilities)", {});
  soft.inputs = {kAll, {0, 1}};
  for (Shapes& shapes : soft.shapes) shapes[1] = shapes[0];
  for (Shapes& shapes : soft.empty) shapes[1] = shapes[0];
  soft.op = [](const Tensors& x) {
    Tensors losses;
    for (const Reduction r : kReductions) {
      losses.push_back(nn::cross_entropy(x[0], x[1], {.reduction = r, .label_smoothing = 0.25}));
    }
    return losses;
  };
  soft.reference = [](const Arrays& x) { return probability_losses(x[0], x[1], 0.25); };
  soft.half_roundings = 8;  // one for each of the ops it is made of
  rows.push_back(soft);

  rows.push_back(pair_row(
      "bce_with_logits", {-3, 3}, {0, 1},
      [](const Tensor& x, const Tensor& t, Reduction r) {
        return nn::bce_with_logits(x, t, {.reduction = r});
      },
      [](double x, double t) { return -(t * log_sigmoid(x) + (1 - t) * log_sigmoid(-x)); }));
  rows.push_back(pair_row(
      "bce_with_logits (weights)", {-3, 3}, {0, 1},
      [](const Tensor& x, const Tensor& t, Reduction r) {
        const TensorOptions like{x.dtype(), x.device()};
        return nn::bce_with_logits(x, t, {tensor(0.75, like), r, tensor(2.5, like)});
      },
      [](double x, double t) {
        return -0.75 * (2.5 * t * log_sigmoid(x) + (1 - t) * log_sigmoid(-x));
      }));
  // Apart by more than a step of the finite differences, where |x - t| has no derivative.
  rows.push_back(pair_row(
      "l1_loss", {-2, 2, {0}}, {-0.04, 0.04},
      [](const Tensor& x, const Tensor& t, Reduction r) { return nn::l1_loss(x, t, {r}); },
      [](double x, double t) { return std::fabs(x - t); }));
  rows.push_back(pair_row(
      "mse_loss", kAll, kAll,
      [](const Tensor& x, const Tensor& t, Reduction r) { return nn::mse_loss(x, t, {r}); },
      [](double x, double t) { return (x - t) * (x - t); }));
}

}  // namespace tandem::test
