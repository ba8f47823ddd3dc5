// The arrays that a library's operation (blas/, dnn/) reads and writes: where they lie, and what
// numbers they hold. Strided views of up to five dimensions; a matrix of column-major storage is
// {columns, rows} with strides {ld, 1}.
// Next: library.h, which queues an operation on operands.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace cudasim {

enum class Real { float32, float16, bfloat16, float64 };

std::size_t size_of(Real type);
double load(Real type, const char* p);
void store(Real type, char* p, double value);  // rounded once, to nearest even

enum class Access { read, write, update };  // update: both

struct Operand {
  const char* name;  // as the library's documentation calls it
  const void* data;
  Real type;
  std::vector<std::int64_t> dims, strides;  // in elements
  Access access;

  bool reads() const { return access != Access::write; }
  bool writes() const { return access != Access::read; }
  bool empty() const;
  std::int64_t count() const;
};

// A stretch of memory without holes.
struct Run {
  const char* begin;
  std::size_t bytes;
};

// The memory of an operand, in the longest runs there are, by address. Elements that dimensions of
// stride 0 repeat are listed once.
std::vector<Run> runs_of(const Operand& operand);

bool overlap(const std::vector<Run>& a, const std::vector<Run>& b);
bool overlaps_itself(const Operand& operand);  // does an element have two indices?

// How factors of a product are rounded first: what tensor cores do where they are allowed.
enum class Inputs { exact, tf32, float16, bfloat16 };

// All elements, the last dimension running fastest.
std::vector<double> read_all(const Operand& operand, Inputs inputs = Inputs::exact);
void write_all(const Operand& operand, const std::vector<double>& values);

// operand = alpha values + beta operand. With beta = 0 the operand is not read: 0 times NaN would
// be NaN.
void write_scaled(const Operand& operand, std::vector<double> values, double alpha, double beta);

}  // namespace cudasim
