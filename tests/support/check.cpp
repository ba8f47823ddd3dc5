// See check.h. The conversions to and from 16-bit floats are arithmetic (frexp, nearbyint), unlike
// the library's, which shift bits.
#include "tests/support/check.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cfenv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <ostream>

#include <tandem/core/memory.h>

namespace tandem::test {

// ---- numbers

double hash_uniform(std::uint64_t seed, std::uint64_t i) {
  // splitmix64's finaliser over a mix of both
  std::uint64_t z = (seed + 1) * 0x9e3779b97f4a7c15ull + i * 0xd1b54a32d192ed03ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  z ^= z >> 31;
  return double(z >> 11) * 0x1p-53;
}

std::vector<double> random_doubles(std::int64_t n, std::uint64_t seed, double low, double high) {
  std::vector<double> values(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = low + (high - low) * hash_uniform(seed, i);
  }
  return values;
}

namespace {

// A binary float with `digits` significant bits, smallest normal exponent `low` (of 1.m form) and
// largest value `max`: rounds |x| to a multiple of its unit in the last place, ties to even.
double round_to(double x, int digits, int low, double max) {
  if (!std::isfinite(x) || x == 0) return x;
  const int exponent = std::max(std::ilogb(x), low);
  const double unit = std::ldexp(1.0, exponent - digits + 1);
  const double rounded = std::nearbyint(x / unit) * unit;
  return std::fabs(rounded) > max ? std::copysign(HUGE_VAL, x) : rounded;
}

double decode(std::uint16_t bits, int mantissa_bits, int bias) {
  const int exponent_bits = 15 - mantissa_bits;
  const int exponent = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  const double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) {
    return mantissa ? std::numeric_limits<double>::quiet_NaN() : sign * HUGE_VAL;
  }
  const double fraction = std::ldexp(double(mantissa), -mantissa_bits) + (exponent ? 1 : 0);
  return sign * std::ldexp(fraction, std::max(exponent, 1) - bias);
}

// `x` must be representable already, or NaN.
std::uint16_t encode(double x, int mantissa_bits, int bias) {
  const int all_ones = (1 << (15 - mantissa_bits)) - 1;
  const int sign = std::signbit(x) ? 0x8000 : 0;
  if (std::isnan(x))
    return std::uint16_t(sign | (all_ones << mantissa_bits) | 1 << (mantissa_bits - 1));
  if (std::isinf(x)) return std::uint16_t(sign | (all_ones << mantissa_bits));
  if (x == 0) return std::uint16_t(sign);
  const int exponent = std::max(std::ilogb(x), 1 - bias);
  const double scaled = std::ldexp(std::fabs(x), mantissa_bits - exponent);  // below 2^(bits + 1)
  const int integer = int(scaled);
  const int implicit = 1 << mantissa_bits;
  if (integer < implicit) return std::uint16_t(sign | integer);  // subnormal
  return std::uint16_t(sign | ((exponent + bias) << mantissa_bits) | (integer - implicit));
}

template <class T>
T load(const std::byte* p) {
  T x;
  std::memcpy(&x, p, sizeof x);
  return x;
}

double element(const std::byte* p, DType dtype) {
  switch (dtype) {
    case DType::float32:
      return double(load<float>(p));
    case DType::float64:
      return load<double>(p);
    case DType::float16:
      return decode(load<std::uint16_t>(p), 10, 15);
    case DType::bfloat16:
      return decode(load<std::uint16_t>(p), 7, 127);
    case DType::int64:
      return double(load<std::int64_t>(p));
    case DType::int32:
      return double(load<std::int32_t>(p));
    case DType::uint8:
      return double(load<std::uint8_t>(p));
    case DType::boolean:
      return double(load<std::uint8_t>(p));
  }
  return 0;
}

template <class T>
void store(std::byte* p, T x) {
  std::memcpy(p, &x, sizeof x);
}

void store_element(std::byte* p, DType dtype, double x) {
  switch (dtype) {
    case DType::float32:
      return store(p, float(x));
    case DType::float64:
      return store(p, x);
    case DType::float16:
      return store(p, encode(stored_as(dtype, x), 10, 15));
    case DType::bfloat16:
      return store(p, encode(stored_as(dtype, x), 7, 127));
    case DType::int64:
      return store(p, std::int64_t(x));
    case DType::int32:
      return store(p, std::int32_t(x));
    case DType::uint8:
      return store(p, std::uint8_t(x));
    case DType::boolean:
      return store(p, std::uint8_t(x != 0));
  }
}

std::vector<std::byte> host_bytes(const Array& a) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(a.nbytes()));
  a.copy_to_host(bytes.data());
  return bytes;
}

}  // namespace

