// Visitor: where it is, and what happens around a module. The looking itself is in the header.
#include <tandem/nn/module.h>
#include <tandem/nn/visitor.h>

namespace tandem::nn {

std::string Visitor::path() const {
  std::string path;
  for (const auto& [name, index] : steps_) {
    if (!path.empty()) path += '.';
    path += name ? std::string(name) : std::to_string(index);
  }
  return path;
}

void Visitor::enter(Module& m) {
  on_enter(m);
  m.visit(*this);
  on_leave(m);
}

}  // namespace tandem::nn
