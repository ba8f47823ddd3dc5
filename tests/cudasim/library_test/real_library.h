// A library of NVIDIA's, opened beside the simulated one of the same name: its functions are found
// by dlsym and never by the linker.
#pragma once

#include <dlfcn.h>
#include <doctest/doctest.h>

#include <string>

namespace library_test {

class RealLibrary {
 public:
  explicit RealLibrary(const std::string& name)
      : library_(dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (!found()) MESSAGE("not compared: " << dlerror());
  }
  RealLibrary(const RealLibrary&) = delete;
  RealLibrary& operator=(const RealLibrary&) = delete;

  bool found() const { return library_ != nullptr; }

  template <class Function>
  Function* get(const char* name) const {
    void* p = dlsym(library_, name);
    REQUIRE_MESSAGE(p, name);
    return reinterpret_cast<Function*>(p);
  }

 private:
  void* library_;  // stays open: these libraries do not like to be closed
};

}  // namespace library_test
