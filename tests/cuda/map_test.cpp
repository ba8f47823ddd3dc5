// Maps and their derivatives on a GPU: every rule, type and layout. Rules of plain arithmetic give
// the CPU's bits; those with exp, log, tanh, erf or pow are compared with the same formula in
// double.
#include <doctest/doctest.h>

#include "tests/cuda/arrays.h"

using namespace tandem;
using namespace tandem::test;

namespace {

template <class F>
constexpr bool is_plain = !F::packet;
template <>
constexpr bool is_plain<WithRight<Pow>> = false;
template <>
constexpr bool is_plain<WithLeft<Pow>> = false;

template <class F>
std::vector<DType> types() {
  if (F::domain == Domain::bools) return {DType::boolean};
  std::vector<DType> all(std::begin(kGpuFloats), std::end(kGpuFloats));
  if (F::domain == Domain::numbers) all.push_back(int64);
  return all;
}

constexpr Scalars kNumbers{0.75, 2.5};
const Shape kShape{2, 5, 3, 4};

// Inputs that a rule is defined for, and a few that it is not.
template <class F>
std::vector<double> inputs(DType dtype, std::uint64_t seed) {
  const bool whole = dtype == int64 || dtype == DType::boolean;
  auto values = whole ? whole_numbers(kShape.numel(), seed)
                      : random_doubles(kShape.numel(), seed, is_plain<F> ? -3 : 0.1, 3);
  if (!whole && is_plain<F>) values = with_edges(values);
  return values;
}

template <class F>
void check_forward(DType dtype, Lie lie) {
  const Array x = lying(lie, inputs<F>(dtype, 3), kShape, dtype);
  Array y = on_gpu(garbage(kShape, dtype, lie));
  cuda_backend().map(map_op<F>, kNumbers, on_gpu(x), y);
  if constexpr (is_plain<F>) {
    Array expected = garbage(kShape, dtype);
    cpu_backend().map(map_op<F>, kNumbers, x, expected);
    CHECK(same_bits(y, expected));
  } else {
    const auto truth = each(values_of(x), [](double v) {
      return F::forward(v, Params<double>{kNumbers.a, kNumbers.b});
    });
    CHECK(close(values_of(on_host(y)), truth, rounding_of(dtype)));
  }
}

template <class F>
void check_grad(DType dtype, Lie lie) {
  const Array saved =
      F::saves == Saves::nothing ? Array() : lying(lie, inputs<F>(dtype, 4), kShape, dtype);
  const Array dy = lying(lie, random_doubles(kShape.numel(), 5), kShape, dtype);
  Array dx = on_gpu(garbage(kShape, dtype, lie));
  cuda_backend().map_grad(map_op<F>, kNumbers, on_gpu(saved), on_gpu(dy), dx);
  if constexpr (is_plain<F>) {
    Array expected = garbage(kShape, dtype);
    cpu_backend().map_grad(map_op<F>, kNumbers, saved, dy, expected);
    CHECK(same_bits(dx, expected));
  } else {
    const auto truth = each(values_of(saved), values_of(dy), [](double v, double g) {
      return F::grad(v, g, Params<double>{kNumbers.a, kNumbers.b});
    });
    CHECK(close(values_of(on_host(dx)), truth, rounding_of(dtype, 2e-6)));  // several roundings
  }
}

template <class F>
void check_rule() {
  for (DType dtype : types<F>()) {
    for (Lie lie : kLies) {
      CAPTURE(dtype);
      CAPTURE(int(lie));
      CAPTURE(int(map_op<F>));
      check_forward<F>(dtype, lie);
      if constexpr (F::domain != Domain::bools) {
        if (dtype != int64) check_grad<F>(dtype, lie);
      }
    }
  }
}

template <class... F>
void check_rules(OpList<F...>) {
  (check_rule<F>(), ...);
}

}  // namespace

TEST_CASE("map: every rule, type and layout, and its derivative") {
  check_rules(MapOps{});
  CHECK(cudasim::violations().empty());
}

TEST_CASE("map: every length around packs and blocks") {
  for (DType dtype : kGpuFloats) {
    for (std::int64_t n : {1, 2, 3, 4, 5, 7, 8, 9, 15, 17, 255, 256, 257, 1023, 1024, 1025, 2049}) {
      CAPTURE(dtype);
      CAPTURE(n);
      const Array x = array_of(random_doubles(n, std::uint64_t(n)), {n}, dtype);
      Array y = on_gpu(garbage({n}, dtype));
      cuda_backend().map(map_op<Neg>, {}, on_gpu(x), y);
      CHECK(same_bits(y, array_of(each(values_of(x), [](double v) { return -v; }), {n}, dtype)));
    }
  }
}

TEST_CASE("map: an array that overlaps nothing but itself may be its own result") {
  Array x = on_gpu(array_of({1, -2, 3, -4, 5}, {5}));
  cuda_backend().map(map_op<Relu>, {}, x, x);
  CHECK(doubles(x) == std::vector<double>{1, 0, 3, 0, 5});
}

TEST_CASE("map: nothing is launched for an empty array") {
  const Array x = Array::empty({0, 3}, float32, cuda(0));
  Array y = Array::empty({0, 3}, float32, cuda(0));
  const auto before = cudasim::statistics().kernels_launched;
  cuda_backend().map(map_op<Neg>, {}, x, y);
  cuda_backend().map_grad(map_op<Neg>, {}, {}, x, y);
  cuda_backend().synchronize();
  CHECK(cudasim::statistics().kernels_launched == before);
}

TEST_CASE("map: float64 is refused by name, with the way out") {
  const Array x = Array::empty({3}, float64, cuda(0));
  Array y = Array::empty({3}, float64, cuda(0));
  const auto refused = [](auto f) {
    return throws<UsageError>(f, {"float64 is not computed on cuda:0", "to(float32)"});
  };
  CHECK(refused([&] { cuda_backend().map(map_op<Neg>, {}, x, y); }));
  CHECK(refused([&] { cuda_backend().map_grad(map_op<Neg>, {}, {}, x, y); }));
}
