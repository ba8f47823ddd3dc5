// The types of an element.
//
// float32, float64, float16, bfloat16, int64 and bool take part in arithmetic; int32 and uint8 are
// for storage: cast, copied, printed. See half.h for the 16-bit floats and promote() for what
// happens when two types meet.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <type_traits>

#include <tandem/core/half.h>

namespace tandem {

enum class DType : std::uint8_t {
  float32,
  float64,
  float16,
  bfloat16,
  int64,
  int32,
  uint8,
  boolean
};

inline constexpr DType float32 = DType::float32;
inline constexpr DType float64 = DType::float64;
inline constexpr DType float16 = DType::float16;
inline constexpr DType bfloat16 = DType::bfloat16;
inline constexpr DType int64 = DType::int64;
inline constexpr DType int32 = DType::int32;
inline constexpr DType uint8 = DType::uint8;
inline constexpr DType boolean = DType::boolean;

/// "float32", ..., "bool".
const char* name(DType dtype);
std::ostream& operator<<(std::ostream& out, DType dtype);

/// Bytes of one element.
constexpr std::size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::float64:
    case DType::int64:
      return 8;
    case DType::float32:
    case DType::int32:
      return 4;
    case DType::float16:
    case DType::bfloat16:
      return 2;
    default:
      return 1;
  }
}

constexpr bool is_floating(DType dtype) {
  return dtype <= DType::bfloat16;
}

/// int32 and uint8 are storage types: arithmetic refuses them.
constexpr bool is_storage_only(DType dtype) {
  return dtype == DType::int32 || dtype == DType::uint8;
}

/// The type that holds both, as in PyTorch: any float beats any integer, the wider one wins,
/// float16 with bfloat16 gives float32.
DType promote(DType a, DType b);

template <class T>
struct DTypeOf;
// clang-format off
template <> struct DTypeOf<float> { static constexpr DType value = DType::float32; };
template <> struct DTypeOf<double> { static constexpr DType value = DType::float64; };
template <> struct DTypeOf<Half> { static constexpr DType value = DType::float16; };
template <> struct DTypeOf<BFloat16> { static constexpr DType value = DType::bfloat16; };
template <> struct DTypeOf<std::int64_t> { static constexpr DType value = DType::int64; };
template <> struct DTypeOf<long long> { static constexpr DType value = DType::int64; };
template <> struct DTypeOf<std::int32_t> { static constexpr DType value = DType::int32; };
template <> struct DTypeOf<std::uint8_t> { static constexpr DType value = DType::uint8; };
template <> struct DTypeOf<bool> { static constexpr DType value = DType::boolean; };
// clang-format on

/// The DType of a C++ type; a compile-time error for a type no tensor can hold.
template <class T>
inline constexpr DType dtype_of = DTypeOf<std::remove_cv_t<T>>::value;

}  // namespace tandem
