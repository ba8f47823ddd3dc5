// A device for tests of single kernels: PTX text, buffers in host memory, launches with typed
// arguments. No runtime and no streams are involved; every finding of the checks is returned.
#pragma once

#include "ptx/host_memory.h"
#include "ptx/interpreter.h"

#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

namespace cudasim::ptx {

// The kernels of one .cu file, compiled for one architecture ("sm_75"); parsed once per process.
const Module& module_of(const std::string& file, const std::string& architecture);

class PtxDevice : public HostMemory {
 public:
  PtxDevice(const std::string& file, const std::string& architecture)
      : module_(module_of(file, architecture)) {}

  // Arguments must have exactly the types of the kernel's parameters.
  template <class... A>
  std::vector<Finding> launch(const std::string& name, Dim3 grid, Dim3 block, std::size_t shared,
                              const A&... arguments) {
    const Kernel* kernel = module_.find(name);
    if (!kernel) throw std::logic_error("no kernel " + name);
    if (kernel->parameters().size() != sizeof...(A)) throw std::logic_error(name + ": arguments");
    std::vector<std::byte> bytes(kernel->parameter_bytes());
    std::size_t k = 0;
    (put(bytes, kernel->parameters()[k++], arguments), ...);
    std::uint64_t executed = 0;
    auto findings = run(*kernel, {grid, block, shared, bytes, limit_}, *this, &executed);
    instructions_ += executed;
    return findings;
  }

  std::uint64_t instructions() const { return instructions_; }
  void limit_instructions(std::uint64_t limit) { limit_ = limit; }

 private:
  template <class T>
  static void put(std::vector<std::byte>& bytes, const Parameter& parameter, const T& value) {
    if (sizeof(T) != parameter.size) throw std::logic_error("size of " + parameter.name);
    std::memcpy(bytes.data() + parameter.offset, &value, sizeof(T));
  }

  const Module& module_;
  std::uint64_t instructions_ = 0;
  std::uint64_t limit_ = Launch{}.instruction_limit;
};

std::string to_string(const std::vector<Finding>& findings);  // "" if there are none

}  // namespace cudasim::ptx
