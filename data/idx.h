// IDX: the format of MNIST and its relatives, one array of numbers in a file.
//
//   2 bytes   0
//   1 byte    type: 8 uint8, 12 int32, 13 float32, 14 float64
//   1 byte    number of dimensions
//   4 bytes   each: a size, big-endian
//   the rest  the elements, row-major, big-endian
//
// Next: fashion_mnist.h.
#pragma once

#include <string>
#include <string_view>

#include <tandem/core/tensor.h>

namespace tandem::data {

/// Reads a file, plain or gzip, onto the thread's default device. Throws UsageError naming the
/// file: none there, not IDX, another type, too many dimensions, sizes whose product overflows,
/// elements that are missing or too many.
Tensor read_idx(const std::string& path);
/// The same from memory; `name` is for messages.
Tensor parse_idx(std::string_view bytes, const std::string& name);

}  // namespace tandem::data
