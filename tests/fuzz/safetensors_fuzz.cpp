// Safetensors files: what is accepted is written, and reading that gives the same bytes again.
#include <string>

#include <tandem/io/safetensors.h>

#include "fuzz.h"

using namespace tandem;

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return fuzz::run(
      data, size, [](std::string_view bytes) { return io::parse_safetensors(bytes, "fuzz"); },
      [](const io::TensorFile& file) {
        const std::string bytes = io::format_safetensors(file.tensors, file.metadata);
        const io::TensorFile again = io::parse_safetensors(bytes, "again");
        fuzz::require(again.tensors.size() == file.tensors.size());
        fuzz::require(io::format_safetensors(again.tensors, again.metadata) == bytes);
      });
}

// Nearly every change makes the length at the beginning wrong, and nothing behind it would be
// reached. So half of the mutants get the length right again: up to the last brace.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t most, unsigned seed) {
  size = LLVMFuzzerMutate(data, size, most);
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::size_t brace = bytes.rfind('}');
  if (seed % 2 == 0 && brace != bytes.npos && brace >= 8) {
    const std::size_t length = brace + 1 - 8;
    for (int i = 0; i < 8; ++i) data[i] = std::uint8_t(length >> 8 * i);
  }
  return size;
}
