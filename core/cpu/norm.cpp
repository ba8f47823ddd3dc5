// Normalization: statistics of channels, and what is done to every element with them.
//
// A channel's elements come in runs of `inner`; if that is 1, neighbours in memory belong to
// neighbouring channels. So that one loop serves both, whatever belongs to a channel is spread over
// a Piece: the same number everywhere, or the numbers of as many channels side by side. Sums are
// double, as PyTorch's on the CPU; their order depends on the shape only.
#include <cmath>

#include <tandem/core/cpu/backend.h>
#include <tandem/core/cpu/traverse.h>

namespace tandem {
namespace {

constexpr std::int64_t kPiece = 128;
template <class T>
using Piece = std::array<T, std::size_t(kPiece)>;

struct Channels {
  std::int64_t outer, count, inner;
  std::int64_t begin = 0, end = count;  // those that are computed: a part

  explicit Channels(const Array& x) : outer(x.size(0)), count(x.size(1)), inner(x.size(2)) {}
  double elements() const { return double(outer * inner); }
};

/// f(channels) for parts of them: they do not depend on each other.
template <class F>
void for_some_channels(const Array& x, F f) {
  const Channels all(x);
  const auto part = [&](std::int64_t begin, std::int64_t end) {
    Channels some = all;
    some.begin = begin;
    some.end = end;
    f(some);
  };
  host::for_each_range(x.device(), all.count, double(x.numel()), part, all.inner == 1 ? 16 : 1);
}

/// One channel, or up to kPiece neighbours if inner is 1.
struct Group {
  std::int64_t first, count;
};

template <class F>
void for_each_group(const Channels& c, F f) {
  const std::int64_t step = c.inner == 1 ? kPiece : 1;
  for (std::int64_t i = c.begin; i < c.end; i += step) f(Group{i, std::min(step, c.end - i)});
}

/// f(at, n, j): n elements from element `at` of the array on, which stand at j, j + 1, ... of
/// inner.
template <class F>
void for_each_piece(const Channels& c, const Group& group, F f) {
  for (std::int64_t o = 0; o < c.outer; ++o) {
    const std::int64_t at = (o * c.count + group.first) * c.inner, n = group.count * c.inner;
    for (std::int64_t j = 0; j < n; j += kPiece) f(at + j, std::min(kPiece, n - j), j);
  }
}

/// value(channel) where the group's elements will meet it.
template <class T, class F>
Piece<T> spread(const Group& group, F value) {
  Piece<T> to;
  if (group.count == 1) {
    to.fill(T(value(group.first)));
    return to;
  }
  for (std::int64_t i = 0; i < group.count; ++i) to[std::size_t(i)] = T(value(group.first + i));
  return to;
}

/// put(channel, sum) from sums side by side, or from the lanes of one channel's sum.
template <class F>
void collect(const Group& group, Piece<double>& sums, F put) {
  if (group.count == 1) {
    for (std::size_t width = sums.size() / 2; width > 0; width /= 2) {
      for (std::size_t i = 0; i < width; ++i) sums[i] += sums[i + width];
    }
  }
  for (std::int64_t i = 0; i < group.count; ++i) put(group.first + i, sums[std::size_t(i)]);
}

/// A row-major array as numbers of the type that is computed in.
template <class C>
class Source {
 public:
  explicit Source(const Array& a) : data_(a.data()), dtype_(a.dtype()) {}
  const C* piece(std::int64_t at, std::int64_t n) {
    const std::byte* from = data_ + at * std::int64_t(size_of(dtype_));
    if (dtype_ == dtype_of<C>) return reinterpret_cast<const C*>(from);
    host::gather(dtype_, from, 1, n, buffer_.data());
    return buffer_.data();
  }

 private:
  const std::byte* data_;
  DType dtype_;
  Piece<C> buffer_;
};

template <class C>
class Target {
 public:
  explicit Target(Array& a) : data_(a.fresh_data()), dtype_(a.dtype()) {}
  C* piece(std::int64_t at) {
    return dtype_ == dtype_of<C> ? reinterpret_cast<C*>(data_) + at : buffer_.data();
  }
  void written(std::int64_t at, std::int64_t n) {
    if (dtype_ == dtype_of<C>) return;
    host::scatter(dtype_, buffer_.data(), data_ + at * std::int64_t(size_of(dtype_)), 1, n);
  }

 private:
  std::byte* data_;
  DType dtype_;
  Piece<C> buffer_;
};

/// What a Normal says about a channel, and its weights by position if it has such.
template <class C>
struct Rule {
  const double *mean, *var;
  double eps;
  const Array &weight, &bias;
  std::vector<C> weights, biases;  // by position; empty: 1 and 0