double stored_as(DType dtype, double x) {
  switch (dtype) {
    case DType::float32:
      return double(float(x));
    case DType::float16:
      return round_to(x, 11, -14, 65504);
    case DType::bfloat16:
      return round_to(x, 8, -126, 0x1.fep127);
    case DType::int64:
    case DType::int32:
    case DType::uint8:
      return std::trunc(x);
    case DType::boolean:
      return x != 0;
    default:
      return x;
  }
}

// ---- tensors to and from the host

std::vector<double> doubles(const Array& a) {
  const std::vector<std::byte> bytes = host_bytes(a);
  std::vector<double> values(static_cast<std::size_t>(a.numel()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = element(bytes.data() + i * size_of(a.dtype()), a.dtype());
  }
  return values;
}

std::vector<double> doubles(const Tensor& t) {
  return doubles(t.array());
}

Array array_of(const std::vector<double>& values, const Shape& shape, DType dtype, Device device) {
  check<Error>(std::int64_t(values.size()) == shape.numel(), "array_of: ", values.size(),
               " values for ", shape);
  std::vector<std::byte> bytes(values.size() * size_of(dtype) + 1);  // + 1: data() is never null
  for (std::size_t i = 0; i < values.size(); ++i) {
    store_element(bytes.data() + i * size_of(dtype), dtype, values[i]);
  }
  return Array::from_host(bytes.data(), shape, dtype, device);
}

Tensor tensor_of(const std::vector<double>& values, const Shape& shape, DType dtype,
                 Device device) {
  return Tensor(array_of(values, shape, dtype, device));
}

Tensor random_tensor(const Shape& shape, std::uint64_t seed, DType dtype, Device device, double low,
                     double high) {
  return tensor_of(random_doubles(shape.numel(), seed, low, high), shape, dtype, device);
}

// ---- comparing

std::ostream& operator<<(std::ostream& out, const Verdict& verdict) {
  return out << (verdict.why.empty() ? (verdict.ok ? "yes" : "no") : verdict.why);
}

Verdict close(double actual, double expected, Tolerance tolerance) {
  return close(std::vector<double>{actual}, std::vector<double>{expected}, tolerance);
}

Verdict close(const std::vector<double>& actual, const std::vector<double>& expected,
              Tolerance tolerance) {
  if (actual.size() != expected.size()) {
    return {false, str(actual.size(), " values, expected ", expected.size())};
  }
  std::size_t worst = 0;
  double worst_excess = 0;  // error over allowance
  int failed = 0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double a = actual[i], e = expected[i];
    if (a == e || (std::isnan(a) && std::isnan(e))) continue;
    const double allowed = tolerance.absolute + tolerance.relative * std::fabs(e);
    const double error = std::fabs(a - e);
    if (std::isfinite(e) && error <= allowed) continue;
    ++failed;
    const double excess = std::isfinite(error) ? error / (allowed + 1e-300) : HUGE_VAL;
    if (failed == 1 || excess > worst_excess) worst = i, worst_excess = excess;
  }
  if (failed == 0) return {};
  std::ostringstream why;
  why.precision(9);
  why << failed << " of " << actual.size() << " differ; worst at " << worst << ": " << actual[worst]
      << ", expected " << expected[worst];
  return {false, why.str()};
}

Verdict close(const Tensor& actual, const std::vector<double>& expected, Tolerance tolerance) {
  if (!actual.defined()) return {false, "the tensor is undefined"};
  return close(doubles(actual), expected, tolerance);
}

Verdict close(const Array& actual, const Array& expected, Tolerance tolerance) {
  if (!actual.defined() || !expected.defined()) {
    if (actual.defined() == expected.defined()) return {};
    return {false, actual.defined() ? "expected undefined" : "undefined"};
  }
  if (!(actual.shape() == expected.shape())) {
    return {false, str("shape ", actual.shape(), ", expected ", expected.shape())};
  }
  return close(doubles(actual), doubles(expected), tolerance);
}

