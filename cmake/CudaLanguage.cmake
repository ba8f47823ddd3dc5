# Enables CUDA around three traps of CMake 3.25: architectures must be known before the language is
# enabled; no flag is known for CUDA C++20 (and the features say nothing: files would be C++17); and
# objects of CUDA pull in the static runtime, in tests and samples too, unless told not to. Included
# by TandemCuda.cmake and by tests/cudasim, which may be a project of its own.
set(CMAKE_CUDA_ARCHITECTURES 75 CACHE STRING "Of targets that do not say")
enable_language(CUDA)
if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
endif()
set(CMAKE_CUDA_RUNTIME_LIBRARY None)
