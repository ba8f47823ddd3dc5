// See convolve.h. The three directions visit the same products:
//   y(n, k, p, q) += x(n, group(k) + c, p' , q') w(k, c, r, s)
//   p' = p stride - pad + r dilation, likewise q'; r counts backwards where the window is flipped
#include "dnn/convolve.h"

namespace cudasim::dnn {
namespace {

// Where the window's element `tap` lies for output `at`; negative or too large: in the padding.
std::int64_t position(const Geometry& g, int d, std::int64_t at, std::int64_t tap) {
  const std::int64_t offset = g.flipped ? g.window[d] - 1 - tap : tap;
  return at * g.stride[d] - g.pad[d] + offset * g.dilation[d];
}

// Calls visit(index of x, index of w, index of y) for all products of one output plane.
template <class Visit>
void visit_plane(const Geometry& g, std::int64_t n, std::int64_t k, Visit&& visit) {
  const std::int64_t channels = g.c / g.groups, first = k / (g.k / g.groups) * channels;
  std::int64_t y = (n * g.k + k) * g.out[0] * g.out[1];
  for (std::int64_t p = 0; p < g.out[0]; ++p)
    for (std::int64_t q = 0; q < g.out[1]; ++q, ++y) {
      std::int64_t w = k * channels * g.window[0] * g.window[1];
      for (std::int64_t c = 0; c < channels; ++c)
        for (std::int64_t r = 0; r < g.window[0]; ++r)
          for (std::int64_t s = 0; s < g.window[1]; ++s, ++w) {
            const std::int64_t row = position(g, 0, p, r), column = position(g, 1, q, s);
            if (row < 0 || row >= g.in[0] || column < 0 || column >= g.in[1]) continue;
            visit(((n * g.c + first + c) * g.in[0] + row) * g.in[1] + column, w, y);
          }
    }
}

template <class Visit>
void visit_all(const Geometry& g, Visit&& visit) {
  for (std::int64_t n = 0; n < g.n; ++n)
    for (std::int64_t k = 0; k < g.k; ++k) visit_plane(g, n, k, visit);
}

}  // namespace

Numbers convolve(const Geometry& g, const Numbers& x, const Numbers& w) {
  Numbers y(g.n * g.k * g.out[0] * g.out[1], 0.0);
  visit_all(g, [&](auto xi, auto wi, auto yi) { y[yi] += x[xi] * w[wi]; });
  return y;
}

Numbers convolve_to_data(const Geometry& g, const Numbers& w, const Numbers& dy) {
  Numbers dx(g.n * g.c * g.in[0] * g.in[1], 0.0);
  visit_all(g, [&](auto xi, auto wi, auto yi) { dx[xi] += dy[yi] * w[wi]; });
  return dx;
}

Numbers convolve_to_filter(const Geometry& g, const Numbers& x, const Numbers& dy) {
  Numbers dw(g.k * (g.c / g.groups) * g.window[0] * g.window[1], 0.0);
  visit_all(g, [&](auto xi, auto wi, auto yi) { dw[wi] += x[xi] * dy[yi]; });
  return dw;
}

}  // namespace cudasim::dnn
