# What every kernel of the CUDA backend has to be, read from the objects that ship and from what
# ptxas said when they were made (cmake/keep_ptxas.sh):
#
#   no double precision, local memory or calls in its PTX;
#   no stack and no spills; at least half of a multiprocessor's warps in flight, in blocks of 256.
#
# Prints a table: registers, shared memory and occupancy of every kernel on every architecture.
#   cmake -DOBJECTS=<.o;.o;...> -P kernel_gate.cmake
cmake_minimum_required(VERSION 3.25)

# Words of PTX, and objects that may hold them with a reason: "stem:word".
set(forbidden "\\.f64" "(ld|st|cvta|^[ \t]*)\\.local" "(^|[ \t])call[. \t]")
set(allowed "")
set(least_occupancy 50)
# Architecture: warps of a multiprocessor, its shared memory, and what a block takes of it for itself.
set(limits_75 32 65536 0)
set(limits_80 64 167936 1024)
set(limits_90 64 233472 1024)

# Percent of a multiprocessor's warps that blocks of 256 threads keep in flight.
function(occupancy architecture registers shared result)
  list(GET limits_${architecture} 0 most_warps)
  list(GET limits_${architecture} 1 memory)
  list(GET limits_${architecture} 2 reserved)
  math(EXPR of_warp "(${registers} + 7) / 8 * 256")  # registers come in eights
  math(EXPR blocks "65536 / ${of_warp} / 4 * 4 / 8")
  math(EXPR by_memory "${memory} / (${shared} + ${reserved} + 1)")
  math(EXPR most_blocks "${most_warps} / 8")
  foreach(limit ${by_memory} ${most_blocks})
    if(limit LESS blocks)
      set(blocks ${limit})
    endif()
  endforeach()
  math(EXPR percent "${blocks} * 800 / ${most_warps}")
  set(${result} ${percent} PARENT_SCOPE)
endfunction()

# The lines of what ptxas said, with names that people can read where there is a demangler.
find_program(demangler NAMES c++filt cu++filt)
function(read_lines file result)
  file(READ ${file} text)
  if(demangler)
    execute_process(COMMAND ${demangler} INPUT_FILE ${file} OUTPUT_VARIABLE text)
    string(REGEX REPLACE "tandem::(gpu::)?|\\(anonymous namespace\\)::" "" text "${text}")
    string(REGEX REPLACE "function '(void )?([^(']+)[^']*'" "function '\\2'" text "${text}")
  endif()
  string(REGEX REPLACE "[][]" "" text "${text}")  # they would join lines to one
  string(REPLACE "\n" ";" text "${text}")
  set(${result} "${text}" PARENT_SCOPE)
endfunction()

list(FILTER OBJECTS INCLUDE REGEX "\\.cu\\.o$")
if(NOT OBJECTS)
  message(FATAL_ERROR "no objects of kernels")
endif()
set(kernels 0)
foreach(object ${OBJECTS})
  cmake_path(GET object STEM stem)
  message("${stem}")

  file(STRINGS ${object} version REGEX "^\\.version " LIMIT_COUNT 1)
  if(NOT version)
    message(SEND_ERROR "${object} holds no PTX as text")
  endif()
  foreach(word ${forbidden})
    file(STRINGS ${object} found REGEX "${word}" LIMIT_COUNT 1)
    if(found AND NOT "${stem}:${word}" IN_LIST allowed)
      message(SEND_ERROR "${stem}: ${found}")
    endif()
  endforeach()

  read_lines(${object}.ptxas lines)
  set(stack "")
  foreach(line ${lines})
    if(line MATCHES "Compiling entry function '([^']+)' for 'sm_([0-9]+)'")
      set(name ${CMAKE_MATCH_1})
      set(architecture ${CMAKE_MATCH_2})
    elseif(line MATCHES "([0-9]+) bytes stack frame, ([0-9]+) bytes spill")
      set(stack "${CMAKE_MATCH_1} ${CMAKE_MATCH_2}")
    elseif(line MATCHES "Used ([0-9]+) registers")
      set(registers ${CMAKE_MATCH_1})
      set(shared 0)
      if(line MATCHES "([0-9]+) bytes smem")
        set(shared ${CMAKE_MATCH_1})
      endif()
      set(percent "?")
      if(DEFINED limits_${architecture})
        occupancy(${architecture} ${registers} ${shared} percent)
        if(percent LESS least_occupancy)
          message(SEND_ERROR "${stem}: only ${percent} % of the warps of sm_${architecture} in ${name}")
        endif()
      endif()
      if(NOT stack STREQUAL "0 0")
        message(SEND_ERROR "${stem}: stack and spills are ${stack} bytes in ${name}")
      endif()
      message("  sm_${architecture} ${registers} registers, ${shared} shared, ${percent} %: ${name}")
      math(EXPR kernels "${kernels} + 1")
    endif()
  endforeach()
endforeach()
if(kernels EQUAL 0)
  message(SEND_ERROR "ptxas has said nothing of any kernel")
endif()
message("${kernels} kernels, counted on every architecture")
