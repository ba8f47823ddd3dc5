#include <tandem/core/normal.h>

#include <tandem/core/array_ops.h>
#include <tandem/core/backend.h>

namespace tandem {
namespace {

void check_channels(const Array& x) {
  check(x.dim() == 3 && x.is_contiguous() && is_floating(x.dtype()),
        "[normalize] expected a row-major floating (outer, C, inner): got ", x.dtype(), " ",
        x.shape());
}

void check_statistic(const Array& x, const Array& s) {
  const DType dtype = statistics_type(x);
  check(s.shape() == Shape{x.size(1)} && s.dtype() == dtype && s.is_contiguous() &&
            s.device() == x.device(),
        "[normalize] expected a ", dtype, " (C) beside ", x.shape(), ": got ", s.dtype(), " ",
        s.shape());
}

void check_normal(const Array& x, const Normal& by) {
  check_channels(x);
  check_statistic(x, by.mean);
  check_statistic(x, by.var);
  for (const Array* p : {&by.weight, &by.bias}) {
    if (!p->defined()) continue;
    const bool fits = p->shape() == Shape{x.size(1), 1} || p->shape() == Shape{1, x.size(2)};
    check(fits && p->dtype() == normal_type(x.dtype()) && p->device() == x.device(),
          "[normalize] weight or bias is ", p->dtype(), " ", p->shape(), ", x ", x.dtype(), " ",
          x.shape());
  }
}

void check_like(const Array& x, const Array& dy) {
  check(dy.shape() == x.shape() && dy.dtype() == x.dtype() && dy.device() == x.device() &&
            dy.is_contiguous(),
        "[normalize] the gradient is ", dy.dtype(), " ", dy.shape(), ", x ", x.dtype(), " ",
        x.shape());
}

Array statistic_like(const Array& x) {
  return Array::empty({x.size(1)}, statistics_type(x), x.device());
}

}  // namespace

DType statistics_type(const Array& x) {
  return backend(x.device()).statistics_type(x.dtype());
}

Moments moments(const Array& x) {
  check_channels(x);
  Moments m{statistic_like(x), statistic_like(x)};
  backend(x.device()).moments(x, m.mean, m.m2);
  return m;
}

Array normalize(const Array& x, const Normal& by) {
  check_normal(x, by);
  Array y = Array::empty(x.shape(), x.dtype(), x.device());
  backend(x.device()).normalize(x, by, y);
  return y;
}

NormalSums normalize_sums(const Array& x, const Normal& by, const Array& dy) {
  check_normal(x, by);
  check_like(x, dy);
  NormalSums sums{statistic_like(x), statistic_like(x)};
  backend(x.device()).normalize_sums(x, by, dy, sums.g, sums.gx);
  return sums;
}

Array normalize_grad(const Array& x, const Normal& by, const Array& dy, const NormalSums& means) {
  check_normal(x, by);
  check_like(x, dy);
  check_statistic(x, means.g);
  check_statistic(x, means.gx);
  Array dx = Array::empty(x.shape(), x.dtype(), x.device());
  backend(x.device()).normalize_grad(x, by, dy, means.g, means.gx, dx);
  return dx;
}

}  // namespace tandem
