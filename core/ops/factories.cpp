#include <tandem/core/ops/factories.h>

#include <cmath>

#include <tandem/core/array_ops.h>
#include <tandem/core/ops/operands.h>
#include <tandem/core/random.h>

namespace tandem {
namespace {

Device device_of(const TensorOptions& options) {
  return options.device.value_or(thread_state().default_device);
}

Tensor finish(Array value, const TensorOptions& options) {
  Tensor t(std::move(value));
  if (options.requires_grad) t.requires_grad_();
  return t;
}

Tensor filled(const Shape& shape, double value, const TensorOptions& options) {
  return finish(
      Array::full(shape, value, options.dtype.value_or(DType::float32), device_of(options)),
      options);
}

// ---- from the host

template <class T>
constexpr bool is_16_bit_float = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;

template <class To, class From>
To convert(From x) {
  if constexpr (std::is_same_v<To, From>) {
    return x;
  } else if constexpr (is_16_bit_float<From>) {
    return convert<To>(float(x));
  } else if constexpr (is_16_bit_float<To>) {
    return To(float(x));
  } else if constexpr (std::is_same_v<To, bool>) {
    return x != From(0);
  } else {
    return static_cast<To>(x);
  }
}

template <class To, class From>
Array upload_as(const std::vector<From>& values, const Shape& shape, Device device) {
  const auto to = std::make_unique<To[]>(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) to[i] = convert<To, From>(values[i]);
  return Array::from_host(to.get(), shape, dtype_of<To>, device);
}

// Converts on the host: a device need not know the type of the source.
template <class From>
Array upload(const std::vector<From>& values, const Shape& shape, DType dtype, Device device) {
  switch (dtype) {
    case DType::float32:
      return upload_as<float>(values, shape, device);
    case DType::float64:
      return upload_as<double>(values, shape, device);
    case DType::float16:
      return upload_as<Half>(values, shape, device);
    case DType::bfloat16:
      return upload_as<BFloat16>(values, shape, device);
    case DType::int64:
      return upload_as<std::int64_t>(values, shape, device);
    case DType::int32:
      return upload_as<std::int32_t>(values, shape, device);
    case DType::uint8:
      return upload_as<std::uint8_t>(values, shape, device);
    default:
      return upload_as<bool>(values, shape, device);
  }
}

template <class T>
Tensor from_list(std::initializer_list<T> list, DType dtype, const TensorOptions& options) {
  const std::vector<T> values(list);
  const Shape shape{std::int64_t(values.size())};
  return finish(upload(values, shape, options.dtype.value_or(dtype), device_of(options)), options);
}

// ---- random numbers

// `draw` gets the default generator, or inside a replica one that no other thread uses.
template <class Draw>
void with_generator(Draw draw) {
  if (current_replica().active()) {
    Generator own = replica_generator();
    draw(own);
  } else {
    draw(default_generator());
  }
}

template <class T, class Draw>
Tensor drawn(const Shape& shape, DType dtype, const TensorOptions& options, Draw draw) {
  for (std::int64_t size : shape) check(size >= 0, "[random] a size is negative: ", shape);
  std::vector<T> values(std::size_t(shape.numel()));
  with_generator([&](Generator& g) { draw(g, values); });
  return finish(upload(values, shape, dtype, device_of(options)), options);
}

template <class Draw>
Tensor drawn_real(const char* op, const Shape& shape, const TensorOptions& options, Draw draw) {
  const DType dtype = options.dtype.value_or(DType::float32);
  check(is_floating(dtype), "[", op, "] draws real numbers, not ", dtype,
        ". Use randint for integers");
  return dtype == DType::float64 ? drawn<double>(shape, dtype, options, draw)
                                 : drawn<float>(shape, dtype, options, draw);
}

}  // namespace

// ---- values

Tensor empty(const Shape& shape, const TensorOptions& options) {
  return finish(Array::empty(shape, options.dtype.value_or(DType::float32), device_of(options)),
                options);
}

Tensor zeros(const Shape& shape, const TensorOptions& options) {
  return filled(shape, 0, options);
}

Tensor ones(const Shape& shape, const TensorOptions& options) {
  return filled(shape, 1, options);
}

Tensor full(const Shape& shape, Scalar value, const TensorOptions& options) {
  return filled(shape, value.to_double(), options);
}

Tensor empty_like(const Tensor& x) {
  return Tensor(Array::empty_like(operand("empty_like", x, "x")));
}

Tensor full_like(const Tensor& x, Scalar value) {
  Array y = Array::empty_like(operand("full_like", x, "x"));
  fill(y, value.to_double());
  return Tensor(std::move(y));
}

Tensor zeros_like(const Tensor& x) {
  return full_like(x, 0);
}

Tensor ones_like(const Tensor& x) {
  return full_like(x, 1);
}

Tensor eye(std::int64_t rows, std::int64_t columns, const TensorOptions& options) {
  if (columns == -1) columns = rows;
  Tensor t = zeros({rows, columns}, {.dtype = options.dtype, .device = options.device});
  Array diagonal =
      t.array().as_strided({std::min(rows, columns)}, {columns + 1}, 0);  // every columns + 1
  fill(diagonal, 1);
  return finish(t.array(), options);
}

Tensor arange(std::int64_t stop, const TensorOptions& options) {
  return arange(std::int64_t(0), stop, std::int64_t(1), options);
}

Tensor arange(Scalar start, Scalar stop, Scalar step, const TensorOptions& options) {
  const double first = start.to_double(), last = stop.to_double(), by = step.to_double();
  check(by != 0 && (last - first) / by >= 0, "[arange] steps of ", by, " do not lead from ", first,
        " to ", last);
  const auto n = std::size_t(std::ceil((last - first) / by));
  const bool integers =
      !is_floating(start.dtype()) && !is_floating(stop.dtype()) && !is_floating(step.dtype());
  const DType dtype = options.dtype.value_or(integers ? DType::int64 : DType::float32);
  const Shape shape{std::int64_t(n)};
  if (integers) {
    std::vector<std::int64_t> values(n);
    for (std::size_t i = 0; i < n; ++i) {
      values[i] = start.to_int64() + std::int64_t(i) * step.to_int64();
    }
    return finish(upload(values, shape, dtype, device_of(options)), options);
  }
  std::vector<double> values(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = first + double(i) * by;
  return finish(upload(values, shape, dtype, device_of(options)), options);
}

template <class T>
Tensor from_vector(const std::vector<T>& values, const Shape& shape, const TensorOptions& options) {
  check(std::int64_t(values.size()) == shape.numel(), "[from_vector] ", values.size(),
        " values for a tensor of shape ", shape);
  return finish(upload(values, shape, options.dtype.value_or(dtype_of<T>), device_of(options)),
                options);
}
template Tensor from_vector(const std::vector<float>&, const Shape&, const TensorOptions&);
template Tensor from_vector(const std::vector<double>&, const Shape&, const TensorOptions&);
template Tensor from_vector(const std::vector<Half>&, const Shape&, const TensorOptions&);
template Tensor from_vector(const std::vector<BFloat16>&, const Shape&, const TensorOptions&);
template Tensor from_vector(const std::vector<long>&, const Shape&, const TensorOptions&);
template Tensor from_vector(const std::vector<long long>&, const Shape&, const TensorOptions&);
template Tensor from_vector(const std::vector<std::int32_t>&, const Shape&, const TensorOptions&);
template Tensor from_vector(const std::vector<std::uint8_t>&, const Shape&, const TensorOptions&);
template Tensor from_vector(const std::vector<bool>&, const Shape&, const TensorOptions&);

Tensor tensor(std::initializer_list<double> values, const TensorOptions& options) {
  return from_list(values, DType::float32, options);
}
Tensor tensor(std::initializer_list<float> values, const TensorOptions& options) {
  return from_list(values, DType::float32, options);
}
Tensor tensor(std::initializer_list<int> values, const TensorOptions& options) {
  return from_list(values, DType::int64, options);
}
Tensor tensor(std::initializer_list<bool> values, const TensorOptions& options) {
  return from_list(values, DType::boolean, options);
}
Tensor tensor(Scalar value, const TensorOptions& options) {
  return finish(constant(value, options.dtype.value_or(value.dtype()), device_of(options)),
                options);
}

// ---- random numbers

Tensor rand(const Shape& shape, const TensorOptions& options) {
  // A 16-bit float takes as many of the low bits as it has digits: rounding 24 bits could give 1.
  const DType dtype = options.dtype.value_or(DType::float32);
  const double skip = dtype == DType::float16 ? 0x1p13 : dtype == DType::bfloat16 ? 0x1p16 : 1;
  return drawn_real("rand", shape, options, [skip](Generator& g, auto& values) {
    g.uniform(std::span(values), 0, 1);
    if (skip == 1) return;
    for (auto& x : values) x = float(std::fmod(double(x) * skip, 1.0));
  });
}

Tensor randn(const Shape& shape, const TensorOptions& options) {
  return drawn_real("randn", shape, options,
                    [](Generator& g, auto& values) { g.normal(std::span(values), 0, 1); });
}

Tensor randint(std::int64_t low, std::int64_t high, const Shape& shape,
               const TensorOptions& options) {
  return drawn<std::int64_t>(
      shape, options.dtype.value_or(DType::int64), options,
      [&](Generator& g, auto& values) { g.integers(std::span(values), low, high); });
}

Tensor randint(std::int64_t high, const Shape& shape, const TensorOptions& options) {
  return randint(0, high, shape, options);
}

Tensor randperm(std::int64_t n, const TensorOptions& options) {
  check(n >= 0, "[randperm] n is negative: ", n);
  return drawn<std::int64_t>({n}, options.dtype.value_or(DType::int64), options,
                             [n](Generator& g, auto& values) { values = g.permutation(n); });
}

}  // namespace tandem
