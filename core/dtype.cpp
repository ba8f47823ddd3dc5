#include <tandem/core/dtype.h>

#include <algorithm>
#include <ostream>

namespace tandem {

const char* name(DType dtype) {
  static constexpr const char* names[] = {"float32", "float64", "float16", "bfloat16",
                                          "int64",   "int32",   "uint8",   "bool"};
  return names[std::size_t(dtype)];
}

std::ostream& operator<<(std::ostream& out, DType dtype) {
  return out << name(dtype);
}

DType promote(DType a, DType b) {
  if (a == b) return a;
  // From narrow to wide; the two 16-bit floats share a rank, and only float32 holds both.
  auto rank = [](DType t) {
    switch (t) {
      case DType::boolean:
        return 0;
      case DType::uint8:
        return 1;
      case DType::int32:
        return 2;
      case DType::int64:
        return 3;
      case DType::float16:
      case DType::bfloat16:
        return 4;
      case DType::float32:
        return 5;
      default:
        return 6;
    }
  };
  if (rank(a) == rank(b)) return DType::float32;
  return rank(a) > rank(b) ? a : b;
}

}  // namespace tandem
