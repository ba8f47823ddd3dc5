// The small parts of interpreter.h: handles and texts. The work is in parser.cpp and block.cpp.
#include "ptx/interpreter.h"

#include "ptx/program.h"

#include <utility>

namespace cudasim::ptx {

Kernel::Kernel(std::shared_ptr<const Program> program) : program_(std::move(program)) {}

const std::string& Kernel::name() const {
  return program_->name;
}
std::span<const Parameter> Kernel::parameters() const {
  return program_->parameters;
}
std::size_t Kernel::parameter_bytes() const {
  return program_->parameter_bytes;
}
std::size_t Kernel::static_shared_bytes() const {
  return program_->static_shared;
}

const Kernel* Module::find(std::string_view name) const {
  for (const Kernel& kernel : kernels) {
    if (kernel.name() == name) return &kernel;
  }
  return nullptr;
}

std::string to_string(const Finding& f) {
  std::string text = f.kernel + ": " + f.what + " (PTX line " + std::to_string(f.line);
  if (f.source_line > 0) text += ", source line " + std::to_string(f.source_line);
  text += ")";
  if (f.count > 1) text += ", " + std::to_string(f.count) + " times";
  return text;
}

}  // namespace cudasim::ptx
