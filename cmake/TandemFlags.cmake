# tandem_flags(target): the compile flags that every part of Tandem is built with.
#
# -ffp-contract=off: bits must not depend on the compiler's mood; where a fused multiply-add is
# meant, the source says fma(). -fno-math-errno lets sqrt vectorise, -fno-trapping-math (nobody reads
# the exception flags) loops with conditions, such as Adam's. Never -ffast-math: AMP has to see Inf
# and NaN. Without TANDEM_NATIVE an x86 build runs on any processor since 2013 (x86-64-v3). A project
# that contains Tandem and chooses no build type gets a fast library all the same.
function(tandem_flags target)
  set(flags -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual
      -fno-math-errno -fno-trapping-math -ffp-contract=off
      $<$<OR:$<CONFIG:Release>,$<CONFIG:>>:-O3>
      $<$<BOOL:${TANDEM_WERROR}>:-Werror>)
  if(TANDEM_NATIVE)
    list(APPEND flags -march=native)
  elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    list(APPEND flags -march=x86-64-v3)
  endif()
  # nvcc has its own (TandemCuda.cmake)
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${flags}>")
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF)
endfunction()

if(TANDEM_SANITIZE)
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${TANDEM_SANITIZE}>"  # nvcc knows none of these
                      $<$<COMPILE_LANGUAGE:CXX>:-fno-omit-frame-pointer>
                      $<$<COMPILE_LANGUAGE:CXX>:-fno-sanitize-recover=all>)
  add_link_options(-fsanitize=${TANDEM_SANITIZE})
endif()