  Rule(const Normal& by, const Channels& c)
      : mean(by.mean.data<double>()),
        var(by.var.data<double>()),
        eps(by.eps),
        weight(by.weight),
        bias(by.bias) {
    if (is_by_position(weight, c)) weights = weight.to_vector<C>();
    if (is_by_position(bias, c)) biases = bias.to_vector<C>();
    if (!weights.empty() && biases.empty()) biases.assign(weights.size(), C(0));
    if (!biases.empty() && weights.empty()) weights.assign(biases.size(), C(1));
  }

  double invstd(std::int64_t c) const { return 1 / std::sqrt(var[c] + eps); }
  double weight_of(std::int64_t c) const { return of_channel(weight, weights, c, 1); }
  double bias_of(std::int64_t c) const { return of_channel(bias, biases, c, 0); }

 private:
  static bool is_by_position(const Array& a, const Channels& c) {
    return a.defined() && c.inner > 1 && a.size(1) == c.inner;
  }
  static double of_channel(const Array& a, const std::vector<C>& by_position, std::int64_t c,
                           double neutral) {
    if (!a.defined() || !by_position.empty()) return neutral;
    return double(a.data<C>()[(a.size(0) == 1 ? 0 : c) * a.strides()[0]]);
  }
};

template <class C>
void moments_of(const Channels& channels, const Array& x, double* mean, double* m2) {
  Source<C> source(x);
  for_each_group(channels, [&](const Group& group) {
    Piece<double> sum{}, squares{};
    for_each_piece(channels, group, [&](std::int64_t at, std::int64_t n, std::int64_t) {
      const C* p = source.piece(at, n);
#pragma GCC ivdep
      for (std::size_t i = 0; i < std::size_t(n); ++i) sum[i] += double(p[i]);
    });
    collect(group, sum, [&](std::int64_t c, double s) { mean[c] = s / channels.elements(); });
    const Piece<double> center = spread<double>(group, [&](std::int64_t c) { return mean[c]; });
    for_each_piece(channels, group, [&](std::int64_t at, std::int64_t n, std::int64_t) {
      const C* p = source.piece(at, n);
#pragma GCC ivdep
      for (std::size_t i = 0; i < std::size_t(n); ++i) {
        const double d = double(p[i]) - center[i];
        squares[i] += d * d;
      }
    });
    collect(group, squares, [&](std::int64_t c, double s) { m2[c] = s; });
  });
}

// y = x alpha + beta, alpha = weight / sqrt(var + eps), beta = bias - mean alpha; then, if there
// are weights by position, y weights + biases.
template <class C>
void normalize_with(const Channels& channels, const Array& x, const Normal& by, Array& y) {
  const Rule<C> rule(by, channels);
  Source<C> source(x);
  Target<C> target(y);
  const auto alpha_of = [&](std::int64_t c) { return rule.invstd(c) * rule.weight_of(c); };
  for_each_group(channels, [&](const Group& group) {
    const Piece<C> alpha = spread<C>(group, alpha_of);
    const Piece<C> beta = spread<C>(
        group, [&](std::int64_t c) { return rule.bias_of(c) - rule.mean[c] * alpha_of(c); });
    for_each_piece(channels, group, [&](std::int64_t at, std::int64_t n, std::int64_t j) {
      const C* p = source.piece(at, n);
      C* out = target.piece(at);
      const C *w = rule.weights.data() + j, *b = rule.biases.data() + j;
      if (rule.weights.empty()) {
#pragma GCC ivdep
        for (std::size_t i = 0; i < std::size_t(n); ++i) out[i] = p[i] * alpha[i] + beta[i];
      } else {
#pragma GCC ivdep
        for (std::size_t i = 0; i < std::size_t(n); ++i) {
          out[i] = (p[i] * alpha[i] + beta[i]) * w[i] + b[i];
        }
      }
      target.written(at, n);
    });
  });
}

template <class C>
void sums_of(const Channels& channels, const Array& x, const Normal& by, const Array& dy,
             double* sum_g, double* sum_gx) {
  const Rule<C> rule(by, channels);
  Source<C> source(x), grads(dy);
  Piece<C> weighted;
  for_each_group(channels, [&](const Group& group) {
    Piece<double> sum{}, product{};
    const Piece<double> center =
        spread<double>(group, [&](std::int64_t c) { return rule.mean[c]; });
    for_each_piece(channels, group, [&](std::int64_t at, std::int64_t n, std::int64_t j) {
      const C *p = source.piece(at, n), *g = grads.piece(at, n);
      if (!rule.weights.empty()) {
        const C* w = rule.weights.data() + j;
        for (std::size_t i = 0; i < std::size_t(n); ++i) weighted[i] = w[i] * g[i];
        g = weighted.data();
      }
#pragma GCC ivdep
      for (std::size_t i = 0; i < std::size_t(n); ++i) {
        sum[i] += double(g[i]);
        product[i] += double(g[i]) * (double(p[i]) - center[i]);
      }
    });
    collect(group, sum, [&](std::int64_t c, double s) { sum_g[c] = s * rule.weight_of(c); });
    collect(group, product,
            [&](std::int64_t c, double s) { sum_gx[c] = s * rule.weight_of(c) * rule.invstd(c); });
  });
}

// dx = a weights dy + b (x - mean) + c with a = weight invstd, b = -invstd^2 mean_gx,
// c = -invstd mean_g
template <class C>
void grad_with(const Channels& channels, const Array& x, const Normal& by, const Array& dy,
               const double* mean_g, const double* mean_gx, Array& dx) {
  const Rule<C> rule(by, channels);
  Source<C> source(x), grads(dy);
  Target<C> target(dx);
  for_each_group(channels, [&](const Group& group) {
    const auto of = [&](auto f) { return spread<C>(group, f); };
    const Piece<C> center = of([&](auto k) { return rule.mean[k]; });
    const Piece<C> a = of([&](auto k) { return rule.weight_of(k) * rule.invstd(k); });
    const Piece<C> b = of([&](auto k) { return -mean_gx[k] * rule.invstd(k) * rule.invstd(k); });
    const Piece<C> c = of([&](auto k) { return -mean_g[k] * rule.invstd(k); });
    for_each_piece(channels, group, [&](std::int64_t at, std::int64_t n, std::int64_t j) {
      const C *p = source.piece(at, n), *g = grads.piece(at, n);
      C* out = target.piece(at);
      const C* w = rule.weights.data() + j;
      if (rule.weights.empty()) {
#pragma GCC ivdep
        for (std::size_t i = 0; i < std::size_t(n); ++i) {
          out[i] = a[i] * g[i] + b[i] * (p[i] - center[i]) + c[i];
        }
      } else {
#pragma GCC ivdep
        for (std::size_t i = 0; i < std::size_t(n); ++i) {
          out[i] = a[i] * (w[i] * g[i]) + b[i] * (p[i] - center[i]) + c[i];
        }
      }
      target.written(at, n);
    });
  });
}

}  // namespace

void CpuBackend::moments(const Array& x, Array& mean, Array& m2) {
  if (x.numel() == 0) {
    fill(mean, 0);
    fill(m2, 0);
    return;
  }
  host::with_compute_type<Domain::floats>(x.dtype(), [&]<class C>(host::Type<C>) {
    double *means = mean.fresh_data<double>(), *squares = m2.fresh_data<double>();
    for_some_channels(x, [&](const Channels& some) { moments_of<C>(some, x, means, squares); });
  });
}

void CpuBackend::normalize(const Array& x, const Normal& by, Array& y) {
  if (y.numel() == 0) return;
  host::with_compute_type<Domain::floats>(x.dtype(), [&]<class C>(host::Type<C>) {
    for_some_channels(x, [&](const Channels& some) { normalize_with<C>(some, x, by, y); });
  });
}

void CpuBackend::normalize_sums(const Array& x, const Normal& by, const Array& dy, Array& sum_g,
                                Array& sum_gx) {
  if (x.numel() == 0) {
    fill(sum_g, 0);
    fill(sum_gx, 0);
    return;
  }
  host::with_compute_type<Domain::floats>(x.dtype(), [&]<class C>(host::Type<C>) {
    double *g = sum_g.fresh_data<double>(), *gx = sum_gx.fresh_data<double>();
    for_some_channels(x, [&](const Channels& some) { sums_of<C>(some, x, by, dy, g, gx); });
  });
}

void CpuBackend::normalize_grad(const Array& x, const Normal& by, const Array& dy,
                                const Array& mean_g, const Array& mean_gx, Array& dx) {
  if (dx.numel() == 0) return;
  host::with_compute_type<Domain::floats>(x.dtype(), [&]<class C>(host::Type<C>) {
    for_some_channels(x, [&](const Channels& some) {
      grad_with<C>(some, x, by, dy, mean_g.data<double>(), mean_gx.data<double>(), dx);
    });
  });
}

}  // namespace tandem
