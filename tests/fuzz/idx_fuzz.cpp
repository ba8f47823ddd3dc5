// IDX files: what is accepted has exactly the elements that follow the header.
#include <tandem/data/idx.h>

#include "fuzz.h"

using namespace tandem;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return fuzz::run(
      data, size, [](std::string_view bytes) { return data::parse_idx(bytes, "fuzz"); },
      [size](const Tensor& x) {
        fuzz::require(4 + 4 * std::size_t(x.dim()) + std::size_t(x.array().nbytes()) == size);
        fuzz::require(x.is_contiguous());
      });
}
