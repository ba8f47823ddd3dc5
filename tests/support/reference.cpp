// See reference.h.
#include "tests/support/reference.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tandem::test {

double Dense::at(const Index& index) const {
  std::int64_t position = 0;
  for (int d = 0; d < shape.dim(); ++d) position = position * shape[d] + index[std::size_t(d)];
  return values.at(std::size_t(position));
}

double Dense::at_broadcast(const Index& index) const {
  Index own(index.end() - shape.dim(), index.end());
  for (int d = 0; d < shape.dim(); ++d) {
    if (shape[d] == 1) own[std::size_t(d)] = 0;
  }
  return at(own);
}

Dense dense(const Shape& shape, const std::function<double(const Index&)>& f) {
  Dense result{shape, {}};
  const std::int64_t n = shape.numel();
  result.values.reserve(std::size_t(n));
  Index index(std::size_t(shape.dim()), 0);
  for (std::int64_t i = 0; i < n; ++i) {
    result.values.push_back(f(index));
    for (int d = shape.dim() - 1; d >= 0 && ++index[std::size_t(d)] == shape[d]; --d) {
      index[std::size_t(d)] = 0;
    }
  }
  return result;
}

namespace {

Shape common_shape(const Shape& a, const Shape& b) {
  Shape shape = Shape::filled(std::max(a.dim(), b.dim()), 1);
  for (const Shape* s : {&a, &b}) {
    for (int i = 1; i <= s->dim(); ++i) {
      const std::int64_t size = (*s)[s->dim() - i];
      if (size != 1) shape[shape.dim() - i] = size;
    }
  }
  return shape;
}

}  // namespace

Dense pointwise(const Dense& x, const std::function<double(double)>& f) {
  return dense(x.shape, [&](const Index& i) { return f(x.at(i)); });
}

Dense pointwise(const Dense& a, const Dense& b, const std::function<double(double, double)>& f) {
  return dense(common_shape(a.shape, b.shape),
               [&](const Index& i) { return f(a.at_broadcast(i), b.at_broadcast(i)); });
}

Dense pointwise(const Dense& a, const Dense& b, const Dense& c,
                const std::function<double(double, double, double)>& f) {
  return dense(common_shape(common_shape(a.shape, b.shape), c.shape), [&](const Index& i) {
    return f(a.at_broadcast(i), b.at_broadcast(i), c.at_broadcast(i));
  });
}

Dense fold(const Dense& x, const std::vector<int>& dims, bool keepdim,
           const std::function<double(const std::vector<double>&)>& f) {
  const auto reduced = [&](int d) {
    return dims.empty() || std::find(dims.begin(), dims.end(), d) != dims.end();
  };
  Shape inner, kept, outer;  // of one group; of the result, with ones; and without
  for (int d = 0; d < x.shape.dim(); ++d) {
    inner.push_back(reduced(d) ? x.shape[d] : 1);
    kept.push_back(reduced(d) ? 1 : x.shape[d]);
    if (!reduced(d)) outer.push_back(x.shape[d]);
  }
  Dense result = dense(kept, [&](const Index& at) {
    return f(dense(inner, [&](const Index& i) {
               Index both = at;
               for (std::size_t d = 0; d < both.size(); ++d) both[d] += i[d];
               return x.at(both);
             }).values);
  });
  if (!keepdim) result.shape = outer;
  return result;
}

Dense softmax_along(const Dense& x, int dim, bool log) {
  const Dense top = fold(x, {dim}, true, [](const std::vector<double>& v) {
    return v.empty() ? 0.0 : *std::max_element(v.begin(), v.end());
  });
  const Dense shifted = pointwise(x, top, [](double a, double b) { return a - b; });
  const Dense total = fold(shifted, {dim}, true, [](const std::vector<double>& v) {
    return std::accumulate(v.begin(), v.end(), 0.0,
                           [](double s, double e) { return s + std::exp(e); });
  });
  return pointwise(shifted, total,
                   [log](double s, double t) { return log ? s - std::log(t) : std::exp(s) / t; });
}

Dense matrix_product(const Dense& a, const Dense& b) {
  Dense left = a, right = b;
  if (a.shape.dim() == 1) left.shape.insert(0, 1);
  if (b.shape.dim() == 1) right.shape.insert(1, 1);
  const auto batch = [](Shape s) {
    s.erase(s.dim() - 1);
    s.erase(s.dim() - 1);
    return s;
  };
  Shape shape = common_shape(batch(left.shape), batch(right.shape));
  const std::int64_t inner = left.shape.back();
  shape.push_back(left.shape[left.shape.dim() - 2]);
  shape.push_back(right.shape.back());
  // A matrix's own two sizes are never stretched: indices below them are used as they are.
  const auto element = [](const Dense& m, Index i) {
    Index own(i.end() - m.shape.dim(), i.end());
    for (int d = 0; d + 2 < m.shape.dim(); ++d) {
      if (m.shape[d] == 1) own[std::size_t(d)] = 0;
    }
    return m.at(own);
  };
  Dense result = dense(shape, [&](const Index& i) {
    double sum = 0;
    const std::size_t row = i.size() - 2, column = i.size() - 1;
    for (std::int64_t k = 0; k < inner; ++k) {
      Index in_left = i, in_right = i;
      in_left[column] = k;
      in_right[row] = k;
      sum += element(left, in_left) * element(right, in_right);
    }
    return sum;
  });
  if (b.shape.dim() == 1) result.shape.erase(result.shape.dim() - 1);
  if (a.shape.dim() == 1) result.shape.erase(result.shape.dim() - (b.shape.dim() == 1 ? 1 : 2));
  return result;
}

Dense reshaped(const Dense& x, const Shape& shape) {
  return {shape, x.values};
}

Dense permuted(const Dense& x, const std::vector<int>& order) {
  Shape shape;
  for (int d : order) shape.push_back(x.shape[d]);
  return dense(shape, [&](const Index& i) {
    Index from(i.size());
    for (std::size_t d = 0; d < i.size(); ++d) from[std::size_t(order[d])] = i[d];
    return x.at(from);
  });
}

Dense sliced(const Dense& x, int dim, std::int64_t start, std::int64_t length, std::int64_t step) {
  Shape shape = x.shape;
  shape[dim] = length;
  return dense(shape, [&](Index i) {
    i[std::size_t(dim)] = start + step * i[std::size_t(dim)];
    return x.at(i);
  });
}

Dense joined(const std::vector<Dense>& parts, int dim) {
  Shape shape = parts.front().shape;
  shape[dim] = 0;
  for (const Dense& part : parts) shape[dim] += part.shape[dim];
  return dense(shape, [&](Index i) {
    for (const Dense& part : parts) {
      if (i[std::size_t(dim)] < part.shape[dim]) return part.at(i);
      i[std::size_t(dim)] -= part.shape[dim];
    }
    return 0.0;
  });
}

}  // namespace tandem::test
