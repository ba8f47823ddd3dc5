// Zips, their derivatives, and where on a GPU: every rule, type and layout. Rules of plain
// arithmetic give the CPU's bits; pow and BceWithLogits are compared with the formula in double.
#include <doctest/doctest.h>

#include "tests/cuda/arrays.h"

using namespace tandem;
using namespace tandem::test;

namespace {

template <class F>
constexpr bool is_plain = !std::is_same_v<F, Pow> && !std::is_same_v<F, BceWithLogits>;

template <class F>
std::vector<DType> types() {
  if (F::domain == Domain::bools) return {DType::boolean};
  std::vector<DType> all(std::begin(kGpuFloats), std::end(kGpuFloats));
  if (F::domain == Domain::numbers) all.push_back(int64);
  return all;
}

const Shape kShape{2, 5, 3, 4};

// Two operands that lie alike, in two ways, or of which one is broadcast.
enum class Pair { alike, unlike, row, column, number };
constexpr Pair kPairs[] = {Pair::alike, Pair::unlike, Pair::row, Pair::column, Pair::number};

template <class F>
std::vector<double> inputs(DType dtype, std::int64_t n, std::uint64_t seed) {
  const bool whole = dtype == int64 || dtype == DType::boolean;
  if (whole) return whole_numbers(n, seed);
  // Small whole numbers meet each other and zero; the rest is anything.
  auto values = is_plain<F> ? whole_numbers(n, seed, 3) : random_doubles(n, seed, 0.1, 2);
  const auto any = random_doubles(n, seed + 100, 0.1, 2);
  for (std::size_t i = 1; i < values.size(); i += 2) values[i] = any[i];
  return is_plain<F> && n > 20 ? with_edges(values) : values;
}

template <class F>
Array second(Pair pair, DType dtype, std::uint64_t seed) {
  const auto expanded = [&](const Shape& shape) {
    return lying(Lie::row_major, inputs<F>(dtype, shape.numel(), seed), shape, dtype)
        .expand(kShape);
  };
  switch (pair) {
    case Pair::row:
      return expanded({3, 4});
    case Pair::column:
      return expanded({2, 5, 1, 1});
    case Pair::number:
      return expanded({1});
    default:
      return lying(pair == Pair::alike ? Lie::rotated : Lie::gaps,
                   inputs<F>(dtype, kShape.numel(), seed), kShape, dtype);
  }
}

// A broadcast operand on the GPU keeps its strides of zero.
template <class F>
void check_forward(DType dtype, Pair pair) {
  const Array a = lying(Lie::rotated, inputs<F>(dtype, kShape.numel(), 3), kShape, dtype);
  const Array b = second<F>(pair, dtype, 4);
  const DType result = F::compares ? DType::boolean : dtype;
  Array y = on_gpu(garbage(kShape, result, Lie::rotated));
  cuda_backend().zip(zip_op<F>, on_gpu(a), on_gpu(b), y);
  if constexpr (is_plain<F>) {
    Array expected = garbage(kShape, result);
    cpu_backend().zip(zip_op<F>, a, b, expected);
    CHECK(same_bits(y, expected));
  } else {
    const auto truth =
        each(values_of(a), values_of(b), [](double v, double w) { return F::forward(v, w); });
    CHECK(close(values_of(on_host(y)), truth, rounding_of(dtype)));
  }
}

template <class F, int kOperand>
void check_grad(DType dtype, Pair pair) {
  constexpr Pull pull = kOperand == 0 ? F::pull_a : F::pull_b;
  if constexpr (pull != Pull::none) {
    const Array a = lying(Lie::rotated, inputs<F>(dtype, kShape.numel(), 5), kShape, dtype);
    const Array b = second<F>(pair, dtype, 6);
    const Array dy = lying(Lie::rotated, random_doubles(kShape.numel(), 7), kShape, dtype);
    Array dx = on_gpu(garbage(kShape, dtype, Lie::rotated));
    cuda_backend().zip_grad(zip_op<F>, kOperand, on_gpu(a), on_gpu(b), on_gpu(dy), dx);
    if constexpr (is_plain<F>) {
      Array expected = garbage(kShape, dtype);
      cpu_backend().zip_grad(zip_op<F>, kOperand, a, b, dy, expected);
      CHECK(same_bits(dx, expected));
    } else {
      std::vector<double> truth;
      const auto p = values_of(a), q = values_of(b), g = values_of(dy);
      for (std::size_t i = 0; i < p.size(); ++i) {
        truth.push_back(kOperand == 0 ? F::grad_a(p[i], q[i], g[i]) : F::grad_b(p[i], q[i], g[i]));
      }
      CHECK(close(values_of(on_host(dx)), truth, rounding_of(dtype, 2e-6)));
    }
  }
}

template <class F>
void check_rule() {
  for (DType dtype : types<F>()) {
    for (Pair pair : kPairs) {
      CAPTURE(dtype);
      CAPTURE(int(pair));
      CAPTURE(int(zip_op<F>));
      check_forward<F>(dtype, pair);
      if (is_floating(dtype)) {
        check_grad<F, 0>(dtype, pair);
        check_grad<F, 1>(dtype, pair);
      }
    }
  }
}

template <class... F>
void check_rules(OpList<F...>) {
  (check_rule<F>(), ...);
}

}  // namespace

