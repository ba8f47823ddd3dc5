// Rows of the ops with an index, and of attention (core/ops/indexing.h, attention.h).
#include <cmath>

#include "tests/support/op_table.h"

#include <tandem/core/ops/attention.h>
#include <tandem/core/ops/indexing.h>

namespace tandem::test {
namespace {

using Tensors = std::vector<Tensor>;
using Arrays = std::vector<Dense>;

const Domain kAll{-2, 2};
const Domain kInt{-9, 9, {}, false, int64};
const Domain kIndex{0, 3, {}, false, int64};  // so sizes that are picked from are 3 or more

OpRow index_row(std::string name, std::vector<Shapes> shapes, std::vector<Shapes> empty,
                std::function<Tensor(const Tensor&, const Tensor&)> op,
                std::function<Dense(const Dense&, const Dense&)> reference) {
  OpRow row;
  row.name = std::move(name);
  row.inputs = {kAll, kIndex};
  row.shapes = std::move(shapes);
  row.empty = std::move(empty);
  row.op = [op](const Tensors& x) { return Tensors{op(x[0], x[1])}; };
  row.reference = [reference](const Arrays& x) { return Arrays{reference(x[0], x[1])}; };
  row.tolerance = {0, 0};  // values are copied
  return row;
}

OpRow of_integers(OpRow row) {
  row.name += " (int64)";
  row.inputs[0] = kInt;
  row.result = int64;
  row.gradient = row.half = false;
  return row;
}

void add_index_select(std::vector<OpRow>& rows) {
  struct Case {
    int dim;
    std::vector<Shapes> shapes, empty;
  };
  const Case cases[] = {
      {0,
       {{{3, 5}, {4}}, {{4, 3, 2}, {6}}, {{3}, {1}}, {{3, 2}, {}}, {{3, 70}, {90}}},
       {{{3, 5}, {0}}, {{3, 0}, {2}}}},
      {1,
       {{{2, 3, 4}, {5}}, {{5, 3}, {7}}, {{2, 4, 1}, {2}}, {{1, 3, 1, 2}, {4}}},
       {{{2, 3, 4}, {0}}, {{0, 3}, {2}}}},
      {-1, {{{2, 3}, {5}}, {{3}, {7}}, {{2, 3, 4}, {2}}}, {{{2, 3}, {0}}}},
  };
  for (const Case& c : cases) {
    const OpRow row = index_row(
        str("index_select (dim ", c.dim, ")"), c.shapes, c.empty,
        [dim = c.dim](const Tensor& x, const Tensor& i) { return index_select(x, dim, i); },
        [dim = c.dim](const Dense& x, const Dense& index) {
          const int d = dim < 0 ? dim + x.shape.dim() : dim;
          Shape shape = x.shape;
          shape[d] = std::int64_t(index.values.size());
          return dense(shape, [&](Index at) {
            auto& i = at[std::size_t(d)];
            i = std::int64_t(index.values[std::size_t(i)]);
            return x.at(at);
          });
        });
    rows.push_back(row);
    if (c.dim == 1) rows.push_back(of_integers(row));
  }
}

void add_gather(std::vector<OpRow>& rows) {
  struct Case {
    int dim;
    std::vector<Shapes> shapes, empty;
  };
  const Case cases[] = {
      {0,
       {{{3, 5}, {4, 5}}, {{3}, {5}}, {{3, 4, 2}, {2, 4, 1}}, {{3, 40}, {30, 33}}},
       {{{3, 5}, {0, 5}}, {{3, 0}, {2, 0}}, {{3, 5}, {4, 0}}}},
      {1,
       {{{2, 3, 4}, {2, 5, 4}}, {{5, 3}, {4, 2}}, {{2, 4, 1}, {1, 1, 1}}},
       {{{2, 3, 4}, {2, 0, 4}}}},
      {-1, {{{4, 3}, {4, 1}}, {{3}, {4}}, {{2, 2, 3}, {2, 1, 5}}}, {{{2, 3}, {0, 2}}}},
  };
  for (const Case& c : cases) {
    const OpRow row = index_row(
        str("gather (dim ", c.dim, ")"), c.shapes, c.empty,
        [dim = c.dim](const Tensor& x, const Tensor& i) { return gather(x, dim, i); },
        [dim = c.dim](const Dense& x, const Dense& index) {
          const int d = dim < 0 ? dim + x.shape.dim() : dim;
          return dense(index.shape, [&](Index at) {
            at[std::size_t(d)] = std::int64_t(index.at(at));
            return x.at(at);
          });
        });
    rows.push_back(row);
    if (c.dim == 1) rows.push_back(of_integers(row));
  }
}

void add_embedding(std::vector<OpRow>& rows) {
  rows.push_back(index_row(
      "embedding",
      {{{4, 5}, {3}}, {{3, 2}, {2, 3}}, {{4, 1}, {}}, {{3, 33}, {40}}, {{5, 3}, {2, 2, 2}}},
      {{{3, 5}, {0}}, {{3, 0}, {2}}, {{3, 5}, {2, 0}}},
      [](const Tensor& w, const Tensor& i) { return embedding(w, i); },
      [](const Dense& w, const Dense& index) {
        Shape shape = index.shape;
        shape.push_back(w.shape[1]);
        return dense(shape, [&](const Index& at) {
          const Index row(at.begin(), at.end() - 1);
          return w.at({std::int64_t(index.at(row)), at.back()});
        });
      }));
}

Dense attention(const Arrays& in, bool causal) {
  const Dense &q = in[0], &k = in[1], &v = in[2];
  std::vector<int> order(std::size_t(k.shape.dim()));
  for (int d = 0; d < k.shape.dim(); ++d) order[std::size_t(d)] = d;
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  Dense scores = matrix_product(q, permuted(k, order));
  const double scale = 1 / std::sqrt(double(q.shape.back()));
  const Dense masked = dense(scores.shape, [&](const Index& at) {
    const bool hidden = causal && at[at.size() - 1] > at[at.size() - 2];
    return hidden ? -1e300 : scores.at(at) * scale;
  });
  return matrix_product(softmax_along(masked, masked.shape.dim() - 1, false), v);
}

void add_attention(std::vector<OpRow>& rows) {
  for (const bool causal : {false, true}) {
    OpRow row;
    row.name = causal ? "scaled_dot_product_attention (causal)" : "scaled_dot_product_attention";
    row.inputs = {kAll, kAll, kAll};
    row.shapes = {{{3, 4}, {5, 4}, {5, 6}},
                  {{2, 3, 4}, {2, 3, 4}, {2, 3, 4}},
                  {{2, 2, 3, 2}, {2, 2, 4, 2}, {2, 2, 4, 3}},
                  {{1, 1}, {1, 1}, {1, 1}},
                  {{33, 20}, {40, 20}, {40, 17}}};
    row.empty = {{{0, 4}, {5, 4}, {5, 6}}, {{0, 3, 4}, {0, 3, 4}, {0, 3, 4}}};
    row.op = [causal](const Tensors& x) {
      return Tensors{scaled_dot_product_attention(x[0], x[1], x[2], {.is_causal = causal})};
    };
    row.reference = [causal](const Arrays& x) { return Arrays{attention(x, causal)}; };
    row.half_roundings = 5;        // scaled, product, mask, softmax, product
    row.tolerance = {2e-6, 2e-6};  // of sums over 40 keys
    rows.push_back(row);
  }
}

}  // namespace

void add_indexing_rows(std::vector<OpRow>& rows) {
  add_index_select(rows);
  add_gather(rows);
  add_embedding(rows);
  add_attention(rows);
}

}  // namespace tandem::test
