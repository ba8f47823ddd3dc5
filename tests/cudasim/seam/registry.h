// The kernels of the program: what nvcc's static initialisers register, keyed by the address of the
// host stub. launch.cpp starts them, attributes.cpp answers questions about them.
#pragma once

#include "ptx/interpreter.h"

#include <cstddef>
#include <string>

namespace cudasim::seam {

// What one nvcc-built object brings along.
class Binary;

struct Function {
  Binary* binary;
  std::string name;                 // as in the PTX
  std::size_t opted_in_shared = 0;  // dynamic shared memory granted by cudaFuncSetAttribute
};

Binary* add_binary(const void* wrapper);
void add_function(Binary* binary, const void* stub, const char* name);

Function* find_function(const void* stub);         // null: not a kernel
const ptx::Kernel& kernel_of(Function& function);  // decodes the PTX on first use
std::size_t dynamic_shared_limit(Function& function);
constexpr std::size_t kMostShared = 227 << 10;  // per block, static and dynamic, after opting in

}  // namespace cudasim::seam