TEST_CASE("zip: every rule, type and layout, and its derivatives") {
  check_rules(ZipOps{});
  CHECK(cudasim::violations().empty());
}

TEST_CASE("zip: every length around packs and blocks, aligned and not") {
  for (DType dtype : {float32, bfloat16, int64}) {
    for (std::int64_t n : {1, 2, 3, 4, 5, 7, 8, 9, 255, 256, 257, 1025}) {
      for (Lie lie : {Lie::row_major, Lie::shifted}) {
        CAPTURE(dtype);
        CAPTURE(n);
        const auto a = whole_numbers(n, 1), b = whole_numbers(n, 2);
        Array y = on_gpu(garbage({n}, dtype, lie)), less = on_gpu(garbage({n}, DType::boolean));
        const Array x = on_gpu(lying(lie, a, {n}, dtype)), z = on_gpu(lying(lie, b, {n}, dtype));
        cuda_backend().zip(zip_op<Sub>, x, z, y);
        cuda_backend().zip(zip_op<Lt>, x, z, less);
        CHECK(values_of(on_host(y)) == each(a, b, [](double v, double w) { return v - w; }));
        CHECK(values_of(on_host(less)) == each(a, b, [](double v, double w) { return v < w; }));
        CHECK(gaps_are_intact(on_host(y)));
        CHECK(gaps_are_intact(on_host(less)));
      }
    }
  }
}

TEST_CASE("zip: a may be its own result") {
  for (Lie lie : kLies) {
    CAPTURE(int(lie));
    const auto a = whole_numbers(60, 1), b = whole_numbers(60, 2);
    Array x = on_gpu(lying(lie, a, {3, 20}));
    cuda_backend().zip(zip_op<Add>, x, on_gpu(lying(Lie::row_major, b, {3, 20})), x);
    CHECK(values_of(on_host(x)) == each(a, b, [](double v, double w) { return v + w; }));
  }
}

TEST_CASE("zip_grad: an operand that the formula does not need may be missing") {
  const Array b = on_gpu(array_of({1, 2, 3}, {3})), dy = on_gpu(array_of({4, 5, 6}, {3}));
  Array dx = on_gpu(garbage({3}, float32));
  cuda_backend().zip_grad(zip_op<Mul>, 0, {}, b, dy, dx);
  CHECK(doubles(dx) == std::vector<double>{4, 10, 18});
}

TEST_CASE("where: every size of an element, in packs and in any layout") {
  for (DType dtype : kEveryType) {
    for (Lie lie : kLies) {
      for (std::int64_t n : {1, 16, 17, 67}) {
        CAPTURE(dtype);
        CAPTURE(int(lie));
        CAPTURE(n);
        const Shape shape{2, n};
        const auto chosen = each(whole_numbers(2 * n, 1), [](double v) { return v > 0; });
        const auto magnitude = [](double v) { return std::fabs(v); };
        const auto a = each(whole_numbers(2 * n, 2), magnitude);
        const auto b = each(whole_numbers(2 * n, 3), magnitude);
        const Array condition = lying(lie, chosen, shape, DType::boolean);
        const Array x = lying(lie, a, shape, dtype);
        const Array z = lying(Lie::row_major, b, shape, dtype);
        Array y = on_gpu(garbage(shape, dtype, lie)), expected = garbage(shape, dtype);
        cpu_backend().where(condition, x, z, expected);
        cuda_backend().where(on_gpu(condition), on_gpu(x), on_gpu(z), y);
        CHECK(same_bits(y, expected));
      }
    }
  }
}

TEST_CASE("zip: float64 is refused by name, with the way out") {
  const Array x = Array::empty({3}, float64, cuda(0));
  Array y = Array::empty({3}, float64, cuda(0));
  const auto refused = [](auto f) {
    return throws<UsageError>(f, {"float64 is not computed on cuda:0", "to(float32)"});
  };
  CHECK(refused([&] { cuda_backend().zip(zip_op<Add>, x, x, y); }));
  CHECK(refused([&] { cuda_backend().zip_grad(zip_op<Mul>, 0, {}, x, x, y); }));
}