Verdict close(const Tensor& actual, const Tensor& expected, Tolerance tolerance) {
  return close(actual.defined() ? actual.array() : Array(),
               expected.defined() ? expected.array() : Array(), tolerance);
}

Verdict bits_equal(const Array& a, const Array& b) {
  if (!a.defined() || !b.defined()) {
    if (a.defined() == b.defined()) return {};
    return {false, a.defined() ? "the second is undefined" : "the first is undefined"};
  }
  if (!(a.shape() == b.shape())) return {false, str("shapes ", a.shape(), " and ", b.shape())};
  if (a.dtype() != b.dtype()) return {false, str("dtypes ", a.dtype(), " and ", b.dtype())};
  const std::vector<std::byte> x = host_bytes(a), y = host_bytes(b);
  const auto where = std::mismatch(x.begin(), x.end(), y.begin()).first;
  if (where == x.end()) return {};
  const std::size_t i = std::size_t(where - x.begin()) / size_of(a.dtype());
  std::ostringstream why;
  why.precision(17);
  why << "first difference at " << i << ": " << doubles(a)[i] << " and " << doubles(b)[i];
  return {false, why.str()};
}

Verdict bits_equal(const Tensor& a, const Tensor& b) {
  return bits_equal(a.defined() ? a.array() : Array(), b.defined() ? b.array() : Array());
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// ---- devices and memory

Device dev(int index) {
  static const Device first = [] {
    const char* kind = std::getenv("TANDEM_TEST_DEVICE");
    return Device::parse(kind == nullptr ? "cpu" : kind);
  }();
  return {first.kind, index};
}

const char* dev_name(int index) {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (Device d : devs(kMaxDevices)) all.push_back(d.str());
    return all;
  }();
  return names.at(std::size_t(index)).c_str();
}

bool has_float64() {
  return !on_gpu();
}

std::vector<DType> float_types() {
  std::vector<DType> types{float32, bfloat16, float16};
  if (has_float64()) types.push_back(float64);
  return types;
}

bool on_gpu() {
  return dev(0).kind != DeviceKind::cpu;
}

std::vector<Device> devs(int n) {
  std::vector<Device> devices;
  for (int i = 0; i < n; ++i) devices.push_back(dev(i));
  return devices;
}

void litter_pool(Device device, unsigned char byte) {
  constexpr std::int64_t kLargest = 64 << 10;
  constexpr int kBlocks = 6;  // of each size class: an op, its gradient and some temporaries
  const std::vector<unsigned char> bytes(std::size_t(kLargest), byte);
  std::vector<Array> held;
  for (std::int64_t size = 64; size <= kLargest; size += std::max<std::int64_t>(64, size / 4)) {
    for (int i = 0; i < kBlocks; ++i) {
      held.push_back(Array::from_host(bytes.data(), Shape{size}, uint8, device));
    }
  }
}

std::int64_t bytes_in_use(Device device) {
  return memory::stats(device).allocated;
}

// ---- processes

std::string in_child(const std::function<std::string()>& f) {
  int ends[2];
  check<Error>(pipe(ends) == 0, "in_child: no pipe");
  const pid_t child = fork();
  check<Error>(child >= 0, "in_child: no fork");
  if (child == 0) {
    std::string said;
    try {
      said = f();
    } catch (const std::exception& e) {
      said = std::string("died: ") + e.what();
    }
    const ssize_t written = write(ends[1], said.data(), said.size());
    _exit(written == ssize_t(said.size()) ? 0 : 1);
  }
  ::close(ends[1]);
  std::string said;
  char buffer[1024];
  for (ssize_t n = 0; (n = read(ends[0], buffer, sizeof buffer)) > 0;) {
    said.append(buffer, std::size_t(n));
  }
  ::close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    return str("died: status ", status, " ", said);
  return said;
}

bool passes_alone(const std::string& test_case, const std::string& environment) {
  char program[4096];
  const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
  check<Error>(length > 0, "passes_alone: which program is this?");
  program[length] = '\0';
  const std::string filter = "--test-case=" + test_case;
  const pid_t child = fork();
  check<Error>(child >= 0, "passes_alone: no fork");
  if (child == 0) {
    std::string setting = environment;
    putenv(setting.data());
    execl(program, program, "--no-skip", "--minimal", filter.c_str(), nullptr);
    _exit(127);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

std::vector<std::function<void()>>& before_tests() {
  static std::vector<std::function<void()>> all;
  return all;
}

}  // namespace tandem::test
