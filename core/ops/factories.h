// Making tensors. Defaults: float32 on the thread's default device, no gradient (TensorOptions).
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include <tandem/core/tensor.h>

namespace tandem {

Tensor empty(const Shape& shape, const TensorOptions& options = {});  // uninitialised
Tensor zeros(const Shape& shape, const TensorOptions& options = {});
Tensor ones(const Shape& shape, const TensorOptions& options = {});
Tensor full(const Shape& shape, Scalar value, const TensorOptions& options = {});
Tensor empty_like(const Tensor& x);
Tensor zeros_like(const Tensor& x);
Tensor ones_like(const Tensor& x);
Tensor full_like(const Tensor& x, Scalar value);
Tensor eye(std::int64_t rows, std::int64_t columns = -1, const TensorOptions& options = {});

/// 0, 1, ..., stop-1 (int64), or start, start + step, ... below stop.
Tensor arange(std::int64_t stop, const TensorOptions& options = {});
Tensor arange(Scalar start, Scalar stop, Scalar step = 1, const TensorOptions& options = {});

/// Uniform in [0, 1), standard normal; drawn from default_generator() (random.h).
Tensor rand(const Shape& shape, const TensorOptions& options = {});
Tensor randn(const Shape& shape, const TensorOptions& options = {});
/// Integers (int64) in [low, high).
Tensor randint(std::int64_t low, std::int64_t high, const Shape& shape,
               const TensorOptions& options = {});
Tensor randint(std::int64_t high, const Shape& shape, const TensorOptions& options = {});
/// 0 .. n-1 (int64) in random order.
Tensor randperm(std::int64_t n, const TensorOptions& options = {});

/// Copies host values; dtype from T unless options say otherwise.
/// REQUIRES: values.size() == shape.numel().
template <class T>
Tensor from_vector(const std::vector<T>& values, const Shape& shape,
                   const TensorOptions& options = {});
/// One-dimensional.
template <class T>
Tensor from_vector(const std::vector<T>& values, const TensorOptions& options = {}) {
  return from_vector(values, Shape{std::int64_t(values.size())}, options);
}
/// tensor({1.0, 2.0}) is float32, tensor({1, 2}) int64, tensor(3.0) has no dimensions.
Tensor tensor(std::initializer_list<double> values, const TensorOptions& options = {});
Tensor tensor(std::initializer_list<float> values, const TensorOptions& options = {});
Tensor tensor(std::initializer_list<int> values, const TensorOptions& options = {});
Tensor tensor(std::initializer_list<bool> values, const TensorOptions& options = {});
Tensor tensor(Scalar value, const TensorOptions& options = {});

}  // namespace tandem
