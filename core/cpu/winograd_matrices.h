// The small matrices of Winograd's F(2 x 2, 3 x 3), for squares of numbers that lie as rows of
// channels; winograd.cpp says what they are for. Private to core/cpu.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <tandem/core/cpu/packets.h>

namespace tandem::host::winograd_f2x3 {

using Floats = Packet<float>;

template <std::size_t N>
using Row = std::array<Floats, N>;

inline Row<4> input(const Row<4>& d) {  // B' d
  return {d[0] - d[2], d[1] + d[2], d[2] - d[1], d[1] - d[3]};
}
inline Row<2> output(const Row<4>& m) {  // A' m
  return {m[0] + m[1] + m[2], m[1] - m[2] - m[3]};
}
inline Row<4> output_transposed(const Row<2>& y) {  // A y
  return {y[0], y[0] + y[1], y[0] - y[1], -y[1]};
}
inline Row<4> filter(const Row<3>& g) {  // G g
  const Floats half = 0.5f, ends = g[0] + g[2];
  return {g[0], (ends + g[1]) * half, (ends - g[1]) * half, g[2]};
}
inline Row<3> filter_transposed(const Row<4>& s) {  // G' s
  const Floats half = 0.5f, sum = (s[1] + s[2]) * half;
  return {s[0] + sum, (s[1] - s[2]) * half, sum + s[3]};
}

// How many numbers a matrix takes and gives.
template <auto kMatrix>
struct Sizes;
template <std::size_t N, std::size_t M, Row<M> (*kMatrix)(const Row<N>&)>
struct Sizes<kMatrix> {
  static constexpr std::size_t in = N, out = M;
};
template <auto kMatrix>
constexpr std::size_t kIn = Sizes<kMatrix>::in;
template <auto kMatrix>
constexpr std::size_t kOut = Sizes<kMatrix>::out;
template <auto kMatrix>
constexpr std::size_t kSquareIn = kIn<kMatrix>* kIn<kMatrix>;
template <auto kMatrix>
constexpr std::size_t kSquareOut = kOut<kMatrix>* kOut<kMatrix>;

// (T x)' for a matrix T, and x with so many columns.
template <auto kMatrix, std::size_t kColumns>
[[gnu::always_inline]] inline Row<kColumns * kOut<kMatrix>> transposed_product(
    const Row<kIn<kMatrix> * kColumns>& x) {
  constexpr std::size_t N = kIn<kMatrix>, M = kOut<kMatrix>;
  Row<kColumns * M> all;
  for (std::size_t j = 0; j < kColumns; ++j) {
    Row<N> column;
    for (std::size_t i = 0; i < N; ++i) column[i] = x[i * kColumns + j];
    const Row<M> y = kMatrix(column);
    for (std::size_t i = 0; i < M; ++i) all[j * M + i] = y[i];
  }
  return all;
}

// T x T' for a matrix T and a square x.
template <auto kMatrix>
[[gnu::always_inline]] inline Row<kSquareOut<kMatrix>> transformed(
    const Row<kSquareIn<kMatrix>>& x) {
  return transposed_product<kMatrix, kOut<kMatrix>>(transposed_product<kMatrix, kIn<kMatrix>>(x));
}

// Neighbouring channels, as many as one packet has, or the rest.
template <bool kWhole>
struct Lane {
  std::int64_t at, count;
  Floats load(const float* from) const {
    return kWhole ? Floats::load(from + at) : Floats::load(from + at, count);
  }
  void store(const Floats& x, float* to) const {
    kWhole ? x.store(to + at) : x.store(to + at, count);
  }
};

template <class F>
void for_each_lane(std::int64_t channels, F f) {
  std::int64_t i = 0;
  for (; i + Floats::size <= channels; i += Floats::size) f(Lane<true>{i, Floats::size});
  if (i < channels) f(Lane<false>{i, channels - i});
}

template <class L, class T, std::size_t N>
Row<N> load_all(const L& lane, const std::array<T*, N>& from) {
  Row<N> x;
  for (std::size_t i = 0; i < N; ++i) x[i] = lane.load(from[i]);
  return x;
}

// One square of each channel, whose numbers lie in rows of channels.
template <auto kMatrix, class T>
void transform_row(const std::array<T*, kSquareIn<kMatrix>>& from,
                   const std::array<float*, kSquareOut<kMatrix>>& to, std::int64_t channels) {
  for_each_lane(channels, [&](const auto& lane) {
    const auto x = transformed<kMatrix>(load_all(lane, from));
    for (std::size_t k = 0; k < x.size(); ++k) lane.store(x[k], to[k]);
  });
}

}  // namespace tandem::host::winograd_f2x3
