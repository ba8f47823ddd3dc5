// CIFAR-10 files: what is accepted is whole records, labels from 0 to 9, pixels from 0 to 1.
#include <tandem/data/cifar10.h>

#include "fuzz.h"

using namespace tandem;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return fuzz::run(
      data, size, [](std::string_view bytes) { return data::parse_cifar10(bytes, "fuzz"); },
      [size](const data::TensorDataset& set) {
        fuzz::require(std::size_t(set.size()) * 3073 == size);
        for (const std::int64_t y : set.y.to_vector<std::int64_t>()) {
          fuzz::require(0 <= y && y <= 9);
        }
        for (const float x : set.x.to_vector<float>()) fuzz::require(0 <= x && x <= 1);
      });
}
