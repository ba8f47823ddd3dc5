# The rules of the house that a script can check; run as a test: cmake -DROOT=. -P check_includes.cmake
#
#   1. Includes point down only: the table below.
#   2. A backend's private headers are seen by that backend alone (core/cpu/backend.h also by
#      core/device.cpp, which holds the table of backends; core/cuda/ also by its own tests, in
#      tests/cuda/); samples, tests and benches use public headers.
#   3. Eigen, oneDNN, CUDA, zlib and JSON headers never appear in a public header.
#   4. CUDA is asked about by the preprocessor in at most two files.
#   5. No library file is longer than 400 lines.
cmake_minimum_required(VERSION 3.25)

set(library core nn optim amp data io parallel)
set(core_may core)
set(nn_may core nn)
set(optim_may core optim)
set(amp_may core optim amp)
set(data_may core data)
set(io_may core nn optim amp data io)
set(parallel_may core nn optim parallel)
set(max_lines 400)
set(max_cuda_files 2)

set(errors "")
set(cuda_files "")

# check_include(FILE FOLDER HEADER): one line `#include <HEADER>` or "HEADER" of FILE.
function(check_include file folder header)
  set(target ${header})
  if(NOT target MATCHES "^tandem/")
    if(target MATCHES "^(core|nn|optim|amp|data|io|parallel)/")
      string(PREPEND target "tandem/")  # the same file by its path in the repository
    elseif(file MATCHES "\\.h$" AND folder IN_LIST library AND NOT file MATCHES "^core/(cpu|cuda)/"
           AND target MATCHES "^(Eigen|unsupported/Eigen|oneapi|dnnl|cuda|cublas|cudnn|zlib|nlohmann)")
      list(APPEND errors "${file}: a public header includes <${header}>")
    endif()
  endif()

  if(file STREQUAL "core/device.cpp" AND target STREQUAL "tandem/core/cpu/backend.h"
     OR file MATCHES "^tests/cuda/" AND target MATCHES "^tandem/core/cuda/")
    return()
  endif()
  string(REGEX MATCH "^tandem/core/(cpu|cuda)/" private "${target}")
  string(REPLACE "tandem/" "" owner "${private}")
  if(private AND NOT file MATCHES "^${owner}")
    list(APPEND errors "${file}: <${header}> is private to ${owner}")
  elseif(folder IN_LIST library AND target MATCHES "^tandem/([a-z]+)(/|\\.h$)"
         AND NOT CMAKE_MATCH_1 IN_LIST ${folder}_may)
    list(JOIN ${folder}_may ", " allowed)
    list(APPEND errors "${file}: <${header}> points up: ${folder} may include ${allowed}")
  endif()
  set(errors "${errors}" PARENT_SCOPE)
endfunction()

foreach(folder ${library} samples tests bench)
  file(GLOB_RECURSE files RELATIVE ${ROOT}
       ${ROOT}/${folder}/*.h ${ROOT}/${folder}/*.cpp ${ROOT}/${folder}/*.cu ${ROOT}/${folder}/*.cuh)
  foreach(file ${files})
    file(STRINGS ${ROOT}/${file} includes REGEX "^[ \t]*#[ \t]*include[ \t]*[<\"]")
    foreach(line ${includes})
      if(line MATCHES "[<\"]([^>\"]+)[>\"]")
        check_include(${file} ${folder} ${CMAKE_MATCH_1})
      endif()
    endforeach()
    if(NOT folder IN_LIST library)
      continue()
    endif()

    file(STRINGS ${ROOT}/${file} conditions
         REGEX "^[ \t]*#[ \t]*(if|ifdef|ifndef|elif).*(CUDA|NVCC)")
    if(conditions)
      list(APPEND cuda_files ${file})
    endif()
    file(READ ${ROOT}/${file} text)
    string(REGEX REPLACE "[^\n]" "" text "${text}")
    string(LENGTH "${text}" lines)
    if(lines GREATER max_lines)
      list(APPEND errors "${file}: ${lines} lines, a library file has at most ${max_lines}")
    endif()
  endforeach()
endforeach()

list(LENGTH cuda_files count)
if(count GREATER max_cuda_files)
  list(JOIN cuda_files ", " names)
  list(APPEND errors "CUDA #if in ${count} files, at most ${max_cuda_files} may: ${names}")
endif()

if(errors)
  list(JOIN errors "\n  " text)
  message(FATAL_ERROR "The rules of the house are broken:\n  ${text}\n")
endif()
