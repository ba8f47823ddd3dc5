// Rows of views, joins and copies (core/ops/views.h; to, contiguous, clone, detach of Tensor).
#include <cmath>

#include "tests/support/op_table.h"

#include <tandem/core/ops/views.h>

namespace tandem::test {
namespace {

using T = const Tensor&;
using Tensors = std::vector<Tensor>;
using Arrays = std::vector<Dense>;

const Domain kAll{-2, 2};

void add_orders(std::vector<OpRow>& rows) {
  rows.push_back(from_one(
      "transpose", kAll, {{5, 7}, {2, 3, 4}, {1, 5, 2, 3}},
      [](T x) {
        return Tensors{transpose(x, 0, 1), x.transpose(-1, 0), transpose(x, 1, 1)};
      },
      [](const Dense& x) {
        std::vector<int> first_two, ends;
        for (int d = 0; d < x.shape.dim(); ++d) first_two.push_back(d), ends.push_back(d);
        std::swap(first_two[0], first_two[1]);
        std::swap(ends.front(), ends.back());
        return Arrays{permuted(x, first_two), permuted(x, ends), x};
      },
      {{0, 3}, {2, 0, 1}}));
  rows.push_back(from_one(
      "t", kAll, {{5, 7}, {1, 3}}, [](T x) { return Tensors{x.t()}; },
      [](const Dense& x) {
        return Arrays{permuted(x, {1, 0})};
      },
      {{0, 3}}));
  rows.push_back(from_one(
      "permute", kAll, {{2, 3, 4}, {1, 5, 1}},
      [](T x) {
        return Tensors{permute(x, {2, 0, 1}), x.permute({0, -1, 1}), permute(x, {0, 1, 2})};
      },
      [](const Dense& x) {
        return Arrays{permuted(x, {2, 0, 1}), permuted(x, {0, 2, 1}), x};
      },
      {{2, 0, 3}}));
}

void add_shapes(std::vector<OpRow>& rows) {
  OpRow view_row = from_one(
      "view", kAll, {{4, 6}, {2, 3, 4}},
      [](T x) {
        return Tensors{view(x, {24}), x.view({2, -1, 2}), view(x, {3, 8, 1})};
      },
      [](const Dense& x) {
        return Arrays{reshaped(x, {24}), reshaped(x, {2, 6, 2}), reshaped(x, {3, 8, 1})};
      });
  view_row.layouts = false;  // refuses strides that do not allow it
  rows.push_back(view_row);
  rows.push_back(from_one(
      "reshape", kAll, {{4, 6}, {2, 3, 4}, {1, 24}},
      [](T x) {
        return Tensors{reshape(x, {24}), x.reshape({2, -1, 2}), reshape(x, {3, 8, 1})};
      },
      [](const Dense& x) {
        return Arrays{reshaped(x, {24}), reshaped(x, {2, 6, 2}), reshaped(x, {3, 8, 1})};
      }));
  rows.push_back(from_one(
      "reshape (one element)", kAll, {{}, {1}, {1, 1}},
      [](T x) {
        return Tensors{reshape(x, {1}), reshape(x, {}), reshape(x, {-1, 1})};
      },
      [](const Dense& x) {
        return Arrays{reshaped(x, {1}), reshaped(x, {}), reshaped(x, {1, 1})};
      }));
  rows.push_back(from_one(
      "flatten", kAll, {{2, 3, 4}, {2, 1, 3, 2}},
      [](T x) {
        return Tensors{flatten(x), x.flatten(1), flatten(x, 0, 1), flatten(x, -2, -1)};
      },
      [](const Dense& x) {
        const Shape& s = x.shape;
        Shape from_one{s[0], x.shape.numel() / s[0]}, first{s[0] * s[1]}, last;
        for (int d = 2; d < s.dim(); ++d) first.push_back(s[d]);
        for (int d = 0; d < s.dim() - 2; ++d) last.push_back(s[d]);
        last.push_back(s[s.dim() - 2] * s.back());
        return Arrays{reshaped(x, {s.numel()}), reshaped(x, from_one), reshaped(x, first),
                      reshaped(x, last)};
      }));
  rows.push_back(from_one(
      "flatten (no dims)", kAll, {{}, {1}}, [](T x) { return Tensors{flatten(x)}; },
      [](const Dense& x) { return Arrays{reshaped(x, {1})}; }));
  rows.push_back(from_one(
      "squeeze", kAll, {{1, 3, 1, 4}, {1, 3, 1, 1}},
      [](T x) {
        return Tensors{squeeze(x), x.squeeze(0), squeeze(x, -2), squeeze(x, 1)};
      },
      [](const Dense& x) {
        const std::int64_t n = x.shape.back();
        return Arrays{reshaped(x, n == 1 ? Shape{3} : Shape{3, n}), reshaped(x, {3, 1, n}),
                      reshaped(x, {1, 3, n}), x};
      }));
  rows.push_back(from_one(
      "unsqueeze", kAll, {{5, 7}, {1, 3}},
      [](T x) {
        return Tensors{unsqueeze(x, 0), x.unsqueeze(1), unsqueeze(x, 2), unsqueeze(x, -1)};
      },
      [](const Dense& x) {
        const std::int64_t m = x.shape[0], n = x.shape[1];
        return Arrays{reshaped(x, {1, m, n}), reshaped(x, {m, 1, n}), reshaped(x, {m, n, 1}),
                      reshaped(x, {m, n, 1})};
      },
      {{0, 3}}));
  rows.push_back(from_one(
      "expand", kAll, {{3, 1}, {1, 1}},
      [](T x) {
        return Tensors{expand(x, {x.size(0), 4}), x.expand({-1, 2}), expand(x, {2, -1, 3})};
      },
      [](const Dense& x) {
        const std::int64_t m = x.shape[0];
        const auto to = [&](const Shape& shape) {
          return dense(shape, [&](const Index& i) { return x.at_broadcast(i); });
        };
        return Arrays{to({m, 4}), to({m, 2}), to({2, m, 3})};
      },
      {{0, 1}}));
}

void add_parts(std::vector<OpRow>& rows) {
  rows.push_back(from_one(
      "narrow", kAll, {{6, 5}, {7, 5, 2}},
      [](T x) {
        return Tensors{narrow(x, 0, 1, 3), x.narrow(1, 0, 5), narrow(x, -1, 1, 0)};
      },
      [](const Dense& x) {
        return Arrays{sliced(x, 0, 1, 3), x, sliced(x, x.shape.dim() - 1, 1, 0)};
      }));
  rows.push_back(from_one(
      "slice", kAll, {{6, 7}, {6, 7, 2}},
      [](T x) {
        return Tensors{slice(x, 0, 1, 6, 2), x.slice(1, -3, 100), slice(x, 1, 0, -1, 3),
                       slice(x, 0, 4, 2)};
      },
      [](const Dense& x) {
        return Arrays{sliced(x, 0, 1, 3, 2), sliced(x, 1, 4, 3), sliced(x, 1, 0, 2, 3),
                      sliced(x, 0, 4, 0)};
      }));
  rows.push_back(from_one(
      "select", kAll, {{5, 7}, {4, 3, 2}},
      [](T x) {
        return Tensors{select(x, 0, 2), x.select(1, -1), x[0], select(x, -1, 1)};
      },
      [](const Dense& x) {
        const auto drop = [](Dense part, int dim) {
          part.shape.erase(dim);
          return part;
        };
        const int last = x.shape.dim() - 1;
        return Arrays{drop(sliced(x, 0, 2, 1), 0), drop(sliced(x, 1, x.shape[1] - 1, 1), 1),
                      drop(sliced(x, 0, 0, 1), 0), drop(sliced(x, last, 1, 1), last)};
      }));
  rows.push_back(from_one(
      "split", kAll, {{7, 3}}, [](T x) { return split(x, 3); },
      [](const Dense& x) {
        return Arrays{sliced(x, 0, 0, 3), sliced(x, 0, 3, 3), sliced(x, 0, 6, 1)};
      }));
  rows.push_back(from_one(
      "split (sizes)", kAll, {{2, 7}},
      [](T x) {
        return split(x, std::vector<std::int64_t>{4, 0, 3}, -1);
      },
      [](const Dense& x) {
        return Arrays{sliced(x, 1, 0, 4), sliced(x, 1, 4, 0), sliced(x, 1, 4, 3)};
      }));
  rows.push_back(from_one(
      "chunk", kAll, {{7, 3}}, [](T x) { return x.chunk(3); },
      [](const Dense& x) {
        return Arrays{sliced(x, 0, 0, 3), sliced(x, 0, 3, 3), sliced(x, 0, 6, 1)};
      }));
}

OpRow joining(std::string name, std::vector<Shapes> shapes, std::vector<Shapes> empty,
              Tensor (*op)(const Tensors&), Dense (*reference)(const Arrays&)) {
  OpRow row;
  row.name = std::move(name);
  row.inputs.assign(shapes[0].size(), kAll);
  row.shapes = std::move(shapes);
  row.empty = std::move(empty);
  row.op = [op](const Tensors& x) { return Tensors{op(x)}; };
  row.reference = [reference](const Arrays& x) { return Arrays{reference(x)}; };
  return row;
}

void add_joins(std::vector<OpRow>& rows) {
  rows.push_back(joining(
      "cat", {{{2, 3}, {4, 3}, {1, 3}}, {{1}, {2}, {3}}, {{2, 3}, {0, 3}, {1, 3}}},
      {{{0, 3}, {0, 3}, {0, 3}}}, [](const Tensors& x) { return cat(x); },
      [](const Arrays& x) { return joined(x, 0); }));
  rows.push_back(joining(
      "cat (last dim)", {{{2, 3}, {2, 1}, {2, 4}}, {{2, 2, 1}, {2, 2, 3}, {2, 2, 2}}}, {},
      [](const Tensors& x) { return cat(x, -1); },
      [](const Arrays& x) { return joined(x, x[0].shape.dim() - 1); }));
  rows.push_back(joining(
      "stack", {{{2, 3}, {2, 3}}, {{}, {}}, {{4}, {4}}}, {{{0}, {0}}},
      [](const Tensors& x) { return stack(x); },
      [](const Arrays& x) {
        Arrays raised = x;
        for (Dense& part : raised) part.shape.insert(0, 1);
        return joined(raised, 0);
      }));
  rows.push_back(joining(
      "stack (last dim)", {{{2, 3}, {2, 3}}, {{4}, {4}}}, {},
      [](const Tensors& x) { return stack(x, -1); },
      [](const Arrays& x) {
        Arrays raised = x;
        for (Dense& part : raised) part.shape.push_back(1);
        return joined(raised, x[0].shape.dim());
      }));
}

void add_copies(std::vector<OpRow>& rows) {
  const RowOptions plain{.special = false};
  const auto same = [](double x) { return x; };
  rows.push_back(unary(
      "contiguous", kAll, [](T x) { return x.contiguous(); }, same, plain));
  rows.push_back(unary(
      "clone", kAll, [](T x) { return x.clone(); }, same, plain));
  rows.push_back(unary("detach", kAll, [](T x) { return x.detach(); }, same,
                       {.gradient = false, .special = false}));
  OpRow there_and_back = unary(
      "to (device)", kAll, [](T x) { return x.to(dev(1)).to(x.device()); }, same, plain);
  there_and_back.moves = true;
  rows.push_back(there_and_back);

  rows.push_back(unary(
      "to (own dtype)", kAll, [](T x) { return x.to(x.dtype()); }, same, plain));
  // Through float64 and back: exact for every float. A GPU's host does it.
  rows.push_back(unary(
      "to (float64 and back)", kAll, [](T x) { return x.to(float64).to(x.dtype()); }, same, plain));
  rows.back().moves = on_gpu();
  const Domain integers{-99, 99, {}, false, int64};
  rows.push_back(unary(
      "to (int64)", {-99, 99}, [](T x) { return x.to(int64); },
      [](double x) { return std::trunc(x); },
      {.result = int64, .gradient = false, .special = false}));
  rows.push_back(unary(
      "to (bool)", kAll, [](T x) { return (x * 0).to(boolean); }, [](double) { return 0; },
      {.result = boolean, .gradient = false, .special = false}));
  rows.push_back(unary("to (float32 from int64)", integers, [](T x) { return x.to(float32); }, same,
                       {.result = float32, .gradient = false, .special = false}));
  rows.push_back(unary(
      "to (bool from int64)", integers, [](T x) { return x.to(boolean); },
      [](double x) { return x != 0; }, {.result = boolean, .gradient = false, .special = false}));
  for (const DType half : {float16, bfloat16}) {
    rows.push_back(unary(
        str("to (", name(half), ")"), {-3e4, 3e4}, [half](T x) { return x.to(half); },
        [half](double x) { return stored_as(half, x); },
        {.result = half, .gradient = false, .special = true, .tolerance = {0, 0}}));
  }
}

}  // namespace

void add_view_rows(std::vector<OpRow>& rows) {
  add_orders(rows);
  add_shapes(rows);
  add_parts(rows);
  add_joins(rows);
  add_copies(rows);
}

}  // namespace tandem::test
