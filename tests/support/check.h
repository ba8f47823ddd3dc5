// What tests are made of: comparing, catching, and numbers that are the same on every machine.
//
// Values come back as doubles without going through the library's casts, so a test compares with an
// independent truth. close() explains itself: CHECK(close(y, {1.0, 2.0})) prints the worst element.
// Nothing here needs doctest. Next: op_table.h (one row per op).
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

#include <tandem/core/numerics.h>
#include <tandem/core/tensor.h>

namespace tandem::test {

// ---- the devices that tests run on

/// Device `index` of the kind under test: a CPU, or what TANDEM_TEST_DEVICE says (cuda). dev(0) is
/// also where factories put tensors, so a test that names no device runs on that kind too.
Device dev(int index);
/// dev(index) as messages print it.
const char* dev_name(int index);
/// Does the kind under test compute in float64? GPUs do not.
bool has_float64();
/// The floating types that it computes in.
std::vector<DType> float_types();
/// Is it a GPU? A simulated one takes some 30 us a kernel: what launches very many does fewer.
bool on_gpu();

// ---- numbers

/// Uniform in [0, 1): a function of (seed, i) alone, written here, not taken from the library.
double hash_uniform(std::uint64_t seed, std::uint64_t i);
/// `n` of them, stretched to [low, high).
std::vector<double> random_doubles(std::int64_t n, std::uint64_t seed, double low = -1,
                                   double high = 1);

/// The value that one element of `dtype` holds after `x` is stored in it, rounded independently of
/// half.h (to nearest even; integers truncate; bool is x != 0).
double stored_as(DType dtype, double x);

// ---- tensors to and from the host

/// Row-major values as doubles (bool: 0 and 1), whatever the dtype, strides and device.
std::vector<double> doubles(const Array& a);
std::vector<double> doubles(const Tensor& t);

/// A row-major array holding stored_as(dtype, values[i]).
Array array_of(const std::vector<double>& values, const Shape& shape, DType dtype = float32,
               Device device = dev(0));
/// The same as a tensor without history.
Tensor tensor_of(const std::vector<double>& values, const Shape& shape, DType dtype = float32,
                 Device device = dev(0));
/// random_doubles(shape.numel(), seed, low, high) as a tensor.
Tensor random_tensor(const Shape& shape, std::uint64_t seed, DType dtype = float32,
                     Device device = dev(0), double low = -1, double high = 1);

// ---- comparing

/// The outcome of a comparison, with the reason when it failed.
struct Verdict {
  bool ok = true;
  std::string why;
  explicit operator bool() const { return ok; }
};
std::ostream& operator<<(std::ostream& out, const Verdict& verdict);

/// |actual - expected| <= absolute + relative |expected|, element by element. Equal infinities are
/// close, and so are two NaNs.
struct Tolerance {
  double relative = 1e-5;
  double absolute = 1e-6;
};
Verdict close(double actual, double expected, Tolerance tolerance = {});
Verdict close(const std::vector<double>& actual, const std::vector<double>& expected,
              Tolerance tolerance = {});
/// Also compares the number of elements; shapes are compared by the caller where they matter.
Verdict close(const Tensor& actual, const std::vector<double>& expected, Tolerance tolerance = {});
/// Shapes must be equal; undefined is close to undefined only. dtypes and devices may differ.
Verdict close(const Tensor& actual, const Tensor& expected, Tolerance tolerance = {});
Verdict close(const Array& actual, const Array& expected, Tolerance tolerance = {});

/// Same shape, dtype and bits, so that -0 differs from 0 and NaN equals itself; devices may differ.
Verdict bits_equal(const Array& a, const Array& b);
Verdict bits_equal(const Tensor& a, const Tensor& b);

bool contains(const std::string& text, const std::string& part);

// ---- errors

/// The message of the E that `f` throws; "nothing was thrown" or "another error: ..." otherwise.
template <class E, class F>
std::string thrown_message(F&& f) {
  try {
    f();
  } catch (const E& e) {
    return e.what();
  } catch (const std::exception& e) {
    return std::string("another error: ") + e.what();
  } catch (...) {
    return "something that is no std::exception";
  }
  return "nothing was thrown";
}

/// Does `f` throw an E whose message contains all of `parts`?
template <class E, class F>
Verdict throws(F&& f, std::initializer_list<const char*> parts = {}) {
  std::string message;
  bool right = false;
  const auto note = [&] {  // an E's message, or why it is none
    try {
      f();
    } catch (const E&) {
      right = true;
      throw;
    }
  };
  message = thrown_message<E>(note);
  if (!right) return {false, message};
  for (const char* part : parts) {
    if (!contains(message, part)) return {false, "no \"" + std::string(part) + "\" in: " + message};
  }
  return {true, message};
}

// ---- devices and memory

/// dev(0) .. dev(n-1)
std::vector<Device> devs(int n);

/// Leaves freed blocks of every small size class behind, filled with `byte`, so that a kernel that
/// forgets an element, or reads what it should write, is seen: 0xff is NaN in every float type.
void litter_pool(Device device, unsigned char byte = 0xff);

/// Bytes in use on `device`.
std::int64_t bytes_in_use(Device device);

// ---- which library computes

/// oneDNN on or off while it lives. REQUIRES: available, to be on.
struct UseOneDnn {
  explicit UseOneDnn(bool on) {
    if (on || onednn_available()) set_onednn(on);
  }
  ~UseOneDnn() {
    if (onednn_available()) set_onednn(before);
  }
  const bool before = onednn();
};

// ---- processes

/// Runs `f` in a forked child and gives what it returned, or a line that starts with "died:".
std::string in_child(const std::function<std::string()>& f);

/// Runs one test case, marked doctest::skip(), in a process of its own with `environment`
/// ("NAME=value") set; for what only the first use of the library decides. True if it passed.
bool passes_alone(const std::string& test_case, const std::string& environment = "NOTHING=");

/// What main() does first, when all static objects are there; see op_checks.h.
std::vector<std::function<void()>>& before_tests();

}  // namespace tandem::test
