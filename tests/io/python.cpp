// Files that Python's safetensors wrote (tests/golden/make_safetensors.py), whose values are given
// here as formulas.
#include <doctest/doctest.h>

#include <limits>
#include <string>

#include <tandem/core/error.h>
#include <tandem/io/checkpoint.h>

#include "tests/nn/nets.h"
#include "tests/support/check.h"
#include "tests/support/temporary_file.h"

using namespace tandem;
using namespace tandem::test;

#ifdef TANDEM_JSON
namespace {

std::string data_file(const std::string& name) {
  return str(TANDEM_IO_DATA, "/", name, ".safetensors");
}

}  // namespace

TEST_CASE("Python's safetensors: all types, 0 dimensions, 0 elements and metadata are read") {
  const io::TensorFile file = io::read_safetensors(data_file("all_types"));
  CHECK(file.tensors.size() == 11);
  for (const auto& [name, dtype] :
       {std::pair{"f32", float32}, {"f64", float64}, {"f16", float16}, {"bf16", bfloat16}}) {
    CAPTURE(name);
    CHECK(bits_equal(file.tensors.at(name),
                     tensor_of({-1, -0.75, -0.5, -0.25, 0, 0.25}, {2, 3}, dtype)));
  }
  for (const auto& [name, dtype] : {std::pair{"i64", int64}, {"i32", int32}, {"u8", uint8}}) {
    CAPTURE(name);
    CHECK(bits_equal(file.tensors.at(name), tensor_of({1, 2, 3, 4, 5, 6}, {2, 3}, dtype)));
  }
  CHECK(bits_equal(file.tensors.at("bool"), tensor_of({1, 0, 1}, {3}, boolean)));
  CHECK(bits_equal(file.tensors.at("scalar"), tensor_of({2.5}, {})));
  CHECK(file.tensors.at("empty").shape() == Shape{0, 3});
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  CHECK(
      bits_equal(file.tensors.at("special"), tensor_of({kNan, kInfinity, -kInfinity, -0.0}, {4})));
  CHECK(file.metadata ==
        io::Metadata{{"made by", "Python \"safetensors\"\n\t\\ \u00e9 \u65e5\u672c \x01"}});
}

TEST_CASE("Python's safetensors: what we write of the same tensors has the same bytes") {
  for (const char* name : {"all_types", "float32", "none", "net", "wrapped_net"}) {
    CAPTURE(name);
    const io::TensorFile file = io::read_safetensors(data_file(name));
    CHECK(io::format_safetensors(file.tensors, file.metadata) == file_bytes(data_file(name)));
  }
}

TEST_CASE("Python's safetensors: a type that we have not is refused by name") {
  CHECK(throws<UsageError>([] { io::read_safetensors(data_file("int16")); },
                           {"int16.safetensors", "'x'", "'I16'"}));
}

TEST_CASE("Python's safetensors: a net of PyTorch, plain or wrapped, computes what it did there") {
  for (const char* name : {"net", "wrapped_net"}) {
    CAPTURE(name);
    Net net;
    load(net, data_file(name));
    // Printed by the script. Five sums of float32 in another order: a few units in the last place.
    CHECK(close(net(tensor_of({0.5, 0.25, -1}, {1, 3})),
                {-0.11304674297571182, 0.10867875814437866}, {1e-6, 1e-7}));
  }
}
#endif
